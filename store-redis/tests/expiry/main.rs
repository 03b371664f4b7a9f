//! The time-to-live of keys, by the server's clock: until the state equals a fresh one, plus the margin; neither longer
//! nor shorter. Every key expires.

mod fixture;

use std::time::Duration;

use fixture::{Fixture, Margin, key_of};
use tollgate_core::store::Store;
use tollgate_core::{
    Action, AlgorithmKind, Charge, IdempotencyKey, LeaseId, Limit, LimitBuilder, Request, Time,
};
use tollgate_testkit::Reply;

/// The server's clock decides, so the caller's time does not matter.
const NOW: Time = Time::EPOCH;
const LEASE: LeaseId = LeaseId::new(7);

/// Returns limits of every algorithm, with times in proportion to `period`.
fn limits(period: Duration) -> Vec<Limit> {
    let ten = || Limit::per(10, period);
    let all: [(&str, LimitBuilder); 19] = [
        ("token_bucket", ten()),
        ("token_bucket_uneven", Limit::per(7, period).burst(11)),
        ("interval_bucket", ten().refill_by_interval()),
        ("leaky_meter", ten().leaky_bucket()),
        ("leaky_queue", ten().queue(9)),
        ("gcra", ten().gcra()),
        ("smooth_bursty", ten().smooth()),
        ("smooth_warming_up", ten().warm_up(period)),
        ("fixed_window", ten().fixed_window()),
        ("fixed_window_anchored", ten().fixed_window().anchored()),
        ("sliding_window", ten().sliding_window()),
        ("sliding_counter", ten().sliding_counter(7)),
        ("sliding_log", ten().sliding_log()),
        ("sliding_log_denied_counted", ten().sliding_log().count_denied()),
        ("sliding_log_with_gap", ten().sliding_log().min_gap(period / 20)),
        ("concurrency", Limit::concurrent(10).lease(period)),
        ("blocking_bucket", ten().block_for(period * 2)),
        ("blocking_log", ten().sliding_log().block_for(period * 2)),
        ("blocking_concurrency", Limit::concurrent(10).lease(period).block_for(period * 2)),
    ];
    all.into_iter().map(|(name, limit)| limit.build(name).expect("valid")).collect()
}

/// Returns a sequence of charges on one key: takes, debits, denials and refunds, now and in the past.
fn charges(charge: Charge<'_>, period: Duration, started: Time) -> Vec<Charge<'_>> {
    let (early, late) = (Some(started - period / 2), Some(started + period / 2));
    let all = [
        charge,
        charge.with_cost(2).with_lease(LEASE),
        charge.with_action(Action::Refund { at: None }),
        charge.with_action(Action::Renew).with_lease(LEASE),
        charge.with_max_wait(period / 10),
        charge.with_cost(3).with_action(Action::Debit { at: None }),
        charge.with_cost(2).with_action(Action::Debit { at: early }),
        charge.with_cost(5).with_action(Action::TakeUpTo),
        charge.with_cost(0),
        charge.with_cost(8).with_action(Action::Debit { at: Some(started) }),
        charge,
        charge.with_cost(2),
        charge.with_action(Action::Refund { at: early }),
        charge.with_action(Action::Refund { at: late }),
        charge.with_cost(40).with_action(Action::Refund { at: Some(started) }),
        charge.with_action(Action::Release).with_lease(LEASE),
        charge,
        charge.with_action(Action::Reset),
        charge.with_action(Action::Refund { at: None }),
        charge.with_action(Action::Debit { at: Some(started - period * 2) }),
        charge.with_action(Action::Refund { at: Some(started - period * 2) }),
        charge.with_cost(2),
    ];
    all.into_iter().filter(|charge| charge.supported().is_ok()).collect()
}

async fn lives_until_fresh(margin: Duration) {
    let fixture = Fixture::with_margin(margin).await;
    // Long enough that nothing expires during the test.
    let period = Duration::from_secs(1_000);
    for limit in limits(period) {
        let margin = Margin::of(&limit, margin);
        let (mut key, mut elapsed) = (None, Duration::ZERO);
        for (step, charge) in
            charges(limit.charge("alice"), period, fixture.time().await).into_iter().enumerate()
        {
            let before = fixture.time().await;
            let verdict = fixture.decide(charge).await;
            elapsed = elapsed.max(fixture.time().await.since(before));
            if key.is_none() {
                key = key_of(&fixture, &limit).await;
            }
            let reset = verdict.decisions()[0].reset_after();
            let what = format!("{}, step {step}, {:?}", limit.name(), charge.action());
            match &key {
                Some(key) => {
                    let (ttl, at) = (fixture.time_to_live(key).await, verdict.decided_at());
                    if reset.is_zero() {
                        ttl.check_fresh(at, margin, elapsed, &what);
                    } else {
                        ttl.check(at + reset, margin, elapsed, &what);
                    }
                }
                None => assert_eq!(reset, Duration::ZERO, "{what}: no state was stored"),
            }
        }
        assert!(key.is_some(), "{}: no state was ever stored", limit.name());
    }
}

#[tokio::test]
async fn a_state_lives_until_it_is_fresh() {
    lives_until_fresh(Duration::ZERO).await;
}

#[tokio::test]
async fn a_state_lives_a_margin_longer() {
    lives_until_fresh(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_state_lives_an_odd_margin_longer() {
    lives_until_fresh(Duration::from_millis(86_399_999)).await;
}

#[tokio::test]
async fn a_state_after_deltas_lives_until_it_is_fresh() {
    let period = Duration::from_secs(1_000);
    for margin in [Duration::ZERO, Duration::from_secs(1)] {
        let fixture = Fixture::with_margin(margin).await;
        for limit in limits(period).iter().filter(|limit| limit.kind() != AlgorithmKind::Concurrency) {
            let mut elapsed = Duration::ZERO;
            // Debited now and in the past, overdrawn, and refunded.
            for (step, (cost, refund)) in
                [(1, false), (2, false), (12, false), (2, true)].into_iter().enumerate()
            {
                let before = fixture.time().await;
                let at = (step == 1).then(|| before - period / 100);
                let action = if refund { Action::Refund { at: None } } else { Action::Debit { at } };
                let charges = [limit.charge("alice").with_cost(cost).with_action(action)];
                let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
                let exports = fixture.store.apply_deltas(request, NOW).await.expect("a state");
                elapsed = elapsed.max(fixture.time().await.since(before));
                assert!(exports[0].state.is_some(), "{}, step {step}", limit.name());
                let verdict = fixture.decide(limit.charge("alice").with_cost(0)).await;
                let fresh_at = verdict.decided_at() + verdict.decisions()[0].reset_after();
                let key = key_of(&fixture, limit).await.expect("a state");
                let what = format!("{}, step {step}", limit.name());
                fixture.time_to_live(&key).await.check(fresh_at, Margin::of(limit, margin), elapsed, &what);
            }
        }
        // The idempotency records expire as well.
        let keys = fixture.keys().await;
        let records: Vec<_> = keys.iter().filter(|key| key.contains(":op~")).collect();
        assert!(!records.is_empty(), "{keys:?}");
        for key in records {
            assert!(fixture.time_to_live(key).await.left().is_some(), "{key}");
        }
    }
}

#[tokio::test]
async fn an_idempotency_record_lives_for_the_retention() {
    let retention = Duration::from_secs(77);
    let fixture = Fixture::start(|config| config.idempotency_retention(retention)).await;
    let limit = Limit::per_hour(10).build("api").expect("valid");
    let charges = [limit.charge("alice")];
    let (request, before) =
        (Request::new(&charges).with_idempotency_key(IdempotencyKey::new(1)), fixture.time().await);
    let verdict = fixture.store.decide(request, NOW).await.expect("a verdict");
    let elapsed = fixture.time().await.since(before);
    let key = fixture.keys().await.into_iter().find(|key| key.contains(":op~")).expect("a record");
    fixture.time_to_live(&key).await.check(verdict.decided_at() + retention, Margin::NONE, elapsed, &key);
}

#[tokio::test]
async fn every_key_expires() {
    let fixture = Fixture::start(|config| config).await;
    let period = Duration::from_secs(1_000);
    let limits = limits(period);
    let mut number = 0;
    for limit in &limits {
        for entity in ["alice", "bob", "carol"] {
            for charge in charges(limit.charge(entity), period, fixture.time().await) {
                number += 1;
                let charges = [charge, limits[number % limits.len()].charge(entity)];
                let request = Request::new(&charges[..=number % 2]);
                let idempotent = request.with_idempotency_key(IdempotencyKey::new(number as u128));
                let request = if number.is_multiple_of(3) { idempotent } else { request };
                let _ = fixture.store.decide(request, NOW).await.expect("a verdict");
            }
        }
    }
    let keys = fixture.keys().await;
    assert!(keys.len() > limits.len(), "{keys:?}");
    assert!(keys.iter().any(|key| key.contains(":op~")), "{keys:?}");
    for key in keys {
        // Panics if it does not expire.
        let _ = fixture.time_to_live(&key).await.left();
    }
}

#[tokio::test]
async fn a_reset_deletes_the_state_at_once() {
    let margin = Duration::from_secs(1);
    let fixture = Fixture::with_margin(margin).await;
    for limit in limits(Duration::from_secs(1_000)) {
        let _ = fixture.decide(limit.charge("alice").with_cost(10)).await;
        // The second is denied, and blocks if the limit does.
        let _ = fixture.decide(limit.charge("alice").with_cost(10)).await;
        let key = key_of(&fixture, &limit).await.expect("a state");
        let _ = fixture.decide(limit.charge("alice").with_action(Action::Reset)).await;
        let left = fixture.time_to_live(&key).await.left();
        if keeps_its_window(&limit) {
            assert!(left.is_none_or(|left| left <= margin), "{key} lives for {left:?}");
        } else {
            assert_eq!(left, None, "{key}");
        }
    }
}

/// Returns whether the newest sub-bucket is kept for the margin, in case the clock is set back.
fn keeps_its_window(limit: &Limit) -> bool {
    matches!(limit.kind(), AlgorithmKind::SlidingCounter)
}

#[tokio::test]
async fn a_refunded_state_expires_with_the_margin() {
    let margin = Duration::from_secs(1);
    let fixture = Fixture::with_margin(margin).await;
    for limit in limits(Duration::from_secs(1_000)) {
        let take = limit.charge("alice").with_cost(3).with_lease(LEASE);
        let verdict = fixture.decide(take).await;
        let key = key_of(&fixture, &limit).await.expect("a state");
        let Some(refund) = take.compensation(&verdict.decisions()[0], verdict.decided_at()) else {
            panic!("{}: no refund", limit.name());
        };
        let refunded = fixture.decide(refund).await;
        if refunded.decisions()[0].reset_after().is_zero() {
            let left = fixture.time_to_live(&key).await.left();
            assert!(left.is_none_or(|left| left <= margin), "{key} lives for {left:?}");
        }
        if matches!(limit.kind(), AlgorithmKind::SlidingLog | AlgorithmKind::Concurrency)
            && limit.name() != "sliding_log_with_gap"
        {
            assert_eq!(fixture.time_to_live(&key).await.left(), None, "{key}");
        }
    }
}

#[tokio::test]
async fn keys_expire_without_further_calls() {
    let retention = Duration::from_millis(20);
    let fixture =
        Fixture::start(|config| config.expiry_margin(Duration::ZERO).idempotency_retention(retention)).await;
    for limit in limits(Duration::from_millis(30)) {
        for (number, entity) in ["alice", "bob", "carol"].into_iter().enumerate() {
            let charges = [limit.charge(entity).with_cost(3)];
            let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::new(number as u128));
            let _ = fixture.store.decide(request, NOW).await.expect("a verdict");
        }
    }
    for _ in 0..1_500 {
        if fixture.redis.call(&["DBSIZE"]).await == Reply::Integer(0) {
            return;
        }
        pause().await;
    }
    panic!("these keys are left: {:?}", fixture.keys().await);
}

/// The server looks for expired keys about ten times a second.
#[expect(clippy::disallowed_methods, reason = "a real server expires keys in real time")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[tokio::test]
async fn a_state_that_is_fresh_at_once_is_no_error_without_a_margin() {
    let fixture = Fixture::with_margin(Duration::ZERO).await;
    let old = Some(fixture.time().await - Duration::from_secs(100));
    for limit in limits(Duration::from_secs(10)) {
        for action in [
            Action::Refund { at: None },
            Action::Refund { at: old },
            Action::Debit { at: old },
            Action::Reset,
            Action::Release,
        ] {
            let charge = limit.charge("alice").with_action(action);
            if charge.supported().is_ok() {
                let _ = fixture.decide(charge).await;
            }
        }
    }
}
