//! Connections that close before the reply arrives, or while idle.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Action, Effect, ErrorKind, IdempotencyKey, Key, Limit, Limiter, Request, StoreError, Time, Verdict,
};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, assert_error, daily, in_time, limiter, until, used, used_by};
use tollgate_testkit::RedisProxy;

const LOST: (ErrorKind, Effect) = (ErrorKind::Unavailable, Effect::Unknown);

/// Returns a limiter behind a proxy, on a server that has cached the scripts.
async fn behind(proxy: &RedisProxy) -> Limiter<RedisStore> {
    let store = Config::new(proxy.url()).require_reachable().connect().await.expect("a reachable server");
    let limiter = Limiter::new(store);
    let _ = in_time(limiter.check(&daily(9), "warm")).await.expect("a decision");
    let _ = in_time(limiter.debit(&daily(9), "warm", 1)).await.expect("a decision");
    in_time(limiter.acquire_lease(&slots(), "warm")).await.expect("a decision").is_held();
    limiter
}

fn slots() -> Limit {
    Limit::concurrent(5).lease(Duration::from_secs(600)).build("slots").expect("valid")
}

#[tokio::test]
async fn a_check_whose_reply_is_lost_may_have_taken_effect_and_counts_once() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let (limiter, direct) = (behind(&proxy).await, limiter(&redis).await);
    let limit = daily(10);
    for round in 1..=3 {
        // This opens a connection again.
        assert_eq!(used(&limiter, &limit).await, round - 1);
        proxy.drop_next_reply();
        let result = in_time(limiter.check(&limit, KEY)).await;
        assert_error(result, LOST, &["was lost", "may have taken effect"]);
        assert!(proxy.has_dropped());
        assert_eq!(used(&direct, &limit).await, round, "once each");
    }
    // Later calls succeed.
    assert_eq!(used_by(&in_time(limiter.check(&limit, KEY)).await.expect("a decision")), 4);
}

#[tokio::test]
async fn idempotent_calls_whose_reply_is_lost_are_retried_and_count_once() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let (limiter, direct) = (behind(&proxy).await, limiter(&redis).await);
    let (limit, slots) = (daily(10), slots());

    proxy.drop_next_reply();
    let decision = in_time(limiter.debit(&limit, KEY, 4)).await.expect("a retry");
    assert_eq!((decision.granted(), used_by(&decision)), (4, 4));
    assert!(proxy.has_dropped());
    assert_eq!(used(&direct, &limit).await, 4);

    proxy.drop_next_reply();
    let decision = in_time(limiter.refund(&limit, KEY, 1)).await.expect("a retry");
    assert_eq!((decision.granted(), used_by(&decision)), (1, 3));
    assert!(proxy.has_dropped());
    assert_eq!(used(&direct, &limit).await, 3);

    proxy.drop_next_reply();
    let decision = in_time(limiter.take_up_to(&limit, KEY, 2)).await.expect("a retry");
    assert_eq!((decision.granted(), used_by(&decision)), (2, 5));
    assert!(proxy.has_dropped());
    assert_eq!(used(&direct, &limit).await, 5);

    proxy.drop_next_reply();
    let lease = in_time(limiter.acquire_lease(&slots, KEY)).await.expect("a retry");
    assert!(lease.is_held() && proxy.has_dropped());
    assert_eq!(used(&direct, &slots).await, 1);
    proxy.drop_next_reply();
    in_time(limiter.release(lease)).await.expect("a retry");
    assert!(proxy.has_dropped());
    assert_eq!(used(&direct, &slots).await, 0);

    let charges = [limit.charge(KEY).with_cost(2)];
    let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
    proxy.drop_next_reply();
    let verdict = in_time(limiter.store().decide(request, Time::EPOCH)).await.expect("a retry");
    assert_eq!((verdict.decisions()[0].granted(), used_by(&verdict.decisions()[0])), (2, 7));
    assert!(proxy.has_dropped());
    assert_eq!(used(&direct, &limit).await, 7);

    let exactly = Limiter::new(limiter.store().clone()).exactly_once();
    for round in 8..=10 {
        proxy.drop_next_reply();
        let decision = in_time(exactly.check(&limit, KEY)).await.expect("a retry");
        assert!(decision.is_allowed() && proxy.has_dropped());
        assert_eq!(used(&direct, &limit).await, round, "once each");
    }
    proxy.drop_next_reply();
    assert!(in_time(exactly.check(&limit, KEY)).await.expect("a retry").is_denied());
}

/// Executes every call on Redis, and loses the answers while told to, after the store's own repetitions.
struct LosesAnswers(RedisStore, AtomicBool);

impl Store for LosesAnswers {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let verdict = self.0.decide(request, now).await?;
        if self.1.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Unavailable, "injected").with_unknown_effect());
        }
        Ok(verdict)
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.0.decide_batch(batch, now).await
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.0.export(limit, key, now).await
    }
}

#[tokio::test]
async fn a_reservation_that_is_cancelled_again_after_a_lost_answer_is_refunded_once() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let (behind, direct) = (behind(&proxy).await, limiter(&redis).await);
    let limit = Limit::per_day(10).build("calls").expect("valid");
    let losing = Limiter::new(LosesAnswers(behind.into_store(), AtomicBool::new(false)));
    let debt = async || in_time(direct.peek(&limit, KEY)).await.expect("a decision").debt();
    in_time(losing.debit(&limit, KEY, 14)).await.expect("a decision");
    let week = Duration::from_secs(7 * 24 * 60 * 60);
    let mut reservation = in_time(losing.reserve(&limit, KEY, week)).await.expect("buckets reserve");
    assert!(reservation.is_allowed());
    assert_eq!(debt().await, 5);
    losing.store().1.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        // Lost on the wire, and lost again by the caller.
        proxy.drop_next_reply();
        assert!(in_time(losing.cancel(&mut reservation)).await.is_err());
        assert!(proxy.has_dropped());
        assert_eq!(debt().await, 4);
    }
    losing.store().1.store(false, Ordering::Relaxed);
    assert_eq!(in_time(losing.cancel(&mut reservation)).await.expect("a decision").granted(), 1);
    assert_eq!(debt().await, 4, "refunded once");
}

#[tokio::test]
async fn peeks_and_deltas_whose_reply_is_lost_are_retried() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    let limit = daily(10);
    let _ = in_time(limiter.debit(&limit, KEY, 4)).await.expect("a decision");
    proxy.drop_next_reply();
    assert_eq!(used(&limiter, &limit).await, 4);
    assert!(proxy.has_dropped());
    in_time(limiter.store().export(&limit, KEY.into(), Time::EPOCH)).await.expect("an export");
    proxy.drop_next_reply();
    let export = in_time(limiter.store().export(&limit, KEY.into(), Time::EPOCH)).await;
    assert!(export.expect("a retry").state.is_some(), "the key was used");
    assert!(proxy.has_dropped());
    for round in 1..=2 {
        // Deltas are sent again, and applied once.
        proxy.drop_next_reply();
        let delta = [limit.charge(KEY).with_action(Action::Debit { at: None })];
        let request = Request::new(&delta).with_idempotency_key(IdempotencyKey::unique());
        in_time(limiter.store().apply_deltas(request, Time::EPOCH)).await.expect("a retry");
        assert!(proxy.has_dropped());
        assert_eq!(used(&limiter, &limit).await, 4 + round);
    }
}

/// The first of two copies may be executed late, and must find the record then.
#[tokio::test]
async fn calls_that_were_sent_twice_are_not_forgotten() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    let (limit, keys) = (daily(10), [(); 4].map(|()| IdempotencyKey::unique()));
    let debit = [limit.charge(KEY).with_action(Action::Debit { at: None })];
    let store = limiter.store();
    for (number, key) in keys.into_iter().enumerate() {
        if number % 2 == 1 {
            proxy.drop_next_reply();
        }
        let request = Request::new(&debit).with_idempotency_key(key);
        if number < 2 {
            in_time(store.apply_deltas(request, Time::EPOCH)).await.expect("a retry");
        } else {
            let verdict = in_time(store.decide(request, Time::EPOCH)).await.expect("a retry");
            assert!(verdict.is_allowed());
        }
        assert!(proxy.has_dropped());
    }
    in_time(store.forget_idempotency_keys(&keys.map(|key| (KEY.into(), key)))).await;
    let records = redis.call(&["KEYS", "*op~*"]).await.texts();
    let is_left =
        |key: IdempotencyKey| records.iter().any(|record| record.ends_with(&format!("{:032x}", key.get())));
    assert_eq!(keys.map(is_left), [false, true, false, true], "{records:?}");
    // The late copy.
    let request = Request::new(&debit).with_idempotency_key(keys[1]);
    in_time(store.apply_deltas(request, Time::EPOCH)).await.expect("the states");
    assert_eq!(used(&limiter, &limit).await, 4);
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_is_no_error() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let limiter = behind(&proxy).await;
    let limit = daily(100);
    for round in 1..=20 {
        proxy.cut();
        until("the store has closed its side", async || proxy.open() == 0).await;
        let decision = in_time(limiter.check(&limit, KEY)).await.expect("a new connection");
        assert_eq!(used_by(&decision), round);
    }
    assert_eq!(proxy.accepted(), 21, "one connection after the other");
}

#[tokio::test]
async fn killed_clients_reconnect() {
    let redis = Redis::start(&[]).await;
    let limiter = limiter(&redis).await;
    let limit = daily(100);
    for round in 1..=5 {
        let decision = in_time(limiter.check(&limit, KEY)).await.expect("a decision");
        assert_eq!(used_by(&decision), round);
        redis.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        // The call may still use the connection before its end is noticed. It is a peek, which is retried.
        assert_eq!(used(&limiter, &limit).await, round);
    }
}
