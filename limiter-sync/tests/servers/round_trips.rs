//! How many calls a sync round makes, as counted by the server.

use tollgate_core::store::Store;
use tollgate_core::{Limit, SystemClock};
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::RedisStore;
use tollgate_testkit::Redis;

use crate::limits;

const KEYS: usize = 2_000;
/// How many keys one call contains at least.
const PER_CALL: u64 = 200;

/// Returns how many scripts were called since the last time. Fails if other commands were called, except by scripts.
async fn script_calls(redis: &Redis) -> u64 {
    let stats = redis.call(&["INFO", "commandstats"]).await.text();
    redis.call(&["CONFIG", "RESETSTAT"]).await;
    let mut calls = 0;
    for line in stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (name, rest) = line.split_once(":calls=").expect("a command and its calls");
        let count: u64 = rest.split(',').next().and_then(|count| count.parse().ok()).expect("a number");
        match name {
            "evalsha" | "eval" => calls += count,
            "config|resetstat" | "info" | "time" | "get" | "mget" | "set" | "psetex" | "setrange" | "del" => {
            }
            other => panic!("a round trip for {other}"),
        }
    }
    calls
}

async fn use_all(node: &Synced<RedisStore>, limit: &Limit, keys: &[String]) {
    for key in keys {
        let decision =
            node.decide_one(&limit.charge(key), &SystemClock::new()).await.expect("decided locally");
        assert!(decision.is_allowed());
    }
}

#[tokio::test]
async fn one_call_contains_hundreds_of_keys() {
    let redis = Redis::start(&[]).await;
    let most = KEYS as u64 / PER_CALL;
    let keys: Vec<_> = (0..KEYS).map(|number| format!("key {number}")).collect();
    for limit in [limits::bucket(100), limits::window(100), limits::counter(100)] {
        let store = RedisStore::connect(&redis.url()).await.expect("a server");
        let node = Synced::builder(store.clone()).manual().build().expect("valid");
        // The handshake, and scripts that the server has not loaded yet.
        use_all(&node, &limit, &keys[..1]).await;
        for _ in 0..3 {
            node.sync_now().await.expect("the central store answers");
        }
        redis.call(&["CONFIG", "RESETSTAT"]).await;

        use_all(&node, &limit, &keys).await;
        assert_eq!(script_calls(&redis).await, 0, "{}: decided without a call", limit.name());
        node.sync_now().await.expect("the central store answers");
        let sent = script_calls(&redis).await;
        assert!((1..=most).contains(&sent), "{}: sent with {sent} calls", limit.name());
        // Two more rounds receive the deltas of other nodes.
        for _ in 0..2 {
            node.sync_now().await.expect("the central store answers");
            let received = script_calls(&redis).await;
            assert!((1..=most).contains(&received), "{}: received with {received} calls", limit.name());
        }
        for _ in 0..3 {
            node.sync_now().await.expect("no call is made");
            assert_eq!(script_calls(&redis).await, 0, "{}: nothing is due", limit.name());
        }

        let mut expected = vec![1; KEYS];
        expected[0] = 2;
        assert_eq!(limits::debited(&store, &limit, &keys).await, expected, "{}", limit.name());
    }
}
