//! Round trips, as counted by the server and by `RedisStore::stats`: one for anything that lives in one place.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, AlgorithmKind, Charge, IdempotencyKey, Key, Limit, Request, Time, Verdict};
use tollgate_store_redis::RedisStore;
use tollgate_testkit::Redis;

const NOW: Time = Time::EPOCH;

/// The commands that scripts call. Any other command would be a round trip of its own.
const IN_SCRIPTS: [&str; 16] = [
    "time",
    "get",
    "mget",
    "set",
    "psetex",
    "del",
    "unlink",
    "pexpire",
    "getrange",
    "setrange",
    "zadd",
    "zrem",
    "zrange",
    "zrangebylex",
    "zcard",
    "info",
];

struct Fixture {
    redis: Redis,
    store: RedisStore,
}

/// Script calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calls {
    evalsha: u64,
    eval: u64,
}

const ONE: Calls = Calls { evalsha: 1, eval: 0 };
/// `NOSCRIPT`, and then the text of the script.
const LOADED: Calls = Calls { evalsha: 1, eval: 1 };

impl Fixture {
    async fn start() -> Self {
        let redis = Redis::start(&[]).await;
        let store = RedisStore::connect(&redis.url()).await.expect("a server");
        store.ping().await.expect("a server that answers");
        Self { redis, store }
    }

    /// Returns how often each command was executed since the last call, inside of scripts as well.
    async fn commands(&self) -> BTreeMap<String, u64> {
        let stats = self.redis.call(&["INFO", "commandstats"]).await.text();
        self.redis.call(&["CONFIG", "RESETSTAT"]).await;
        let command = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse().ok()?;
            (name != "config|resetstat").then(|| (name.to_owned(), calls))
        };
        stats.lines().filter_map(command).collect()
    }

    /// Returns the script calls since the last call. No other command may have been sent.
    async fn calls(&self) -> Calls {
        let mut commands = self.commands().await;
        let mut take = |name| commands.remove(name).unwrap_or(0);
        let calls = Calls { evalsha: take("evalsha"), eval: take("eval") };
        for name in commands.keys() {
            assert!(IN_SCRIPTS.contains(&name.as_str()), "a round trip for {name}");
        }
        calls
    }

    async fn decide(&self, charges: &[Charge<'_>]) -> Verdict {
        self.store.decide(Request::new(charges), NOW).await.expect("a verdict")
    }

    /// Makes the server cache the scripts for these charges.
    async fn warm_up(&self, charges: &[Charge<'_>]) {
        let _ = self.decide(charges).await;
        if let [charge] = charges {
            // A single check may have a script of its own.
            let _ = self.store.decide_one(charge, &NOW).await;
        }
        self.commands().await;
    }
}

fn bucket() -> Limit {
    Limit::per_hour(100_000).build("bucket").expect("valid")
}

fn log() -> Limit {
    Limit::per_hour(2_000).sliding_log().build("log").expect("valid")
}

fn window() -> Limit {
    Limit::per_hour(2_000).sliding_window().build("window").expect("valid")
}

fn entities(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user:{number}")).collect()
}

#[tokio::test]
async fn any_number_of_charges_is_one_call() {
    let fixture = Fixture::start().await;
    for limit in [bucket(), log(), window()] {
        fixture.warm_up(&[limit.charge("first")]).await;
        for count in [1, 5, 50] {
            let entities = entities(count);
            let charges: Vec<_> = entities.iter().map(|entity| limit.charge(entity)).collect();
            assert!(fixture.decide(&charges).await.is_allowed());
            assert_eq!(fixture.calls().await, ONE, "{count} charges of {}", limit.name());
        }
    }
}

#[tokio::test]
async fn charges_of_several_algorithms_are_one_call() {
    let fixture = Fixture::start().await;
    let limits = [bucket(), log(), window()];
    let charges: Vec<_> = limits.iter().map(|limit| limit.charge("alice")).collect();
    fixture.warm_up(&charges).await;
    assert!(fixture.decide(&charges).await.is_allowed());
    assert_eq!(fixture.calls().await, ONE);
}

#[tokio::test]
async fn a_single_charge_is_one_call() {
    let fixture = Fixture::start().await;
    for limit in [bucket(), log(), window()] {
        let charge = limit.charge("alice");
        fixture.warm_up(&[charge]).await;
        assert!(fixture.store.decide_one(&charge, &NOW).await.expect("a decision").is_allowed());
        assert_eq!(fixture.calls().await, ONE, "{}", limit.name());
    }
}

#[tokio::test]
async fn a_batch_of_64_requests_is_one_call() {
    let fixture = Fixture::start().await;
    let entities = entities(64);
    for limit in [bucket(), log(), window()] {
        fixture.warm_up(&[limit.charge("first")]).await;
        let charges: Vec<_> = entities.iter().map(|entity| [limit.charge(entity)]).collect();
        let batch: Vec<_> = charges.iter().map(|charges| Run::new(Request::new(charges), 1)).collect();
        let results = fixture.store.decide_batch(&batch, NOW).await;
        assert!(results.iter().all(|result| result.as_ref().is_ok_and(|run| run.passed() == 1)));
        assert_eq!(fixture.calls().await, ONE, "{}", limit.name());
    }
}

#[tokio::test]
async fn a_run_of_1000_requests_is_one_call() {
    let fixture = Fixture::start().await;
    for limit in [bucket(), log(), window()] {
        let charges = [limit.charge("alice")];
        fixture.warm_up(&charges).await;
        let results = fixture.store.decide_batch(&[Run::new(Request::new(&charges), 1_000)], NOW).await;
        assert_eq!(results[0].as_ref().expect("verdicts").passed(), 1_000);
        assert_eq!(fixture.calls().await, ONE, "{}", limit.name());
    }
}

#[tokio::test]
async fn a_request_with_an_idempotency_key_is_one_call_and_so_is_its_repetition() {
    let fixture = Fixture::start().await;
    for (number, limit) in [bucket(), log(), window()].into_iter().enumerate() {
        let charges = [limit.charge("alice"), limit.charge("bob")];
        let request = |key: u128| Request::new(&charges).with_idempotency_key(IdempotencyKey::new(key));
        let decide = async |key| fixture.store.decide(request(key), NOW).await.expect("a verdict");
        let first = 10 * number as u128;
        let _ = decide(first).await;
        fixture.commands().await;
        let verdict = decide(first + 1).await;
        assert_eq!(fixture.calls().await, ONE, "{}", limit.name());
        assert_eq!(decide(first + 1).await.decisions(), verdict.decisions());
        assert_eq!(fixture.calls().await, ONE, "again, {}", limit.name());
    }
}

/// Debits on hundreds of keys, and their states.
#[tokio::test]
async fn a_batch_of_deltas_is_one_call_and_so_is_its_repetition() {
    let fixture = Fixture::start().await;
    let entities = entities(250);
    let uneven = Limit::per_hour(77).burst(30).build("uneven").expect("valid");
    let fixed = Limit::per_hour(2_000).fixed_window().build("fixed").expect("valid");
    let counter = Limit::per_hour(2_000).sliding_counter(60).build("counter").expect("valid");
    let by_interval = Limit::per_hour(2_000).refill_by_interval().build("by interval").expect("valid");
    for limit in [bucket(), uneven, fixed, window(), counter, by_interval, log()] {
        // One second ago, by the server's clock.
        let ago =
            fixture.decide(&[limit.charge("first").with_cost(0)]).await.decided_at() - Duration::from_secs(1);
        let debit = Action::Debit { at: Some(ago) };
        let charges: Vec<_> =
            entities.iter().map(|entity| limit.charge(entity).with_cost(3).with_action(debit)).collect();
        let apply = async |key| {
            let request = Request::new(&charges).with_idempotency_key(key);
            let exports = fixture.store.apply_deltas(request, NOW).await.expect("states");
            assert_eq!(exports.len(), charges.len(), "{}", limit.name());
        };
        apply(IdempotencyKey::unique()).await;
        fixture.commands().await;
        let key = IdempotencyKey::unique();
        for which in ["the first", "its repetition"] {
            apply(key).await;
            let commands = fixture.commands().await;
            assert_eq!(commands.get("evalsha"), Some(&1), "{}, {which}", limit.name());
            // The general script reads one state after the other.
            let is_general = limit.kind() == AlgorithmKind::SlidingLog;
            assert_eq!(commands.contains_key("mget"), !is_general, "{}, {which}", limit.name());
        }
        let charges: Vec<_> = charges.iter().map(|charge| charge.with_cost(0)).collect();
        let peek = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
        assert_eq!(fixture.store.apply_deltas(peek, NOW).await.expect("states").len(), charges.len());
        assert_no_writes(&fixture.commands().await, 1);
    }
}

/// Debits on buckets, and on windows that count more than a check of them could compute, in one batch with refunds.
#[tokio::test]
async fn deltas_on_several_algorithms_are_one_call_of_the_short_script() {
    let fixture = Fixture::start().await;
    let entities = entities(80);
    let usage = Limit::per(Limit::MAX_COUNT, Duration::from_secs(120)).sliding_window();
    let limits = [bucket(), usage.build("usage").expect("valid"), window()];
    let debits = entities.iter().flat_map(|entity| limits.iter().map(move |limit| limit.charge(entity)));
    let mut charges: Vec<_> =
        debits.map(|charge| charge.with_cost(3).with_action(Action::Debit { at: None })).collect();
    charges.push(limits[0].charge(&entities[0]).with_action(Action::Refund { at: None }));
    for _ in 0..2 {
        fixture.commands().await;
        let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
        let exports = fixture.store.apply_deltas(request, NOW).await.expect("states");
        assert_eq!(exports.len(), charges.len());
        let commands = fixture.commands().await;
        assert!(commands.contains_key("mget") && !commands.contains_key("set"), "{commands:?}");
    }
}

#[tokio::test]
async fn hundreds_of_deltas_are_forgotten_by_one_command() {
    let fixture = Fixture::start().await;
    let (limit, entities) = (bucket(), (0..300).map(|entity| format!("user:{entity}")));
    let deltas: Vec<_> = entities.map(|entity| (entity, IdempotencyKey::unique())).collect();
    for (entity, key) in &deltas {
        let charges = [limit.charge(entity).with_action(Action::Debit { at: None })];
        let request = Request::new(&charges).with_idempotency_key(*key);
        fixture.store.apply_deltas(request, NOW).await.expect("states");
    }
    fixture.commands().await;
    let deltas: Vec<_> = deltas.iter().map(|(entity, key)| (Key::from(entity), *key)).collect();
    fixture.store.forget_idempotency_keys(&deltas).await;
    fixture.store.forget_idempotency_keys(&[]).await;
    assert_eq!(fixture.commands().await, BTreeMap::from([("unlink".to_owned(), 1)]));
    assert_eq!(fixture.store.stats().deletions, 1);
    let left = fixture.redis.call(&["KEYS", "*"]).await.texts();
    assert_eq!(left.len(), deltas.len(), "one state for each entity, and no record: {left:?}");
    assert!(left.iter().all(|name| name.contains(limit.name())), "{left:?}");
}

#[tokio::test]
async fn a_peek_is_one_call_and_writes_nothing() {
    let fixture = Fixture::start().await;
    for limit in [bucket(), log(), window()] {
        let peek = [limit.charge("alice").with_cost(0)];
        fixture.warm_up(&[limit.charge("alice"), limit.charge("bob")]).await;
        fixture.warm_up(&peek).await;
        assert!(fixture.decide(&peek).await.is_allowed());
        assert_no_writes(&fixture.commands().await, 1);
    }
}

#[tokio::test]
async fn a_denial_by_a_bucket_writes_nothing() {
    let fixture = Fixture::start().await;
    let small = || Limit::per_hour(5);
    for limit in [small(), small().leaky_bucket(), small().gcra(), Limit::per_hour(7).burst(5)] {
        let limit = limit.build("small").expect("valid");
        let charges = [limit.charge("alice").with_cost(5)];
        fixture.warm_up(&charges).await;
        assert!(fixture.decide(&charges).await.is_denied());
        assert!(fixture.store.decide_one(&charges[0], &NOW).await.expect("a decision").is_denied());
        let both = [limit.charge("alice"), limit.charge("bob")];
        assert!(fixture.decide(&both).await.is_denied());
        assert_no_writes(&fixture.commands().await, 3);
    }
}

fn assert_no_writes(commands: &BTreeMap<String, u64>, calls: u64) {
    assert_eq!(commands.get("evalsha"), Some(&calls), "{commands:?}");
    let reads = ["evalsha", "time", "get", "mget", "getrange", "zrange", "info"];
    assert!(commands.keys().all(|name| reads.contains(&name.as_str())), "{commands:?}");
}

#[tokio::test]
async fn a_script_that_the_server_has_not_cached_costs_one_more_call_once() {
    let fixture = Fixture::start().await;
    fixture.commands().await;
    let limits = [bucket(), log(), window()];
    for round in 0..2 {
        for limit in &limits {
            let take = [limit.charge("alice")];
            let debit = [limit.charge("alice").with_action(Action::Debit { at: None })];
            let _ = fixture.decide(&take).await;
            assert_eq!(fixture.calls().await, LOADED, "round {round}, {}", limit.name());
            let _ = fixture.decide(&take).await;
            assert_eq!(fixture.calls().await, ONE, "round {round}, {}", limit.name());
            let _ = fixture.decide(&debit).await;
            // Plain takes have a script of their own.
            assert_eq!(fixture.calls().await, LOADED, "round {round}, a debit from {}", limit.name());
        }
        // Another client uses the scripts that this one has loaded.
        let other = RedisStore::connect(&fixture.redis.url()).await.expect("a server");
        other.ping().await.expect("a server that answers");
        fixture.commands().await;
        let _ = other.decide(Request::new(&[limits[1].charge("alice")]), NOW).await.expect("a verdict");
        assert_eq!(fixture.calls().await, ONE);
        // The scripts are loaded again after the server has lost them, as after a restart.
        fixture.redis.call(&["SCRIPT", "FLUSH"]).await;
        fixture.commands().await;
    }
}
