//! Servers that may evict keys are reported when a connection is opened.

use std::sync::{Arc, Mutex};

use tollgate_core::{Event, Limiter};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, PASSWORD, daily, in_time, until};

/// Returns a limiter on a server with these arguments, and the problems that it reports.
async fn observed(redis: &Redis) -> (Limiter<RedisStore>, Arc<Mutex<Vec<String>>>) {
    let problems = Arc::new(Mutex::new(Vec::new()));
    let observer = {
        let problems = Arc::clone(&problems);
        move |event: Event<'_>| {
            if let Event::ServerMisconfigured { problem } = event {
                problems.lock().expect("no panic").push(problem.to_owned());
            }
        }
    };
    let store = Config::new(redis.url()).require_reachable().connect().await.expect("a reachable server");
    (Limiter::new(store).with_observer(Arc::new(observer)), problems)
}

#[tokio::test]
async fn a_server_that_may_evict_keys_is_reported_once() {
    for policy in ["volatile-ttl", "volatile-lru", "allkeys-lfu", "allkeys-random"] {
        let redis = Redis::start(&["--maxmemory", "100mb", "--maxmemory-policy", policy]).await;
        let (limiter, problems) = observed(&redis).await;
        until("it is reported", async || limiter.store().stats().evicting_servers == 1).await;
        // Another connection is opened, and the server checked again.
        redis.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        until("it is reconnected", async || {
            let _ = limiter.peek(&daily(1), KEY).await;
            limiter.store().stats().connections_opened == 2
        })
        .await;
        let problems = problems.lock().expect("no panic").clone();
        assert_eq!((problems.len(), limiter.store().stats().evicting_servers), (1, 1), "{problems:?}");
        let expected = [&*redis.address(), &format!("maxmemory-policy is {policy};"), "noeviction"];
        assert!(expected.iter().all(|part| problems[0].contains(part)), "{problems:?}");
    }
}

/// Waits until everything that the server has replied is handled: its replies are in order, and this runtime has one
/// thread.
async fn handled(limiter: &Limiter<RedisStore>) {
    let _ = in_time(limiter.peek(&daily(1), KEY)).await.expect("a decision");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_that_never_evicts_keys_is_not_reported() {
    for arguments in [
        &["--maxmemory", "100mb", "--maxmemory-policy", "noeviction"][..],
        &["--maxmemory-policy", "allkeys-lru"],
    ] {
        let redis = Redis::start(arguments).await;
        let (limiter, problems) = observed(&redis).await;
        handled(&limiter).await;
        assert_eq!(limiter.store().stats().evicting_servers, 0);
        assert_eq!(problems.lock().expect("no panic").len(), 0);
        // The answer is read again with the next connection.
        redis.call(&["CONFIG", "SET", "maxmemory", "100mb"]).await;
        redis.call(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]).await;
        redis.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        until("it is reported", async || {
            let _ = limiter.peek(&daily(1), KEY).await;
            limiter.store().stats().evicting_servers == 1
        })
        .await;
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_the_question_is_used_all_the_same() {
    let redis = Redis::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let secret = format!(">{PASSWORD}");
    redis.call(&["ACL", "SETUSER", "limiter", "on", &secret, "~tollgate:*", "+@all", "-info"]).await;
    let url = format!("redis://limiter:{PASSWORD}@{}", redis.address());
    let store = Config::new(url).require_reachable().connect().await.expect("a reachable server");
    let limiter = Limiter::new(store);
    handled(&limiter).await;
    let stats = limiter.store().stats();
    assert_eq!((stats.evicting_servers, stats.failed_calls, stats.failed_connects), (0, 0, 0), "{stats:?}");
}

#[tokio::test]
async fn the_question_is_sent_once_per_connection() {
    let redis = Redis::start(&[]).await;
    let (limiter, _) = observed(&redis).await;
    let asked = async || {
        let stats = redis.call(&["INFO", "commandstats"]).await;
        let stat = stats.field("cmdstat_info").expect("this command is one");
        stat.split(',').find_map(|part| part.strip_prefix("calls=")?.parse::<u32>().ok()).expect("a count")
    };
    // The command that is running is not counted yet.
    assert_eq!(asked().await, 1);
    for _ in 0..50 {
        let _ = in_time(limiter.check(&daily(100), KEY)).await.expect("a decision");
    }
    assert_eq!(asked().await, 2, "only this test has asked again");
}
