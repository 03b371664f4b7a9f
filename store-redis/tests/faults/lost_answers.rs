//! Connections that end between a question and its answer, or while nobody asks.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Effect, ErrorKind, IdempotencyKey, Limit, Limiter, Request, Time};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::expect::{KEY, assert_error, daily, in_time, limiter, spent, until, used};
use crate::proxy::Proxy;

const LOST: (ErrorKind, Effect) = (ErrorKind::Unavailable, Effect::Unknown);

/// A limiter behind a proxy, on a server that knows the scripts.
async fn behind(proxy: &Proxy) -> Limiter<RedisStore> {
    let store = Config::new(proxy.url()).must_be_there().connect().await.expect("a server");
    let limiter = Limiter::new(store);
    let _ = in_time(limiter.check(&daily(9), "warm")).await.expect("a decision");
    let _ = in_time(limiter.debit(&daily(9), "warm", 1)).await.expect("a decision");
    in_time(limiter.acquire(&places(), "warm")).await.expect("a decision").is_held();
    limiter
}

fn places() -> Limit {
    Limit::concurrent(5).lease(Duration::from_secs(600)).build("places").expect("valid")
}

#[tokio::test]
async fn a_check_whose_answer_is_lost_says_that_it_may_have_counted_and_counts_once() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(&redis).await;
    let (limiter, direct) = (behind(&proxy).await, limiter(&redis).await);
    let limit = daily(10);
    for round in 1..=3 {
        // There is a connection again.
        assert_eq!(used(&limiter, &limit).await, round - 1);
        proxy.swallow_next_answer();
        let told = in_time(limiter.check(&limit, KEY)).await;
        assert_error(told, LOST, &["lost the connection", "may have taken effect"]);
        assert!(proxy.has_swallowed());
        assert_eq!(used(&direct, &limit).await, round, "once each");
    }
    // The next ones are fine.
    assert_eq!(spent(&in_time(limiter.check(&limit, KEY)).await.expect("a decision")), 4);
}

#[tokio::test]
async fn named_calls_whose_answer_is_lost_are_answered_and_count_once() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(&redis).await;
    let (limiter, direct) = (behind(&proxy).await, limiter(&redis).await);
    let (limit, places) = (daily(10), places());

    proxy.swallow_next_answer();
    let told = in_time(limiter.debit(&limit, KEY, 4)).await.expect("the store asks again");
    assert_eq!((told.granted(), spent(&told)), (4, 4));
    assert!(proxy.has_swallowed());
    assert_eq!(used(&direct, &limit).await, 4);

    proxy.swallow_next_answer();
    let told = in_time(limiter.refund(&limit, KEY, 1)).await.expect("the store asks again");
    assert_eq!((told.granted(), spent(&told)), (1, 3));
    assert!(proxy.has_swallowed());
    assert_eq!(used(&direct, &limit).await, 3);

    proxy.swallow_next_answer();
    let told = in_time(limiter.take_up_to(&limit, KEY, 2)).await.expect("the store asks again");
    assert_eq!((told.granted(), spent(&told)), (2, 5));
    assert!(proxy.has_swallowed());
    assert_eq!(used(&direct, &limit).await, 5);

    proxy.swallow_next_answer();
    let lease = in_time(limiter.acquire(&places, KEY)).await.expect("the store asks again");
    assert!(lease.is_held() && proxy.has_swallowed());
    assert_eq!(used(&direct, &places).await, 1);
    proxy.swallow_next_answer();
    in_time(limiter.release(lease)).await.expect("the store asks again");
    assert!(proxy.has_swallowed());
    assert_eq!(used(&direct, &places).await, 0);

    let charges = [limit.charge(KEY).with_cost(2)];
    let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
    proxy.swallow_next_answer();
    let told = in_time(limiter.store().decide(request, Time::EPOCH)).await.expect("the store asks again");
    assert_eq!((told.decisions()[0].granted(), spent(&told.decisions()[0])), (2, 7));
    assert!(proxy.has_swallowed());
    assert_eq!(used(&direct, &limit).await, 7);

    let exactly = Limiter::new(limiter.store().clone()).exactly_once();
    for round in 8..=10 {
        proxy.swallow_next_answer();
        let told = in_time(exactly.check(&limit, KEY)).await.expect("the store asks again");
        assert!(told.is_allowed() && proxy.has_swallowed());
        assert_eq!(used(&direct, &limit).await, round, "once each");
    }
    proxy.swallow_next_answer();
    assert!(in_time(exactly.check(&limit, KEY)).await.expect("the store asks again").is_denied());
}

#[tokio::test]
async fn looks_whose_answer_is_lost_are_asked_again() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    let limit = daily(10);
    let _ = in_time(limiter.debit(&limit, KEY, 4)).await.expect("a decision");
    proxy.swallow_next_answer();
    assert_eq!(used(&limiter, &limit).await, 4);
    assert!(proxy.has_swallowed());
    in_time(limiter.store().export(&limit, KEY.into(), Time::EPOCH)).await.expect("the script is known");
    proxy.swallow_next_answer();
    let export = in_time(limiter.store().export(&limit, KEY.into(), Time::EPOCH)).await;
    assert!(export.expect("the store asks again").state.is_some(), "it was used");
    assert!(proxy.has_swallowed());
    for round in 1..=2 {
        // Deltas whose answer is lost are sent again, and applied once.
        proxy.swallow_next_answer();
        let delta = [limit.charge(KEY).with_action(Action::Debit { at: None })];
        let request = Request::new(&delta).with_idempotency_key(IdempotencyKey::unique());
        in_time(limiter.store().apply_deltas(request, Time::EPOCH)).await.expect("sent again");
        assert!(proxy.has_swallowed());
        assert_eq!(used(&limiter, &limit).await, 4 + round);
    }
}

#[tokio::test]
async fn a_connection_that_ended_while_nobody_asked_is_no_error() {
    let redis = Redis::start(&[]).await;
    let proxy = Proxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    let limit = daily(100);
    for round in 1..=20 {
        proxy.cut();
        until("the store has hung up", async || proxy.open() == 0).await;
        let told = in_time(limiter.check(&limit, KEY)).await.expect("it was known that nothing was sent");
        assert_eq!(spent(&told), round);
    }
    assert_eq!(proxy.made(), 21, "one connection after the other");
}

#[tokio::test]
async fn clients_that_the_server_has_hung_up_on_connect_again() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    let limit = daily(100);
    for round in 1..=5 {
        let told = in_time(limiter.check(&limit, KEY)).await.expect("a decision");
        assert_eq!(spent(&told), round);
        redis.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        // A call may still meet the connection before the end of it has been heard of here. It is a look, which
        // is asked again.
        assert_eq!(used(&limiter, &limit).await, round);
    }
}
