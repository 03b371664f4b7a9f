//! Reservations: debited now and started later, in order, within the caller's maximum wait, refunded when cancelled.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind};

use super::Plan;
use crate::fixture::{ENTITY, Fixture};
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("reserve", reserve);
    plan.each("cancel", cancel);
    plan.each("cancel_and_reserve", cancel_and_reserve);
}

fn within(seconds: u64) -> Action {
    Action::Take { max_wait: Some(Duration::from_secs(seconds)) }
}

async fn reserve<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    if !limit.kind().reserves() {
        return fixture.refused(&limit, within(1)).await;
    }
    // Taking all that a cold limiter has stored would exceed the maximum wait.
    let cold = limit.kind() == AlgorithmKind::SmoothWarmingUp;
    assert!(fixture.take(&limit, if cold { 1 } else { limit.capacity() }).await.is_allowed());
    let mut last = Duration::ZERO;
    let mut reserved = 0;
    loop {
        let reservation = fixture.act(&limit, 1, within(2)).await;
        if reservation.is_denied() {
            assert!(reservation.retry_after().is_some(), "{reservation:?}");
            break;
        }
        let start = reservation.start_after();
        assert!(start >= last && start <= Duration::from_secs(2), "{reservation:?}");
        last = start;
        reserved += 1;
        assert!(reserved < 100, "the maximum wait bounds the reservations");
    }
    let queue = limit.kind() == AlgorithmKind::LeakyQueue;
    assert!(reserved > 0 || queue, "some start within the maximum wait");
    // A later caller never starts earlier.
    let denied = fixture.take(&limit, 1).await;
    assert!(denied.is_denied());
    fixture.advance(denied.retry_after().expect("a denial has a retry_after"));
    assert!(fixture.take(&limit, 1).await.is_allowed());
}

async fn cancel<S: Store>(fixture: Fixture<S>, Sample { limit, name, .. }: Sample) {
    if !limit.kind().reserves() {
        return fixture.refused(&limit, within(1)).await;
    }
    let whole = limit.capacity();
    // Less is left than both reservations cost. A leaky queue admits only what fits into it, reserved or not.
    let first_taken = match limit.kind() {
        AlgorithmKind::LeakyQueue => whole - 5,
        AlgorithmKind::SmoothBursty => whole,
        AlgorithmKind::SmoothWarmingUp => 1,
        _ => whole - 1,
    };
    assert!(fixture.take(&limit, first_taken).await.is_allowed());
    if limit.kind() == AlgorithmKind::SmoothBursty {
        assert!(fixture.take(&limit, 1).await.is_allowed(), "the one that the next caller waits for");
    }
    let first = fixture.act(&limit, 2, within(9)).await;
    let second = fixture.act(&limit, 3, within(9)).await;
    assert!(first.is_allowed() && second.is_allowed(), "{first:?} {second:?}");
    assert!(
        !first.start_after().is_zero() && second.start_after() >= first.start_after(),
        "{first:?} {second:?}"
    );
    let cancel = async |cost: u32, start: Duration| {
        let refund = Action::Refund { at: Some(fixture.now() + start) };
        fixture.one(fixture.charge(&limit, ENTITY).with_cost(cost).with_action(refund)).await.granted()
    };
    let refunded_first = cancel(2, first.start_after()).await;
    let refunded_second = cancel(3, second.start_after()).await;
    // Both start with the same refill of an interval bucket, so neither waits behind the other. Everywhere else the
    // second one waits behind the first, and nothing behind the second.
    let expected = if limit.kind() == AlgorithmKind::IntervalBucket { (2, 3) } else { (0, 3) };
    assert_eq!((refunded_first, refunded_second), expected, "{name}");
}

/// Cancelling reservations and reserving again starts no more at once than the capacity.
async fn cancel_and_reserve<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    if !limit.kind().reserves() {
        return fixture.refused(&limit, within(1)).await;
    }
    let reserve = async || {
        let decision = fixture.act(&limit, 1, within(60)).await;
        decision.is_allowed().then(|| fixture.now() + decision.start_after())
    };
    let mut starts = Vec::new();
    for _ in 0..3 * limit.capacity() {
        starts.extend(reserve().await.filter(|start| *start > fixture.now()));
    }
    // The earlier half is cancelled, and reserved again.
    let half = starts.len() / 2;
    for start in starts.drain(..half) {
        let _ = fixture.act(&limit, 1, Action::Refund { at: Some(start) }).await;
    }
    for _ in 0..half {
        starts.extend(reserve().await);
    }
    for start in &starts {
        let together = starts.iter().filter(|other| *other == start).count();
        let most = if limit.kind() == AlgorithmKind::IntervalBucket { limit.capacity() } else { 1 };
        assert!(together <= most as usize, "{together} start together: {starts:?}");
    }
}
