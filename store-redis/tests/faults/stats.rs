//! `RedisStore::stats` counts what the server sees.

use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Limiter, Request, Time};
use tollgate_store_redis::{Config, Stats};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, daily, in_time, limiter, until, used};
use tollgate_testkit::RedisProxy;

/// Returns how often the server has executed a command.
async fn executed(redis: &Redis, command: &str) -> u64 {
    let stats = redis.call(&["INFO", "commandstats"]).await;
    let calls = stats
        .field(&format!("cmdstat_{command}"))
        .and_then(|stat| stat.split(',').find_map(|part| part.strip_prefix("calls=")?.parse().ok()));
    calls.unwrap_or(0)
}

#[tokio::test]
async fn calls_and_script_loads_are_the_round_trips_that_the_server_counts() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    let opened = limiter.store().stats();
    assert_eq!((opened.calls, opened.connections_opened), (0, 1), "{opened:?}");
    for _ in 0..10 {
        let _ = in_time(limiter.check(&daily(100), KEY)).await.expect("a decision");
    }
    let _ = in_time(limiter.debit(&daily(100), KEY, 1)).await.expect("a decision");
    // More charges than fit into one call.
    let limit = daily(100_000);
    let charges = [limit.charge(KEY)];
    let batch = vec![Run::new(Request::new(&charges), 1); 600];
    assert!(in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await.iter().all(Result::is_ok));
    let stats = limiter.store().stats();
    assert_eq!((stats.calls, stats.script_loads), (10 + 1 + 3, 3), "{stats:?}");
    assert_eq!(stats.calls, executed(&redis, "evalsha").await);
    assert_eq!(stats.script_loads, executed(&redis, "eval").await);
    assert_eq!((stats.retries, stats.failed_calls, stats.failed_connects), (0, 0, 0), "{stats:?}");

    redis.call(&["SCRIPT", "FLUSH"]).await;
    let _ = in_time(limiter.check(&daily(100), KEY)).await.expect("a decision");
    let flushed = limiter.store().stats();
    assert_eq!((flushed.calls, flushed.script_loads), (stats.calls + 1, stats.script_loads + 1));
    assert_eq!(limiter.store().clone().stats(), flushed, "clones share their counters");
}

#[tokio::test]
async fn a_killed_connection_counts_as_opened_again() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    for killed in 1..=3 {
        redis.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        // A peek, which is retried if it is sent before the end of the connection is noticed.
        assert_eq!(used(&limiter, &daily(10)).await, 0);
        let stats = limiter.store().stats();
        assert_eq!((stats.connections_opened, stats.failed_connects), (1 + killed, 0), "{stats:?}");
        assert_eq!(stats.failed_calls, 0, "{stats:?}");
    }
}

#[tokio::test]
async fn a_lost_reply_counts_as_a_retry_or_as_a_failure() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let config = Config::new(proxy.url()).require_reachable();
    let limiter = Limiter::new(config.connect().await.expect("a reachable server"));
    let limit = daily(10);
    let _ = in_time(limiter.check(&limit, KEY)).await.expect("a decision");
    assert_eq!(used(&limiter, &limit).await, 1);
    let before = limiter.store().stats();

    proxy.drop_next_reply();
    assert_eq!(used(&limiter, &limit).await, 1);
    let retried = limiter.store().stats();
    let expected = (before.calls + 2, before.retries + 1, before.failed_calls, before.connections_opened + 1);
    assert_eq!(counters(&retried), expected, "{retried:?}");

    proxy.drop_next_reply();
    assert!(in_time(limiter.check(&limit, KEY)).await.is_err(), "a check is not repeatable");
    let failed = limiter.store().stats();
    let expected = (retried.calls + 1, retried.retries, 1, retried.connections_opened);
    assert_eq!(counters(&failed), expected, "{failed:?}");
}

fn counters(stats: &Stats) -> (u64, u64, u64, u64) {
    (stats.calls, stats.retries, stats.failed_calls, stats.connections_opened)
}

#[tokio::test]
async fn failed_connects_are_counted_and_calls_during_the_backoff_are_not_sent() {
    let mut redis = Redis::start(&[]).await;
    redis.kill().await;
    let backoff = Duration::from_secs(3_600);
    let config = Config::new(redis.url()).reconnect_backoff(backoff, backoff);
    let limiter = Limiter::new(in_time(config.connect()).await.expect("a store"));
    for _ in 0..5 {
        assert!(in_time(limiter.check(&daily(1), KEY)).await.is_err());
    }
    let stats = limiter.store().stats();
    assert_eq!((stats.calls, stats.failed_calls), (0, 5), "{stats:?}");
    assert_eq!((stats.connections_opened, stats.failed_connects), (0, 1), "{stats:?}");
    redis.start_again().await;
    let eager = Config::new(redis.url()).require_reachable().connect().await.expect("a reachable server");
    until("it is reachable", async || eager.ping().await.is_ok()).await;
    assert_eq!(eager.stats().connections_opened, 1);
}
