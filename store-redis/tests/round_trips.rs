//! How often a server is called: once for anything that lives in one place, by the server's own count.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, Charge, IdempotencyKey, Limit, Request, Time, Verdict};
use tollgate_store_redis::RedisStore;
use tollgate_testkit::Redis;

const NOW: Time = Time::EPOCH;

/// What scripts may call; anything else would be a round trip of its own.
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

struct Counting {
    redis: Redis,
    store: RedisStore,
}

/// Calls of scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Calls {
    by_name: u64,
    by_text: u64,
}

const ONE: Calls = Calls { by_name: 1, by_text: 0 };
/// By name, which the server does not know, and then by its text.
const TAUGHT: Calls = Calls { by_name: 1, by_text: 1 };

impl Counting {
    async fn start() -> Self {
        let redis = Redis::start(&[]).await;
        let store = RedisStore::connect(&redis.url()).await.expect("a server");
        store.reach().await.expect("a server that answers");
        Self { redis, store }
    }

    /// How often each command was executed, in scripts too, since the last time.
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

    /// How often scripts were called since the last time. Nothing else may have been.
    async fn calls(&self) -> Calls {
        let mut commands = self.commands().await;
        let mut take = |name| commands.remove(name).unwrap_or(0);
        let calls = Calls { by_name: take("evalsha"), by_text: take("eval") };
        for name in commands.keys() {
            assert!(IN_SCRIPTS.contains(&name.as_str()), "a round trip for {name}");
        }
        calls
    }

    async fn decide(&self, charges: &[Charge<'_>]) -> Verdict {
        self.store.decide(Request::new(charges), NOW).await.expect("a verdict")
    }

    /// Lets the server know the scripts for these charges.
    async fn teach(&self, charges: &[Charge<'_>]) {
        let _ = self.decide(charges).await;
        if let [charge] = charges {
            // A check alone has a script of its own.
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

fn whom(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user:{number}")).collect()
}

#[tokio::test]
async fn any_number_of_charges_is_one_call() {
    let server = Counting::start().await;
    for limit in [bucket(), log(), window()] {
        server.teach(&[limit.charge("first")]).await;
        for count in [1, 5, 50] {
            let whom = whom(count);
            let charges: Vec<_> = whom.iter().map(|whom| limit.charge(whom)).collect();
            assert!(server.decide(&charges).await.is_allowed());
            assert_eq!(server.calls().await, ONE, "{count} charges of {}", limit.name());
        }
    }
}

#[tokio::test]
async fn charges_of_several_algorithms_are_one_call() {
    let server = Counting::start().await;
    let limits = [bucket(), log(), window()];
    let charges: Vec<_> = limits.iter().map(|limit| limit.charge("alice")).collect();
    server.teach(&charges).await;
    assert!(server.decide(&charges).await.is_allowed());
    assert_eq!(server.calls().await, ONE);
}

#[tokio::test]
async fn a_single_charge_is_one_call() {
    let server = Counting::start().await;
    for limit in [bucket(), log(), window()] {
        let charge = limit.charge("alice");
        server.teach(&[charge]).await;
        assert!(server.store.decide_one(&charge, &NOW).await.expect("a decision").is_allowed());
        assert_eq!(server.calls().await, ONE, "{}", limit.name());
    }
}

#[tokio::test]
async fn a_batch_of_64_requests_is_one_call() {
    let server = Counting::start().await;
    let whom = whom(64);
    for limit in [bucket(), log(), window()] {
        server.teach(&[limit.charge("first")]).await;
        let charges: Vec<_> = whom.iter().map(|whom| [limit.charge(whom)]).collect();
        let batch: Vec<_> = charges.iter().map(|charges| Run::new(Request::new(charges), 1)).collect();
        let answers = server.store.decide_batch(&batch, NOW).await;
        assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|run| run.passed() == 1)));
        assert_eq!(server.calls().await, ONE, "{}", limit.name());
    }
}

#[tokio::test]
async fn a_run_of_1000_requests_is_one_call() {
    let server = Counting::start().await;
    for limit in [bucket(), log(), window()] {
        let charges = [limit.charge("alice")];
        server.teach(&charges).await;
        let answers = server.store.decide_batch(&[Run::new(Request::new(&charges), 1_000)], NOW).await;
        assert_eq!(answers[0].as_ref().expect("verdicts").passed(), 1_000);
        assert_eq!(server.calls().await, ONE, "{}", limit.name());
    }
}

#[tokio::test]
async fn a_named_operation_is_one_call_and_so_is_its_repetition() {
    let server = Counting::start().await;
    for (number, limit) in [bucket(), log(), window()].into_iter().enumerate() {
        let charges = [limit.charge("alice"), limit.charge("bob")];
        let named = |id: u128| Request::new(&charges).with_idempotency_key(IdempotencyKey::new(id));
        let decide = async |id| server.store.decide(named(id), NOW).await.expect("a verdict");
        let first = 10 * number as u128;
        let _ = decide(first).await;
        server.commands().await;
        let told = decide(first + 1).await;
        assert_eq!(server.calls().await, ONE, "{}", limit.name());
        assert_eq!(decide(first + 1).await.decisions(), told.decisions());
        assert_eq!(server.calls().await, ONE, "again, {}", limit.name());
    }
}

/// Debits of hundreds of keys, and what is there then.
#[tokio::test]
async fn an_exchange_is_one_call_and_so_is_its_repetition() {
    let server = Counting::start().await;
    let whom = whom(250);
    let uneven = Limit::per_hour(77).burst(30).build("uneven").expect("valid");
    let fixed = Limit::per_hour(2_000).fixed_window().build("fixed").expect("valid");
    for limit in [bucket(), uneven, fixed, window(), log()] {
        // A little while ago, by the server's clock.
        let ago =
            server.decide(&[limit.charge("first").with_cost(0)]).await.decided_at() - Duration::from_secs(1);
        let debit = Action::Debit { at: Some(ago) };
        let charges: Vec<_> =
            whom.iter().map(|whom| limit.charge(whom).with_cost(3).with_action(debit)).collect();
        let exchange = async |id| {
            let request = Request::new(&charges).with_idempotency_key(id);
            let told = server.store.apply_deltas(request, NOW).await.expect("states");
            assert_eq!(told.len(), charges.len(), "{}", limit.name());
        };
        exchange(IdempotencyKey::unique()).await;
        server.commands().await;
        let id = IdempotencyKey::unique();
        for which in ["the first", "its repetition"] {
            exchange(id).await;
            assert_eq!(server.calls().await, ONE, "{}, {which}", limit.name());
        }
        let charges: Vec<_> = charges.iter().map(|charge| charge.with_cost(0)).collect();
        let look = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
        assert_eq!(server.store.apply_deltas(look, NOW).await.expect("states").len(), charges.len());
        assert_no_writes(&server.commands().await, 1);
    }
}

#[tokio::test]
async fn a_peek_is_one_call_and_writes_nothing() {
    let server = Counting::start().await;
    for limit in [bucket(), log(), window()] {
        let look = [limit.charge("alice").with_cost(0)];
        server.teach(&[limit.charge("alice"), limit.charge("bob")]).await;
        server.teach(&look).await;
        assert!(server.decide(&look).await.is_allowed());
        assert_no_writes(&server.commands().await, 1);
    }
}

#[tokio::test]
async fn a_denial_by_a_bucket_writes_nothing() {
    let server = Counting::start().await;
    let small = || Limit::per_hour(5);
    for limit in [small(), small().leaky_bucket(), small().gcra(), Limit::per_hour(7).burst(5)] {
        let limit = limit.build("small").expect("valid");
        let charges = [limit.charge("alice").with_cost(5)];
        server.teach(&charges).await;
        assert!(server.decide(&charges).await.is_denied());
        assert!(server.store.decide_one(&charges[0], &NOW).await.expect("a decision").is_denied());
        let both = [limit.charge("alice"), limit.charge("bob")];
        assert!(server.decide(&both).await.is_denied());
        assert_no_writes(&server.commands().await, 3);
    }
}

fn assert_no_writes(commands: &BTreeMap<String, u64>, calls: u64) {
    assert_eq!(commands.get("evalsha"), Some(&calls), "{commands:?}");
    let reads = ["evalsha", "time", "get", "mget", "getrange", "zrange", "info"];
    assert!(commands.keys().all(|name| reads.contains(&name.as_str())), "{commands:?}");
}

#[tokio::test]
async fn a_script_that_the_server_does_not_know_costs_one_more_call_once() {
    let server = Counting::start().await;
    server.commands().await;
    let limits = [bucket(), log(), window()];
    for round in 0..2 {
        for limit in &limits {
            let take = [limit.charge("alice")];
            let debit = [limit.charge("alice").with_action(Action::Debit { at: None })];
            let _ = server.decide(&take).await;
            assert_eq!(server.calls().await, TAUGHT, "round {round}, {}", limit.name());
            let _ = server.decide(&take).await;
            assert_eq!(server.calls().await, ONE, "round {round}, {}", limit.name());
            let _ = server.decide(&debit).await;
            // Plain takes from a bucket have a script of their own.
            let taught = if limit.name() == "bucket" { TAUGHT } else { ONE };
            assert_eq!(server.calls().await, taught, "round {round}, a debit from {}", limit.name());
        }
        // Another client finds the scripts that this one has brought.
        let other = RedisStore::connect(&server.redis.url()).await.expect("a server");
        other.reach().await.expect("a server that answers");
        server.commands().await;
        let _ = other.decide(Request::new(&[limits[1].charge("alice")]), NOW).await.expect("a verdict");
        assert_eq!(server.calls().await, ONE);
        // A server that has forgotten its scripts, as after a restart, is taught again.
        server.redis.call(&["SCRIPT", "FLUSH"]).await;
        server.commands().await;
    }
}
