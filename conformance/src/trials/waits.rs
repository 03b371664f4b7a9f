//! Debit now, start later: in order, within the caller's patience, and given back when cancelled.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind};

use super::Plan;
use crate::samples::Sample;
use crate::stand::{Stand, WHO};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("reserve", reserve);
    plan.each("cancel", cancel);
}

fn patient(seconds: u64) -> Action {
    Action::Take { max_wait: Some(Duration::from_secs(seconds)) }
}

async fn reserve<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    if !limit.kind().reserves() {
        return stand.refused(&limit, patient(1)).await;
    }
    // Taking everything that a cold limiter has stored would take longer than anyone here waits.
    let cold = limit.kind() == AlgorithmKind::SmoothWarmingUp;
    assert!(stand.take(&limit, if cold { 1 } else { limit.capacity() }).await.is_allowed());
    let mut last = Duration::ZERO;
    let mut reserved = 0;
    loop {
        let told = stand.act(&limit, 1, patient(2)).await;
        if told.is_denied() {
            assert!(told.retry_after().is_some(), "{told:?}");
            break;
        }
        assert!(told.start_after() >= last && told.start_after() <= Duration::from_secs(2), "{told:?}");
        last = told.start_after();
        reserved += 1;
        assert!(reserved < 100, "patience must end");
    }
    let queue = limit.kind() == AlgorithmKind::LeakyQueue;
    assert!(reserved > 0 || queue, "there was time for some");
    // Nobody who comes later starts earlier.
    let denied = stand.take(&limit, 1).await;
    assert!(denied.is_denied());
    stand.advance(denied.retry_after().expect("a wait cures it"));
    assert!(stand.take(&limit, 1).await.is_allowed());
}

async fn cancel<S: Store>(stand: Stand<S>, Sample { limit, name, .. }: Sample) {
    if !limit.kind().reserves() {
        return stand.refused(&limit, patient(1)).await;
    }
    let whole = limit.capacity();
    // What is left is less than both ask for; a queue lets in only what it has room for, reserved or not.
    let first_taken = match limit.kind() {
        AlgorithmKind::LeakyQueue => whole - 5,
        AlgorithmKind::SmoothBursty => whole,
        AlgorithmKind::SmoothWarmingUp => 1,
        _ => whole - 1,
    };
    assert!(stand.take(&limit, first_taken).await.is_allowed());
    if limit.kind() == AlgorithmKind::SmoothBursty {
        assert!(stand.take(&limit, 1).await.is_allowed(), "the one that the next caller pays for");
    }
    let first = stand.act(&limit, 2, patient(9)).await;
    let second = stand.act(&limit, 3, patient(9)).await;
    assert!(first.is_allowed() && second.is_allowed(), "{first:?} {second:?}");
    assert!(
        !first.start_after().is_zero() && second.start_after() >= first.start_after(),
        "{first:?} {second:?}"
    );
    let undo = async |cost: u32, start: Duration| {
        let refund = Action::Refund { at: Some(stand.now() + start) };
        stand.one(stand.charge(&limit, WHO).with_cost(cost).with_action(refund)).await.granted()
    };
    let given_first = undo(2, first.start_after()).await;
    let given_second = undo(3, second.start_after()).await;
    match limit.kind() {
        // Whole intervals: who queued behind keeps its interval, and what is given back is there for the next.
        AlgorithmKind::IntervalBucket => assert_eq!((given_first, given_second), (2, 3), "{name}"),
        // It gives back its debt, which is in permits at the stable rate.
        AlgorithmKind::SmoothWarmingUp => assert!(given_first + given_second >= 5, "{name}"),
        _ => assert_eq!(
            (given_first, given_second),
            (0, 3),
            "three queued behind the two, nobody behind the three"
        ),
    }
}
