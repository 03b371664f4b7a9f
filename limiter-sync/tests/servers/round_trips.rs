//! How often a server is called by an exchange, by the server's own count.

use tollgate_core::store::Store;
use tollgate_core::{Limit, SystemClock};
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::RedisStore;
use tollgate_testkit::Redis;

use crate::slow;

const KEYS: usize = 2_000;
/// At least so many keys go with one call.
const PER_CALL: u64 = 200;

/// How often scripts were called since the last time. Nothing else may have been, but what scripts do themselves.
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
        let decision = node.decide_one(&limit.charge(key), &SystemClock::new()).await.expect("decided here");
        assert!(decision.is_allowed());
    }
}

#[tokio::test]
async fn hundreds_of_keys_go_with_one_call() {
    let redis = Redis::start(&[]).await;
    let most = KEYS as u64 / PER_CALL;
    let keys: Vec<_> = (0..KEYS).map(|number| format!("key {number}")).collect();
    for limit in [slow::bucket(100), slow::window(100), slow::counter(100)] {
        let store = RedisStore::connect(&redis.url()).await.expect("a server");
        let node = Synced::new(store.clone()).by_hand();
        // Greetings, and scripts that the server does not know yet.
        use_all(&node, &limit, &keys[..1]).await;
        for _ in 0..3 {
            node.sync_now().await.expect("the centre answers");
        }
        redis.call(&["CONFIG", "RESETSTAT"]).await;

        use_all(&node, &limit, &keys).await;
        assert_eq!(script_calls(&redis).await, 0, "{}: decided without a call", limit.name());
        node.sync_now().await.expect("the centre answers");
        let told = script_calls(&redis).await;
        assert!((1..=most).contains(&told), "{}: told by {told} calls", limit.name());
        // What others have told meanwhile is looked at twice.
        for _ in 0..2 {
            node.sync_now().await.expect("the centre answers");
            let looked = script_calls(&redis).await;
            assert!((1..=most).contains(&looked), "{}: looked at by {looked} calls", limit.name());
        }
        for _ in 0..3 {
            node.sync_now().await.expect("nobody is asked");
            assert_eq!(script_calls(&redis).await, 0, "{}: nothing is due", limit.name());
        }

        let mut expected = vec![1; KEYS];
        expected[0] = 2;
        assert_eq!(slow::booked(&store, &limit, &keys).await, expected, "{}", limit.name());
    }
}
