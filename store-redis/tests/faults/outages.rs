//! Servers that are down: at startup, for a while, or repeatedly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{Effect, ErrorKind, Limiter};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, assert_error, assert_no_secrets, daily, in_time, until, used};

const UNAVAILABLE: (ErrorKind, Effect) = (ErrorKind::Unavailable, Effect::None);

/// Returns a configuration with timeouts so long that an error cannot be one of them.
fn patient(redis: &Redis) -> Config {
    let timeout = Duration::from_secs(600);
    Config::new(redis.url()).call_timeout(timeout).connect_timeout(timeout)
}

#[tokio::test]
async fn a_store_starts_without_its_server_and_works_once_it_is_up() {
    let mut redis = Redis::start(&[]).await;
    redis.kill().await;
    let store = in_time(patient(&redis).require_reachable().connect()).await;
    assert_error(store, UNAVAILABLE, &["cannot be reached"]);

    let limiter = Limiter::new(in_time(patient(&redis).connect()).await.expect("a store without a server"));
    let limit = daily(10);
    for _ in 0..5 {
        assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &["cannot be reached"]);
        assert_error(in_time(limiter.debit(&limit, KEY, 1)).await, UNAVAILABLE, &["cannot be reached"]);
        assert_error(in_time(limiter.store().ping()).await, UNAVAILABLE, &["cannot be reached"]);
    }
    redis.start_again().await;
    until("the store reconnects", async || limiter.check(&limit, KEY).await.is_ok()).await;
    assert_eq!(used(&limiter, &limit).await, 1);
}

/// The backoff determines how often the store tries to connect, not the number of calls.
#[tokio::test]
async fn calls_during_the_backoff_do_not_connect() {
    let mut redis = Redis::start(&[]).await;
    redis.kill().await;
    let backoff = Duration::from_secs(3_600);
    let config = patient(&redis).reconnect_backoff(backoff, backoff);
    let limiter = Limiter::new(in_time(config.connect()).await.expect("a store"));
    let limit = daily(10);
    assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &["cannot be reached"]);
    redis.start_again().await;
    for _ in 0..100 {
        // Even though the server is up again.
        assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &["cannot be reached"]);
    }
    let stats = redis.call(&["INFO", "clients"]).await;
    assert_eq!(stats.field("connected_clients").as_deref(), Some("1"), "only this client");
}

#[tokio::test]
async fn a_server_restarted_under_load_loses_only_its_data() {
    const STARTS: u32 = 3;
    let mut redis = Redis::start(&[]).await;
    let config =
        Config::new(redis.url()).reconnect_backoff(Duration::from_millis(5), Duration::from_millis(20));
    let store = config.require_reachable().connect().await.expect("a reachable server");
    let (admitted, unknown, done) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let limiter = Limiter::new(store.clone());
        // Half of them use idempotency keys.
        let limiter = if caller % 2 == 0 { limiter } else { limiter.exactly_once() };
        let (admitted, unknown, done) = (Arc::clone(&admitted), Arc::clone(&unknown), Arc::clone(&done));
        callers.spawn(async move {
            let limit = daily(500);
            while !done.load(Ordering::SeqCst) {
                match in_time(limiter.check(&limit, KEY)).await {
                    Ok(decision) => {
                        admitted.fetch_add(decision.granted(), Ordering::SeqCst);
                    }
                    Err(error) => {
                        let kind = error.kind();
                        assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout), "{error:?}");
                        assert_no_secrets(&error);
                        unknown.fetch_add(u32::from(error.effect() == Effect::Unknown), Ordering::SeqCst);
                        // The call may have failed immediately: let other tasks run.
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
    }
    let limiter = Limiter::new(store);
    let exhausted = async |limiter: &Limiter<RedisStore>| {
        until("the limit is exhausted", async || {
            limiter.peek(&daily(500), KEY).await.is_ok_and(|decision| decision.is_denied())
        })
        .await;
    };
    for start in 1..=STARTS {
        exhausted(&limiter).await;
        if start < STARTS {
            redis.start_again().await;
        }
    }
    done.store(true, Ordering::SeqCst);
    while let Some(joined) = callers.join_next().await {
        joined.expect("no panic");
    }
    let (admitted, unknown) = (admitted.load(Ordering::SeqCst), unknown.load(Ordering::SeqCst));
    assert!(admitted <= STARTS * 500, "{admitted} were admitted");
    assert!(admitted + unknown >= STARTS * 500, "{admitted} admitted, {unknown} unknown: some are lost");
}

/// A server that persists every write loses nothing when it is killed: each executed call was admitted, or its error
/// reported an unknown effect.
#[tokio::test]
async fn a_persistent_server_killed_under_load_neither_loses_nor_repeats_a_call() {
    const LIMIT: u32 = 3_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a UTF-8 path");
    let durable = ["--appendonly", "yes", "--appendfsync", "always", "--dir", path];
    let mut redis = Redis::start_with_files(directory.path(), &durable).await;
    let config =
        Config::new(redis.url()).reconnect_backoff(Duration::from_millis(5), Duration::from_millis(20));
    let store = config.require_reachable().connect().await.expect("a reachable server");
    let (admitted, unknown) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let limiter = Limiter::new(store.clone());
        let limiter = if caller % 2 == 0 { limiter } else { limiter.exactly_once() };
        let (admitted, unknown) = (Arc::clone(&admitted), Arc::clone(&unknown));
        callers.spawn(async move {
            loop {
                match in_time(limiter.check(&daily(LIMIT), KEY)).await {
                    Ok(decision) if decision.is_denied() => return,
                    Ok(_) => admitted.fetch_add(1, Ordering::SeqCst),
                    Err(error) => {
                        tokio::task::yield_now().await;
                        unknown.fetch_add(u32::from(error.effect() == Effect::Unknown), Ordering::SeqCst)
                    }
                };
            }
        });
    }
    let limiter = Limiter::new(store);
    for left in [2_400, 1_600, 800] {
        until("some of the limit is used", async || {
            limiter.peek(&daily(LIMIT), KEY).await.is_ok_and(|decision| decision.remaining() <= left)
        })
        .await;
        redis.start_again().await;
    }
    while let Some(joined) = callers.join_next().await {
        joined.expect("no panic");
    }
    let (admitted, unknown) = (admitted.load(Ordering::SeqCst), unknown.load(Ordering::SeqCst));
    assert!(admitted <= LIMIT, "{admitted} were admitted");
    assert!(admitted + unknown >= LIMIT, "{admitted} admitted, {unknown} unknown: some are lost");
}

#[tokio::test]
async fn a_server_with_too_many_clients_is_unavailable() {
    let redis = Redis::start(&["--maxclients", "1"]).await;
    let first = Config::new(redis.url()).require_reachable().connect().await.expect("a reachable server");
    let second = in_time(Config::new(redis.url()).require_reachable().connect()).await;
    assert_error(second, UNAVAILABLE, &["maxclients"]);
    assert!(in_time(Limiter::new(first).check(&daily(1), KEY)).await.is_ok());
}
