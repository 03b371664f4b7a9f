//! Servers that are not there: not yet, no longer, or not for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{Effect, ErrorKind, Limiter};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::expect::{KEY, assert_discreet, assert_error, daily, in_time, until, used};

const UNAVAILABLE: (ErrorKind, Effect) = (ErrorKind::Unavailable, Effect::None);

/// So patient that whoever is told sooner was not told by a deadline.
fn patient(redis: &Redis) -> Config {
    let ages = Duration::from_secs(600);
    Config::new(redis.url()).call_timeout(ages).connect_timeout(ages)
}

#[tokio::test]
async fn a_store_starts_without_its_server_and_works_once_that_is_there() {
    let mut redis = Redis::start(&[]).await;
    redis.kill().await;
    let there = in_time(patient(&redis).must_be_there().connect()).await;
    assert_error(there, UNAVAILABLE, &["cannot be reached"]);

    let limiter = Limiter::new(in_time(patient(&redis).connect()).await.expect("a store without a server"));
    let limit = daily(10);
    for _ in 0..5 {
        assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &["cannot be reached"]);
        assert_error(in_time(limiter.debit(&limit, KEY, 1)).await, UNAVAILABLE, &["cannot be reached"]);
        assert_error(in_time(limiter.store().reach()).await, UNAVAILABLE, &["cannot be reached"]);
    }
    redis.start_again().await;
    until("the store finds it", async || limiter.check(&limit, KEY).await.is_ok()).await;
    assert_eq!(used(&limiter, &limit).await, 1);
}

/// A server that is down is not asked by every call: how often is the back-off's matter, not the callers'.
#[tokio::test]
async fn a_server_that_is_down_is_left_alone_for_a_while() {
    let mut redis = Redis::start(&[]).await;
    redis.kill().await;
    let ages = Duration::from_secs(3_600);
    let config = patient(&redis).reconnect_backoff(ages, ages);
    let limiter = Limiter::new(in_time(config.connect()).await.expect("a store"));
    let limit = daily(10);
    assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &["cannot be reached"]);
    redis.start_again().await;
    for _ in 0..100 {
        // Not even now that it is there.
        assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &["cannot be reached"]);
    }
    let stats = redis.call(&["INFO", "clients"]).await;
    assert_eq!(stats.field("connected_clients").as_deref(), Some("1"), "only this question");
}

#[tokio::test]
async fn a_server_killed_and_started_again_under_load_loses_its_memory_and_nothing_else() {
    const LIVES: u32 = 3;
    let mut redis = Redis::start(&[]).await;
    let config =
        Config::new(redis.url()).reconnect_backoff(Duration::from_millis(5), Duration::from_millis(20));
    let store = config.must_be_there().connect().await.expect("a server");
    let (admitted, unclear, done) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let limiter = Limiter::new(store.clone());
        // Half of them name their checks.
        let limiter = if caller % 2 == 0 { limiter } else { limiter.exactly_once() };
        let (admitted, unclear, done) = (Arc::clone(&admitted), Arc::clone(&unclear), Arc::clone(&done));
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
                        assert_discreet(&error);
                        unclear.fetch_add(u32::from(error.effect() == Effect::Unknown), Ordering::SeqCst);
                        // A caller that is told at once would ask again at once.
                        tokio::task::yield_now().await;
                    }
                }
            }
        });
    }
    let limiter = Limiter::new(store);
    let exhausted = async |limiter: &Limiter<RedisStore>| {
        until("the limit is used up", async || {
            limiter.peek(&daily(500), KEY).await.is_ok_and(|told| told.is_denied())
        })
        .await;
    };
    for life in 1..=LIVES {
        exhausted(&limiter).await;
        if life < LIVES {
            redis.start_again().await;
        }
    }
    done.store(true, Ordering::SeqCst);
    while let Some(joined) = callers.join_next().await {
        joined.expect("no panic");
    }
    let (admitted, unclear) = (admitted.load(Ordering::SeqCst), unclear.load(Ordering::SeqCst));
    assert!(admitted <= LIVES * 500, "{admitted} were admitted");
    assert!(admitted + unclear >= LIVES * 500, "{admitted} admitted, {unclear} unclear: some are lost");
}

/// A server that writes everything down forgets nothing when it is killed, so the limit must come out even: all that was
/// executed was admitted, or its caller was told that it may have been.
#[tokio::test]
async fn of_what_a_killed_server_wrote_down_nothing_is_lost_and_nothing_doubled() {
    const LIMIT: u32 = 3_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a plain path");
    let durable = ["--appendonly", "yes", "--appendfsync", "always", "--dir", path];
    let mut redis = Redis::start_with_files(directory.path(), &durable).await;
    let config =
        Config::new(redis.url()).reconnect_backoff(Duration::from_millis(5), Duration::from_millis(20));
    let store = config.must_be_there().connect().await.expect("a server");
    let (admitted, unclear) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let limiter = Limiter::new(store.clone());
        let limiter = if caller % 2 == 0 { limiter } else { limiter.exactly_once() };
        let (admitted, unclear) = (Arc::clone(&admitted), Arc::clone(&unclear));
        callers.spawn(async move {
            loop {
                match in_time(limiter.check(&daily(LIMIT), KEY)).await {
                    Ok(decision) if decision.is_denied() => return,
                    Ok(_) => admitted.fetch_add(1, Ordering::SeqCst),
                    Err(error) => {
                        tokio::task::yield_now().await;
                        unclear.fetch_add(u32::from(error.effect() == Effect::Unknown), Ordering::SeqCst)
                    }
                };
            }
        });
    }
    let limiter = Limiter::new(store);
    for left in [2_400, 1_600, 800] {
        until("some of it is used", async || {
            limiter.peek(&daily(LIMIT), KEY).await.is_ok_and(|told| told.remaining() <= left)
        })
        .await;
        redis.start_again().await;
    }
    while let Some(joined) = callers.join_next().await {
        joined.expect("no panic");
    }
    let (admitted, unclear) = (admitted.load(Ordering::SeqCst), unclear.load(Ordering::SeqCst));
    assert!(admitted <= LIMIT, "{admitted} were admitted");
    assert!(admitted + unclear >= LIMIT, "{admitted} admitted, {unclear} unclear: some are lost");
}

#[tokio::test]
async fn a_server_with_too_many_clients_is_unavailable() {
    let redis = Redis::start(&["--maxclients", "1"]).await;
    let first = Config::new(redis.url()).must_be_there().connect().await.expect("a server");
    let second = in_time(Config::new(redis.url()).must_be_there().connect()).await;
    assert_error(second, UNAVAILABLE, &["maxclients"]);
    assert!(in_time(Limiter::new(first).check(&daily(1), KEY)).await.is_ok());
}
