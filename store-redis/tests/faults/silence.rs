//! Servers that are there and say nothing.

use std::time::Duration;

use futures_util::future::select_all;
use tokio::task::JoinSet;
use tollgate_core::store::{Run, Store};
use tollgate_core::{Effect, ErrorKind, Limiter, Request, Time};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::expect::{KEY, assert_discreet, assert_error, daily, in_time, until, used};
use crate::proxy::Proxy;

const TOO_LATE: (ErrorKind, Effect) = (ErrorKind::Timeout, Effect::Unknown);

/// Callers do not wait for long, but longer than a busy machine takes to answer them.
async fn hasty(redis: &Redis) -> Limiter<RedisStore> {
    Limiter::new(haste(redis).must_be_there().connect().await.expect("a server"))
}

fn haste(redis: &Redis) -> Config {
    Config::new(redis.url())
        .call_timeout(Duration::from_secs(1))
        .connect_timeout(Duration::from_secs(1))
        .reconnect_backoff(Duration::ZERO, Duration::ZERO)
}

/// The server knows the scripts: what is sent next is executed, now or later.
async fn warm(limiter: &Limiter<RedisStore>) {
    let _ = in_time(limiter.check(&daily(1), "warm")).await.expect("a decision");
    let _ = in_time(limiter.debit(&daily(1), "warm", 1)).await.expect("a decision");
}

/// Many callers, each with a limit and a cost of its own, so that an answer that is not its own shows.
async fn answers_belong_to_their_callers(limiter: &Limiter<RedisStore>) {
    let mut callers = JoinSet::new();
    for number in 1..=200_u32 {
        let store = limiter.store().clone();
        callers.spawn(async move {
            let limiter = Limiter::new(store);
            let limit = daily(1_000 + number);
            let key = format!("caller {number}");
            let told = in_time(limiter.charge(limit.charge(key.as_str()).with_cost(number))).await;
            (number, told)
        });
    }
    while let Some(joined) = callers.join_next().await {
        let (number, told) = joined.expect("no panic");
        let told = told.expect("a decision");
        assert_eq!((told.granted(), told.remaining()), (number, 1_000), "the answer of another caller");
    }
}

#[tokio::test]
async fn a_frozen_server_costs_callers_no_more_than_their_deadline() {
    let redis = Redis::start(&[]).await;
    let limiter = hasty(&redis).await;
    warm(&limiter).await;
    redis.freeze().await;
    let limit = daily(10);
    let first = in_time(limiter.check(&limit, KEY)).await;
    assert_error(first, TOO_LATE, &["did not answer in time", "may have taken effect"]);
    // From now on the connection is in doubt. Whatever is tried, calls end, and say that it was time that ran out.
    for _ in 0..3 {
        let error = in_time(limiter.debit(&limit, KEY, 1)).await.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_discreet(&error);
    }
    redis.thaw().await;
    until("it answers again", async || limiter.peek(&limit, KEY).await.is_ok()).await;
    answers_belong_to_their_callers(&limiter).await;
    assert!(
        (1..=4).contains(&used(&limiter, &limit).await),
        "what was sent counts once, the rest not at all"
    );
}

#[tokio::test]
async fn a_paused_server_answers_those_who_come_later() {
    let redis = Redis::start(&[]).await;
    let limiter = hasty(&redis).await;
    warm(&limiter).await;
    let limit = daily(10);
    // For longer than the test takes, unless it is ended. Scripts may write, so they wait.
    redis.call(&["CLIENT", "PAUSE", "600000", "WRITE"]).await;
    assert_error(in_time(limiter.check(&limit, KEY)).await, TOO_LATE, &["did not answer in time"]);
    redis.call(&["CLIENT", "UNPAUSE"]).await;
    until("it answers again", async || limiter.peek(&limit, KEY).await.is_ok()).await;
    until("the late one is executed", async || used(&limiter, &limit).await == 1).await;
    answers_belong_to_their_callers(&limiter).await;
}

#[tokio::test]
async fn everybody_in_flight_on_a_frozen_server_is_told_in_time() {
    let redis = Redis::start(&[]).await;
    let limiter = hasty(&redis).await;
    warm(&limiter).await;
    redis.freeze().await;
    let mut callers = JoinSet::new();
    for _ in 0..500 {
        let store = limiter.store().clone();
        callers.spawn(async move { in_time(Limiter::new(store).check(&daily(10_000), KEY)).await });
    }
    while let Some(joined) = callers.join_next().await {
        let error = joined.expect("no panic").expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
    redis.thaw().await;
    until("it answers again", async || limiter.peek(&daily(10_000), KEY).await.is_ok()).await;
    assert!(used(&limiter, &daily(10_000)).await <= 500, "nobody counts twice");
    answers_belong_to_their_callers(&limiter).await;
}

/// The deadline is that of the whole call, however many steps it takes: what comes after it is not even sent.
#[tokio::test]
async fn a_long_batch_has_one_deadline() {
    let redis = Redis::start(&[]).await;
    // One for each part of the batch, none of them in doubt when its turn comes.
    let connections = 8;
    let config = haste(&redis).connections(connections).must_be_there();
    let limiter = Limiter::new(config.connect().await.expect("a server"));
    for _ in 0..connections {
        warm(&limiter).await;
    }
    redis.freeze().await;
    let limit = daily(1_000_000);
    let charges = [limit.charge(KEY)];
    let batch = vec![Run::new(Request::new(&charges), 1); 2_000];
    let told = in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await;
    assert_eq!(told.len(), batch.len());
    let mut sent = 0;
    for answer in told {
        let error = answer.expect_err("nobody answers");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        sent += usize::from(error.effect() == Effect::Unknown);
    }
    redis.thaw().await;
    until("it answers again", async || limiter.peek(&limit, KEY).await.is_ok()).await;
    assert!((1..batch.len()).contains(&sent), "the first part was sent, the last was not: {sent}");
    let used = usize::try_from(used(&limiter, &limit).await).expect("few");
    assert!(used <= sent, "{used} are counted, and only {sent} were said to be perhaps");
}

/// A limiter over one connection through a proxy. Calls of its own would wait for longer than any caller here does.
async fn behind(proxy: &Proxy) -> Limiter<RedisStore> {
    let config = Config::new(proxy.url())
        .connections(1)
        .call_timeout(Duration::from_secs(600))
        .connect_timeout(Duration::from_millis(500))
        .reconnect_backoff(Duration::ZERO, Duration::ZERO);
    let limiter = Limiter::new(config.must_be_there().connect().await.expect("a server"));
    warm(&limiter).await;
    limiter
}

/// Nobody waits until the store itself would give up, so it learns from those who go that nothing comes any more.
#[tokio::test]
async fn callers_that_give_up_early_leave_no_dead_connection_behind() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    assert_eq!(proxy.made(), 1);
    let limit = daily(10_000);
    proxy.silence();
    let mut tries = 0;
    let hurried = async || tokio::time::timeout(Duration::from_millis(20), limiter.check(&limit, KEY)).await;
    while !matches!(hurried().await, Ok(Ok(_))) {
        tries += 1;
        // Twenty times as many as it takes until the connection has been found out.
        assert!(tries < 500, "the connection is still in use");
    }
    assert!(tries > 0, "the connection was not silent");
    assert!(proxy.made() > 1, "nothing came through the first");
    answers_belong_to_their_callers(&limiter).await;
}

/// How often the server was asked whether it is there.
async fn pings(redis: &Redis) -> u64 {
    let stats = redis.call(&["INFO", "commandstats"]).await.text();
    let calls = |line: &str| line.strip_prefix("cmdstat_ping:calls=")?.split(',').next()?.parse().ok();
    stats.lines().find_map(calls).unwrap_or(0)
}

/// Where answers keep coming, callers that go say nothing about the connection.
#[tokio::test]
async fn callers_that_give_up_on_a_busy_connection_do_not_put_it_in_doubt() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    let (limit, before) = (daily(10_000), pings(&redis).await);
    for _ in 0..50 {
        // All are sent before the first of them is answered; then the others are given up.
        let calls = (0..20).map(|_| Box::pin(limiter.check(&limit, KEY)));
        let (first, _, others) = in_time(select_all(calls)).await;
        assert!(first.expect("a decision").is_allowed());
        assert!(!others.is_empty());
    }
    let _ = in_time(limiter.check(&limit, KEY)).await.expect("a decision");
    assert_eq!(
        (proxy.made(), pings(&redis).await - before),
        (1, 0),
        "a connection that was fine was doubted"
    );
}

#[tokio::test]
async fn callers_may_wait_as_long_as_they_like() {
    let redis = Redis::start(&[]).await;
    let config = Config::new(redis.url())
        .call_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX)
        .reconnect_backoff(Duration::MAX, Duration::MAX)
        .expiry_margin(Duration::MAX)
        .operation_memory(Duration::MAX);
    let limiter = Limiter::new(in_time(config.connect()).await.expect("a store"));
    let limit = daily(2);
    assert!(in_time(limiter.check(&limit, KEY)).await.expect("a decision").is_allowed());
    assert!(in_time(limiter.debit(&limit, KEY, 1)).await.expect("a decision").is_allowed());
    assert!(in_time(limiter.check(&limit, KEY)).await.expect("a decision").is_denied());
}
