//! Servers and connections that do not reply.

use std::time::Duration;

use futures_util::future::select_all;
use tokio::task::JoinSet;
use tollgate_core::store::{Run, Store};
use tollgate_core::{Effect, ErrorKind, Limiter, Request, Time};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, assert_error, assert_no_secrets, daily, in_time, until, used};
use tollgate_testkit::RedisProxy;

const TIMEOUT: (ErrorKind, Effect) = (ErrorKind::Timeout, Effect::Unknown);

/// Returns a limiter with short timeouts, which are still longer than a busy machine needs.
async fn impatient(redis: &Redis) -> Limiter<RedisStore> {
    Limiter::new(short_timeouts(redis).require_reachable().connect().await.expect("a reachable server"))
}

fn short_timeouts(redis: &Redis) -> Config {
    Config::new(redis.url())
        .call_timeout(Duration::from_secs(1))
        .connect_timeout(Duration::from_secs(1))
        .reconnect_backoff(Duration::ZERO, Duration::ZERO)
}

/// Makes the server cache the scripts, so that the next call is executed, now or later.
async fn warm(limiter: &Limiter<RedisStore>) {
    let _ = in_time(limiter.check(&daily(1), "warm")).await.expect("a decision");
    let _ = in_time(limiter.debit(&daily(1), "warm", 1)).await.expect("a decision");
}

/// Asserts that each of many callers gets its own reply: each has its own limit and cost.
async fn assert_own_replies(limiter: &Limiter<RedisStore>) {
    let mut callers = JoinSet::new();
    for number in 1..=200_u32 {
        let store = limiter.store().clone();
        callers.spawn(async move {
            let limiter = Limiter::new(store);
            let limit = daily(1_000 + number);
            let key = format!("caller {number}");
            let result = in_time(limiter.charge(limit.charge(key.as_str()).with_cost(number))).await;
            (number, result)
        });
    }
    while let Some(joined) = callers.join_next().await {
        let (number, result) = joined.expect("no panic");
        let decision = result.expect("a decision");
        assert_eq!(
            (decision.granted(), decision.remaining()),
            (number, 1_000),
            "the reply to another caller"
        );
    }
}

#[tokio::test]
async fn calls_to_a_frozen_server_time_out() {
    let redis = Redis::start(&[]).await;
    let limiter = impatient(&redis).await;
    warm(&limiter).await;
    redis.freeze().await;
    let limit = daily(10);
    let first = in_time(limiter.check(&limit, KEY)).await;
    assert_error(first, TIMEOUT, &["did not answer in time", "may have taken effect"]);
    // From now on the connection is suspect. Calls still end with a timeout.
    for _ in 0..3 {
        let error = in_time(limiter.debit(&limit, KEY, 1)).await.expect_err("no reply");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_no_secrets(&error);
    }
    redis.thaw().await;
    until("it replies again", async || limiter.peek(&limit, KEY).await.is_ok()).await;
    assert_own_replies(&limiter).await;
    assert!((1..=4).contains(&used(&limiter, &limit).await), "what was sent counts once, the rest does not");
}

#[tokio::test]
async fn a_ping_is_a_round_trip() {
    let redis = Redis::start(&[]).await;
    let limiter = impatient(&redis).await;
    warm(&limiter).await;
    in_time(limiter.store().ping()).await.expect("it answers");
    redis.freeze().await;
    let error = in_time(limiter.store().ping()).await.expect_err("no reply");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    redis.thaw().await;
    until("it answers again", async || limiter.store().ping().await.is_ok()).await;
}

#[tokio::test]
async fn a_paused_server_answers_later_calls() {
    let redis = Redis::start(&[]).await;
    let limiter = impatient(&redis).await;
    warm(&limiter).await;
    let limit = daily(10);
    // Delays scripts until UNPAUSE.
    redis.call(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
    assert_error(in_time(limiter.check(&limit, KEY)).await, TIMEOUT, &["did not answer in time"]);
    redis.call(&["CLIENT", "UNPAUSE"]).await;
    until("it replies again", async || limiter.peek(&limit, KEY).await.is_ok()).await;
    until("the delayed call is executed", async || used(&limiter, &limit).await == 1).await;
    assert_own_replies(&limiter).await;
}

#[tokio::test]
async fn all_calls_in_flight_on_a_frozen_server_time_out() {
    let redis = Redis::start(&[]).await;
    let limiter = impatient(&redis).await;
    warm(&limiter).await;
    redis.freeze().await;
    let mut callers = JoinSet::new();
    for _ in 0..500 {
        let store = limiter.store().clone();
        callers.spawn(async move { in_time(Limiter::new(store).check(&daily(10_000), KEY)).await });
    }
    while let Some(joined) = callers.join_next().await {
        let error = joined.expect("no panic").expect_err("no reply");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
    redis.thaw().await;
    until("it replies again", async || limiter.peek(&daily(10_000), KEY).await.is_ok()).await;
    assert!(used(&limiter, &daily(10_000)).await <= 500, "some are counted twice");
    assert_own_replies(&limiter).await;
}

/// The deadline is that of the whole batch. Chunks after it are not sent.
#[tokio::test]
async fn a_long_batch_has_one_deadline() {
    let redis = Redis::start(&[]).await;
    // One connection for each chunk, so that none is suspect before it is used.
    let connections = 8;
    let config = short_timeouts(&redis).connections(connections).require_reachable();
    let limiter = Limiter::new(config.connect().await.expect("a reachable server"));
    for _ in 0..connections {
        warm(&limiter).await;
    }
    redis.freeze().await;
    let limit = daily(1_000_000);
    let charges = [limit.charge(KEY)];
    let batch = vec![Run::new(Request::new(&charges), 1); 2_000];
    let results = in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await;
    assert_eq!(results.len(), batch.len());
    let mut sent = 0;
    for result in results {
        let error = result.expect_err("no reply");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        sent += usize::from(error.effect() == Effect::Unknown);
    }
    redis.thaw().await;
    until("it replies again", async || limiter.peek(&limit, KEY).await.is_ok()).await;
    assert!((1..batch.len()).contains(&sent), "the first chunk is sent, the last is not: {sent}");
    let used = usize::try_from(used(&limiter, &limit).await).expect("few");
    assert!(used <= sent, "{used} are counted, but only {sent} have an unknown effect");
}

/// Returns a limiter with one connection through a proxy, whose timeout is longer than any caller waits.
async fn behind(proxy: &RedisProxy) -> Limiter<RedisStore> {
    let config = Config::new(proxy.url())
        .connections(1)
        .call_timeout(Duration::from_secs(600))
        .connect_timeout(Duration::from_millis(500))
        .reconnect_backoff(Duration::ZERO, Duration::ZERO);
    let limiter = Limiter::new(config.require_reachable().connect().await.expect("a reachable server"));
    warm(&limiter).await;
    limiter
}

/// No caller waits until the call times out, so the store has to notice the dead connection by the dropped calls.
#[tokio::test]
async fn a_dead_connection_is_replaced_although_all_callers_give_up_early() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    assert_eq!(proxy.accepted(), 1);
    let limit = daily(10_000);
    proxy.silence();
    let mut tries = 0;
    let short_check =
        async || tokio::time::timeout(Duration::from_millis(20), limiter.check(&limit, KEY)).await;
    while !matches!(short_check().await, Ok(Ok(_))) {
        tries += 1;
        // Twenty times as many as it takes to replace the connection.
        assert!(tries < 500, "the connection is still in use");
    }
    assert!(tries > 0, "the connection was not silent");
    assert!(proxy.accepted() > 1, "the connection was not replaced");
    assert_own_replies(&limiter).await;
}

/// Returns the number of `PING`s that the server has received.
async fn pings(redis: &Redis) -> u64 {
    let stats = redis.call(&["INFO", "commandstats"]).await.text();
    let calls = |line: &str| line.strip_prefix("cmdstat_ping:calls=")?.split(',').next()?.parse().ok();
    stats.lines().find_map(calls).unwrap_or(0)
}

/// While replies arrive, dropped calls do not make a connection suspect.
#[tokio::test]
async fn dropped_calls_on_a_busy_connection_do_not_make_it_suspect() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    let (limit, before) = (daily(10_000), pings(&redis).await);
    for _ in 0..50 {
        // All are sent before the first reply; then the others are dropped.
        let calls = (0..20).map(|_| Box::pin(limiter.check(&limit, KEY)));
        let (first, _, others) = in_time(select_all(calls)).await;
        assert!(first.expect("a decision").is_allowed());
        assert!(!others.is_empty());
    }
    let _ = in_time(limiter.check(&limit, KEY)).await.expect("a decision");
    assert_eq!(
        (proxy.accepted(), pings(&redis).await - before),
        (1, 0),
        "a working connection was suspected"
    );
}

#[tokio::test]
async fn the_longest_durations_are_valid() {
    let redis = Redis::start(&[]).await;
    // A server, and a server whose role is discovered first.
    let discovered = format!("redis+shards://{}|{}", redis.address(), redis.address());
    for (url, prefix) in [(redis.url(), "single"), (discovered, "discovered")] {
        let config = Config::new(url)
            .prefix(prefix)
            .call_timeout(Duration::MAX)
            .connect_timeout(Duration::MAX)
            .reconnect_backoff(Duration::MAX, Duration::MAX)
            .expiry_margin(Duration::MAX)
            .idempotency_retention(Duration::MAX);
        let limiter = Limiter::new(in_time(config.require_reachable().connect()).await.expect("a store"));
        let limit = daily(2);
        assert!(in_time(limiter.check(&limit, KEY)).await.expect("a decision").is_allowed());
        assert!(in_time(limiter.debit(&limit, KEY, 1)).await.expect("a decision").is_allowed());
        assert!(in_time(limiter.check(&limit, KEY)).await.expect("a decision").is_denied());
    }
}

/// After an attempt that failed, too.
#[tokio::test]
async fn the_longest_backoff_is_valid() {
    let mut redis = Redis::start(&[]).await;
    redis.kill().await;
    let config = Config::new(redis.url()).reconnect_backoff(Duration::MAX, Duration::MAX);
    let limiter = Limiter::new(in_time(config.connect()).await.expect("a store"));
    for _ in 0..2 {
        let error = in_time(limiter.check(&daily(1), KEY)).await.expect_err("no server");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    }
}
