//! A real cluster, whose slots move and whose nodes die while the store is in use.

mod patience;
mod spending;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use patience::eventually;
use spending::{NOW, config, limit, spent, take};
use tokio::task::JoinSet;
use tollgate_core::store::{Run, Store};
use tollgate_core::{
    Action, Charge, Decision, Effect, ErrorKind, IdempotencyKey, Key, Limit, Request, StoreError, Verdict,
};
use tollgate_store_redis::RedisStore;
use tollgate_testkit::{Redis, RedisCluster, Reply};

const CALLERS: u32 = 8;

fn url(cluster: &RedisCluster) -> String {
    let all: Vec<_> = cluster.servers().iter().map(Redis::address).collect();
    format!("redis+cluster://{}", all.join(","))
}

async fn open(cluster: &RedisCluster) -> RedisStore {
    config(&url(cluster)).must_be_there().connect().await.expect("a cluster")
}

fn slot(entity: &str) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(entity.as_bytes()) % 16_384
}

/// Entities that share a slot.
fn neighbours(count: usize) -> (u16, Vec<String>) {
    let all: Vec<_> =
        (0..400_000).map(|index| format!("user:{index}")).filter(|user| slot(user) == 42).collect();
    (42, all[..count].to_vec())
}

/// Entities in as many slots, on all nodes.
fn strangers(name: &str, count: usize) -> Vec<String> {
    let mut seen = BTreeSet::new();
    (0..).map(|index| format!("{name}:{index}")).filter(|user| seen.insert(slot(user))).take(count).collect()
}

/// One of each, or nothing.
fn each<'a>(limit: &'a Limit, entities: &'a [String]) -> Vec<Charge<'a>> {
    entities.iter().map(|entity| limit.charge(entity)).collect()
}

async fn decide(store: &RedisStore, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
    store.decide(Request::new(charges), NOW).await
}

/// A cluster for tests that leave it as it is.
async fn shared() -> &'static RedisCluster {
    static SHARED: tokio::sync::OnceCell<RedisCluster> = tokio::sync::OnceCell::const_new();
    SHARED.get_or_init(RedisCluster::start).await
}

/// What came of hammering.
#[derive(Default)]
struct Tally {
    passed: AtomicU32,
    stop: AtomicBool,
    errors: std::sync::Mutex<Vec<StoreError>>,
}

impl Tally {
    fn count(&self, told: Result<bool, StoreError>) {
        match told {
            Ok(passed) => drop(self.passed.fetch_add(passed.into(), Ordering::Relaxed)),
            Err(error) => self.errors.lock().expect("no panic").push(error),
        }
    }

    fn passed(&self) -> u32 {
        self.passed.load(Ordering::Relaxed)
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn errors(&self) -> Vec<StoreError> {
        std::mem::take(&mut self.errors.lock().expect("no panic"))
    }
}

/// Waits until that many more have passed.
async fn more(tally: &Tally, count: u32) {
    let from = tally.passed();
    eventually("calls that pass", async || (tally.passed() >= from + count).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_under_load_and_every_token_counts() {
    let cluster = RedisCluster::start().await;
    // Calls with several keys wait until the slot has moved.
    let store = config(&url(&cluster)).call_timeout(Duration::from_secs(30)).connect().await.expect("valid");
    let (slot, users) = neighbours(4);
    let (plain, one, other) = (limit("plain", 1_000_000), limit("one", 1_000_000), limit("other", 1_000_000));
    let checks: Vec<Arc<Tally>> = users.iter().map(|_| Arc::default()).collect();
    let named: Vec<Arc<Tally>> = users.iter().map(|_| Arc::default()).collect();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let index = caller as usize % users.len();
        let (store, user) = (store.clone(), users[index].clone());
        let (plain, one, other) = (plain.clone(), one.clone(), other.clone());
        let by_name = caller as usize >= users.len();
        let tally = Arc::clone(if by_name { &named[index] } else { &checks[index] });
        callers.spawn(async move {
            while tally.goes_on() {
                if by_name {
                    let charges = [one.charge(&user), other.charge(&user)];
                    let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
                    tally.count(store.decide(request, NOW).await.map(|verdict| verdict.is_allowed()));
                } else {
                    tally.count(take(&store, &plain, &user).await);
                }
            }
        });
    }
    for to in [1, 2] {
        more(&checks[0], 50).await;
        more(&named[0], 50).await;
        let migration = cluster.migrate(slot, to).await;
        more(&checks[0], 50).await;
        migration.move_keys().await;
        more(&checks[0], 50).await;
        migration.finish().await;
    }
    more(&named[0], 50).await;
    for tally in checks.iter().chain(&named) {
        tally.stop.store(true, Ordering::Relaxed);
    }
    while let Some(ended) = callers.join_next().await {
        ended.expect("no panic");
    }
    assert!(asked(&cluster, "ASK").await > 0 && asked(&cluster, "MOVED").await > 0, "it was redirected");
    for (index, user) in users.iter().enumerate() {
        for tally in [&checks[index], &named[index]] {
            assert!(tally.errors().is_empty(), "nobody notices");
        }
        assert_eq!(spent(&store, &plain, user).await, checks[index].passed(), "{user}");
        assert_eq!(spent(&store, &one, user).await, named[index].passed(), "{user}");
        assert_eq!(spent(&store, &other, user).await, named[index].passed(), "{user}");
    }
}

/// How often the nodes have refused like that.
async fn asked(cluster: &RedisCluster, code: &str) -> u32 {
    let mut sum = 0;
    for server in cluster.servers() {
        let stats = server.call(&["INFO", "errorstats"]).await;
        let count = stats.field(&format!("errorstat_{code}"));
        sum += count.map_or(0, |count| count.trim_start_matches("count=").parse().expect("a count"));
    }
    sum
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_whose_keys_are_half_moved_waits_for_the_rest() {
    let cluster = RedisCluster::start().await;
    let patient =
        config(&url(&cluster)).call_timeout(Duration::from_secs(30)).connect().await.expect("valid");
    let hasty =
        config(&url(&cluster)).call_timeout(Duration::from_millis(200)).connect().await.expect("valid");
    let (slot, users) = neighbours(1);
    let limits = [limit("one", 10), limit("other", 10)];
    let charges = |user| limits.each_ref().map(|limit| limit.charge(user));
    assert!(decide(&patient, &charges(&users[0])).await.expect("an answer").is_allowed());

    let to = (cluster.primary_of_slot(slot).await + 1) % 3;
    let migration = cluster.migrate(slot, to).await;
    let source = migration.source();
    let keys = source.call(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"]).await.texts();
    assert_eq!(keys.len(), 2);
    let port = migration.target().port().to_string();
    source.call(&["MIGRATE", "127.0.0.1", &port, &keys[0], "0", "5000"]).await;

    let error = decide(&hasty, &charges(&users[0])).await.expect_err("half of the keys are elsewhere");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    let refused = asked(&cluster, "TRYAGAIN").await;
    assert!(refused > 1, "it was sent more than once");
    let waits = tokio::spawn({
        let (patient, limits, user) = (patient.clone(), limits.clone(), users[0].clone());
        async move { decide(&patient, &limits.each_ref().map(|limit| limit.charge(&user))).await }
    });
    // More often than a redirection is followed.
    eventually("a call that is tried again", async || {
        (asked(&cluster, "TRYAGAIN").await > refused + 20).then_some(())
    })
    .await;
    migration.finish().await;
    assert!(waits.await.expect("no panic").expect("an answer").is_allowed());
    for limit in &limits {
        assert_eq!(spent(&patient, limit, &users[0]).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_dies_under_load() {
    let mut cluster = RedisCluster::start().await;
    let store = open(&cluster).await;
    let (slot, users) = neighbours(1);
    let limit = limit("api", 10_000_000);
    let tally = Arc::new(Tally::default());
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (store, limit, user, tally) =
            (store.clone(), limit.clone(), users[0].clone(), Arc::clone(&tally));
        callers.spawn(async move {
            while tally.goes_on() {
                tally.count(take(&store, &limit, &user).await);
            }
        });
    }
    more(&tally, 100).await;
    cluster.fail_over(slot).await;
    more(&tally, 100).await;
    tally.stop.store(true, Ordering::Relaxed);
    while let Some(ended) = callers.join_next().await {
        ended.expect("no panic");
    }
    let errors = tally.errors();
    assert!(!errors.is_empty(), "somebody noticed");
    for error in &errors {
        assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error}");
    }
    let unknown =
        u32::try_from(errors.iter().filter(|error| error.effect() == Effect::Unknown).count()).expect("few");
    let (passed, spent) = (tally.passed(), spent(&store, &limit, &users[0]).await);
    // The replica may not have heard of what was answered last: at most one call of each caller.
    assert!(passed <= spent + CALLERS, "{passed} passed, {spent} spent");
    assert!(spent <= passed + unknown, "{passed} passed, {unknown} unknown, {spent} spent");
    assert!(unknown <= CALLERS, "a call that was refused has no effect");
}

#[tokio::test]
async fn one_denies_and_the_other_nine_have_everything_back() {
    let store = open(shared().await).await;
    let users = strangers("nine", 10);
    let narrow = limit("narrow", 20);
    let log = Limit::per_hour(20).sliding_log().build("log").expect("valid");
    for limit in [&narrow, &log] {
        let all = each(limit, &users);
        for _ in 0..5 {
            assert!(decide(&store, &all).await.expect("an answer").is_allowed());
        }
        let last = [limit.charge(&users[9]).with_cost(15)];
        assert!(decide(&store, &last).await.expect("an answer").is_allowed());
        let looks: Vec<_> = all.iter().map(|charge| charge.with_cost(0)).collect();
        let before = look(&store, &looks).await;
        let id = IdempotencyKey::unique();
        for request in [
            Request::new(&all),
            Request::new(&all).with_idempotency_key(id),
            Request::new(&all).with_idempotency_key(id),
        ] {
            let denied = store.decide(request, NOW).await.expect("an answer");
            assert!(denied.is_denied());
            assert_eq!(denied.most_restrictive_index(), Some(9));
            assert_eq!(look(&store, &looks).await, before, "{}", limit.name());
        }
        // The same id once more, with room: whatever it is told is what is charged.
        let forget = [limit.charge(&users[9]).with_action(Action::Reset)];
        assert!(decide(&store, &forget).await.expect("an answer").is_allowed());
        let told = store.decide(Request::new(&all).with_idempotency_key(id), NOW).await.expect("an answer");
        let more = u32::from(told.is_allowed());
        for (index, user) in users.iter().enumerate() {
            let before = if index == 9 { 0 } else { 5 };
            assert_eq!(spent(&store, limit, user).await, before + more, "{}", limit.name());
        }
    }
}

async fn look(store: &RedisStore, looks: &[Charge<'_>]) -> Vec<Decision> {
    let mut all = Vec::new();
    for look in looks {
        all.push(store.decide_one(look, &NOW).await.expect("a look"));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_over_many_entities_never_pass_a_limit() {
    const LIMIT: u32 = 60;
    let store = open(shared().await).await;
    let users = strangers("crowd", 10);
    let limit = limit("crowd", LIMIT);
    let mut callers = JoinSet::new();
    for caller in 0..16_usize {
        let (store, users, limit) = (store.clone(), users.clone(), limit.clone());
        callers.spawn(async move {
            let mut passed = vec![0_u32; users.len()];
            for round in 0..40_usize {
                let chosen: Vec<_> =
                    (0..4).map(|index| (caller + round * 3 + index * (round % 2 + 1)) % 10).collect();
                let charges: Vec<_> = chosen.iter().map(|index| limit.charge(&users[*index])).collect();
                if decide(&store, &charges).await.expect("an answer").is_allowed() {
                    for index in chosen {
                        passed[index] += 1;
                    }
                }
            }
            passed
        });
    }
    let all = callers.join_all().await;
    for (index, user) in users.iter().enumerate() {
        let passed: u32 = all.iter().map(|passed| passed[index]).sum();
        assert!(passed <= LIMIT, "{user}: {passed}");
        assert!(passed > LIMIT / 4, "{user}: {passed} of a demand of 256");
        assert_eq!(spent(&store, &limit, user).await, passed, "{user}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_future_leaves_nothing_half_done() {
    const ROUNDS: u32 = 600;
    const NARROW: u32 = 40;
    let store = open(shared().await).await;
    let users = strangers("dropped", 6);
    let (wide, narrow) = (limit("wide", 100_000), limit("narrow", NARROW));
    let (mut ended, mut dropped) = (0, 0);
    for round in 0..ROUNDS {
        let task = tokio::spawn({
            let (store, users, wide, narrow) = (store.clone(), users.clone(), wide.clone(), narrow.clone());
            async move {
                let mut charges = each(&wide, &users[1..]);
                charges.push(narrow.charge(&users[0]));
                decide(&store, &charges).await.expect("an answer").is_allowed()
            }
        });
        // Somewhere on the way, from before it begins until after it has ended.
        for _ in 0..round * 37 % 4_000 {
            tokio::task::yield_now().await;
        }
        task.abort();
        match task.await {
            Ok(passed) => ended += u32::from(passed),
            Err(_) => dropped += 1,
        }
    }
    assert!(dropped > 0, "some were dropped");
    eventually("quiescence", async || {
        let whole = spent(&store, &narrow, &users[0]).await;
        assert!(
            whole == NARROW && whole >= ended,
            "{whole} of {ended} at least: the others had to give back"
        );
        for user in &users[1..] {
            if spent(&store, &wide, user).await != whole {
                return None;
            }
        }
        Some(())
    })
    .await;
}

/// How many scripts the nodes have been asked to run.
async fn calls(cluster: &RedisCluster) -> u32 {
    let mut sum = 0;
    for server in cluster.servers() {
        let stats = server.call(&["INFO", "commandstats"]).await;
        for command in ["cmdstat_evalsha", "cmdstat_eval"] {
            let calls = stats.field(command).and_then(|stat| {
                stat.split(',').find_map(|part| part.strip_prefix("calls=")?.parse::<u32>().ok())
            });
            sum += calls.unwrap_or(0);
        }
    }
    sum
}

#[tokio::test]
async fn one_call_per_verdict_whatever_the_entity_is_called_and_one_per_slot_of_a_batch() {
    let cluster = RedisCluster::start().await;
    let store = open(&cluster).await;
    let hostile = ["", "{", "}", "{}", "}{", "a}b{c", "{user}", "%", "%7b", "}{}{", "{{}}"];
    let limits = ["a", "b", "{c}", "}d{", "e"].map(|name| limit(name, 100));
    let namespaces: Vec<_> = (0..hostile.len()).map(|index| format!("ns{index}")).collect();
    for round in 0..2 {
        let before = calls(&cluster).await;
        for (namespace, entity) in namespaces.iter().zip(hostile) {
            let charges = limits.each_ref().map(|limit| limit.charge(Key::new(namespace, entity)));
            let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
            assert!(store.decide(request, NOW).await.expect("an answer").is_allowed());
        }
        if round == 1 {
            assert_eq!(calls(&cluster).await - before, u32::try_from(hostile.len()).expect("few"));
        }
    }
    // The server's own word on where they live.
    let mut slots: BTreeMap<String, Vec<Reply>> = BTreeMap::new();
    for server in &cluster.servers()[..3] {
        for key in server.call(&["KEYS", "*"]).await.texts() {
            let namespace = key.split(':').nth(1).expect("a namespace").to_owned();
            slots.entry(namespace).or_default().push(server.call(&["CLUSTER", "KEYSLOT", &key]).await);
        }
    }
    assert_eq!(slots.len(), hostile.len());
    for (namespace, slots) in slots {
        assert_eq!(slots.len(), limits.len() + 2, "{namespace}: every limit, and two operations");
        assert!(slots.iter().all(|slot| *slot == slots[0]), "{namespace}: {slots:?}");
    }

    // Each of these twice, and two in one slot: as many calls as slots.
    let mut users = strangers("batch", 30);
    let (_, more) = neighbours(2);
    users.extend(more);
    let charges: Vec<_> = users.iter().map(|user| [limits[0].charge(user)]).collect();
    let runs: Vec<_> =
        charges.iter().chain(&charges).map(|charge| Run::new(Request::new(charge), 1)).collect();
    let distinct: BTreeSet<_> = users.iter().map(|user| slot(user)).collect();
    store.decide_batch(&runs, NOW).await;
    let before = calls(&cluster).await;
    let answers = store.decide_batch(&runs, NOW).await;
    assert_eq!(calls(&cluster).await - before, u32::try_from(distinct.len()).expect("few"));
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|run| run.passed() == 1)));
    for user in &users {
        assert_eq!(spent(&store, &limits[0], user).await, 4);
    }
}

#[tokio::test]
async fn the_url_of_a_single_server_at_a_node_gets_advice() {
    let cluster = shared().await;
    let store = config(&cluster.servers()[0].url()).must_be_there().connect().await.expect("a node");
    let limit = limit("advice", 10);
    let users = strangers("advice", 20);
    let mut advised = 0;
    for user in &users {
        if let Err(error) = take(&store, &limit, user).await {
            advice(&error, "redis+cluster://");
            advised += 1;
        }
    }
    assert!((1..20).contains(&advised), "{advised} of 20 live on the other two nodes");
    advice(&decide(&store, &each(&limit, &users)).await.expect_err("several slots"), "redis+cluster://");

    // And the other way round.
    let single = Redis::start(&[]).await;
    let error = config(&format!("redis+cluster://{}", single.address())).must_be_there().connect().await;
    advice(&error.expect_err("not a cluster"), "redis://");
}

fn advice(error: &StoreError, use_instead: &str) {
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Refused, Effect::None), "{error}");
    assert!(error.to_string().contains(&format!("use {use_instead}")), "{error}");
}

#[tokio::test]
async fn a_node_that_hangs_does_not_keep_the_map_from_being_read() {
    let cluster = RedisCluster::start().await;
    for replica in &cluster.servers()[3..] {
        replica.freeze().await;
    }
    let limit = limit("hangs", 10);
    // Half of those to begin with hang, in whichever order they are asked.
    for _ in 0..8 {
        let store = open(&cluster).await;
        take(&store, &limit, "anybody").await.expect("an answer");
    }
}
