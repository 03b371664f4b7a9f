//! Stores whose runtime ends: connections, and attempts to connect, end with it.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tollgate_core::Limiter;
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, daily, in_time, used};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Runs on a runtime of its own, in a thread of its own, and waits for it without that runtime's timer: what never
/// yields would starve it.
async fn elsewhere<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, result) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = runtime();
        let result = runtime.block_on(work);
        // Before the result is known, so that the caller finds the runtime ended.
        drop(runtime);
        let _ = sender.send(result);
    });
    in_time(result).await.expect("no panic")
}

/// Returns a store whose attempt to connect hangs, and whose runtime has ended since.
async fn abandoned(redis: &Redis, scheme: &str, hosts: &str) -> RedisStore {
    redis.freeze().await;
    let config = Config::new(format!("{scheme}://{hosts}"))
        .connect_timeout(Duration::from_secs(600))
        .call_timeout(Duration::from_millis(50));
    let store = elsewhere(async move { config.connect().await.expect("a store") }).await;
    redis.thaw().await;
    store
}

#[tokio::test]
async fn an_attempt_to_connect_that_ended_with_its_runtime_is_repeated() {
    let redis = Redis::start(&[]).await;
    let address = redis.address();
    // A server, and a server whose role is discovered first.
    for (scheme, hosts) in [("redis", address.clone()), ("redis+shards", format!("{address}|{address}"))] {
        let store = abandoned(&redis, scheme, &hosts).await;
        let stats = store.stats();
        assert_eq!((stats.connections_opened, stats.failed_connects), (0, 0), "{scheme}: it was connecting");
        let checked = elsewhere(async move {
            let limiter = Limiter::new(store);
            for _ in 0..100 {
                // The call timeout is short, so that the machine may be too busy for the first of them.
                if limiter.check(&daily(1_000), KEY).await.is_ok() {
                    return true;
                }
            }
            false
        });
        assert!(checked.await, "{scheme}");
    }
}

#[tokio::test]
async fn a_call_is_not_sent_over_a_connection_that_ended_with_its_runtime() {
    let redis = Redis::start(&[]).await;
    let config = Config::new(redis.url()).require_reachable();
    let limit = daily(10);
    let store = elsewhere(async move {
        let limiter = Limiter::new(config.connect().await.expect("a reachable server"));
        assert!(limiter.check(&daily(10), KEY).await.expect("a decision").is_allowed());
        limiter.into_store()
    })
    .await;
    let limiter = Limiter::new(store);
    // A check is not repeatable: if it were sent over the old connection, its effect would be unknown.
    assert!(in_time(limiter.check(&limit, KEY)).await.expect("a new connection").is_allowed());
    assert_eq!(used(&limiter, &limit).await, 2);
    let stats = limiter.store().stats();
    assert_eq!((stats.connections_opened, stats.retries, stats.failed_calls), (2, 0, 0), "{stats:?}");
}

#[tokio::test]
async fn a_store_that_is_dropped_closes_its_connections() {
    let redis = Redis::start(&[]).await;
    let store = Config::new(redis.url()).require_reachable().connect().await.expect("a reachable server");
    let clients = async || redis.call(&["INFO", "clients"]).await.field("connected_clients");
    assert_eq!(clients().await.as_deref(), Some("2"), "the store's connection and this one");
    drop(store);
    crate::assertions::until("it is closed", async || clients().await.as_deref() == Some("1")).await;
}
