//! What the central store keeps besides the states: idempotency records of batches. Their number is bounded, whatever
//! the number of keys, slots and sync rounds.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Limit, SystemClock};
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::{Redis, RedisCluster};

use crate::fleet::connect;
use crate::limits;

/// How many batches are forgotten at once.
const AT_ONCE: usize = 512;
/// How many calls of a sync round are in flight at most. Each may be answered after keys were last forgotten.
const IN_FLIGHT: usize = 32;

/// Returns how many idempotency records the servers keep.
async fn records<'a>(servers: impl IntoIterator<Item = &'a Redis>) -> usize {
    let mut records = 0;
    for server in servers {
        records += server.call(&["KEYS", "*}:op~*"]).await.texts().len();
    }
    records
}

async fn use_all(node: &Synced<RedisStore>, limit: &Limit, keys: &[String]) {
    for key in keys {
        let decision =
            node.decide_one(&limit.charge(key), &SystemClock::new()).await.expect("decided locally");
        assert!(decision.is_allowed());
    }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user:{number:07}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_keys_on_a_cluster() {
    const ROUNDS: u32 = 3;
    let cluster = RedisCluster::start().await;
    let addresses: Vec<_> = cluster.servers().iter().map(Redis::address).collect();
    let url = format!("redis+cluster://{}", addresses.join(","));
    // No call is repeated on a machine with other things to do: batches in doubt are not forgotten.
    let config = Config::new(&url).call_timeout(Duration::from_secs(60)).require_reachable();
    let store = config.connect().await.expect("a reachable cluster");
    let node = Synced::builder(store.clone()).manual().build().expect("valid");
    let (limit, keys) = (limits::bucket(2_160), names(20_000));
    for round in 0..ROUNDS {
        use_all(&node, &limit, &keys).await;
        let before = store.stats();
        node.sync_now().await.expect("the central store answers");
        let batches = store.stats().calls - before.calls;
        assert!(batches > 8_000, "one batch for each of the slots: {batches}");
        let deletions = store.stats().deletions - before.deletions;
        assert!(deletions < batches / 100, "hundreds of batches are forgotten at once: {deletions}");
        let records = records(&cluster.servers()[..3]).await;
        assert!(records <= AT_ONCE + IN_FLIGHT, "round {round}: {records} records");
    }
    node.close(Duration::from_secs(60)).await.expect("the central store answers");
    assert_eq!(records(&cluster.servers()[..3]).await, 0, "nothing is left of a closed node");
    assert_eq!(limits::debited(&store, &limit, &keys).await, vec![ROUNDS; keys.len()]);
}

#[tokio::test]
async fn a_thousand_sync_rounds_on_one_server() {
    let redis = Redis::start(&[]).await;
    let store = Config::new(redis.url()).call_timeout(Duration::from_secs(60));
    let store = store.require_reachable().connect().await.expect("a server");
    let node = Synced::builder(store.clone()).manual().build().expect("valid");
    let (limit, keys) = (limits::window(1_000_000), names(1));
    for round in 0..2 * AT_ONCE {
        use_all(&node, &limit, &keys).await;
        node.sync_now().await.expect("the central store answers");
        let records = records([&redis]).await;
        assert!(records <= AT_ONCE, "round {round}: {records} records");
    }
    assert!(store.stats().deletions <= 2, "hundreds of batches are forgotten at once");
    node.close(Duration::from_secs(60)).await.expect("the central store answers");
    assert_eq!(records([&redis]).await, 0, "nothing is left of a closed node");
}

/// The call that forgets hundreds of batches fails, and so does the batch that is sent with it. That batch is sent
/// again; its key is not forgotten, because the first copy is executed once the server continues.
#[tokio::test]
async fn the_server_is_frozen_when_batches_are_forgotten() {
    let redis = Redis::start(&[]).await;
    let store = connect(&redis).await;
    let node = Synced::builder(store.clone()).manual().build().expect("valid");
    let (limit, keys) = (limits::window(1_000_000), names(1));
    let mut granted = 0;
    while records([&redis]).await < AT_ONCE {
        use_all(&node, &limit, &keys).await;
        granted += 1;
        // A slow machine may take longer than a call has time.
        let _ = node.sync_now().await;
    }
    let deletions = store.stats().deletions;
    use_all(&node, &limit, &keys).await;
    redis.freeze().await;
    node.sync_now().await.expect_err("the server is frozen");
    assert_eq!(store.stats().deletions, deletions + 1);
    redis.thaw().await;
    while node.stats().pending > 0 {
        let _ = node.sync_now().await;
    }
    node.close(Duration::from_secs(60)).await.expect("the central store answers");
    assert_eq!(limits::debited(&store, &limit, &keys).await, [granted + 1], "all applied once");
    assert!(records([&redis]).await >= 1, "the batch in doubt is still recognized");
}
