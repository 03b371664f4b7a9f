//! Debit now, start later: in order, within the caller's patience, and given back when cancelled.

use std::time::Duration;

use tollgate_core::{Action, AlgorithmKind, Store};

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
    if limit.as_flow().is_none() {
        // The plain refund trial covers states that keep no order of starts.
        return;
    }
    let whole = limit.capacity();
    let queue = limit.kind() == AlgorithmKind::LeakyQueue;
    // A queue lets in only what it has room for, reserved or not.
    assert!(stand.take(&limit, if queue { whole - 5 } else { whole - 2 }).await.is_allowed());
    if name.contains("smooth") {
        assert!(stand.take(&limit, 2).await.is_allowed());
    }
    let first = stand.act(&limit, 2, patient(9)).await;
    let second = stand.act(&limit, 3, patient(9)).await;
    assert!(first.is_allowed() && second.is_allowed(), "{first:?} {second:?}");
    let undo = |cost: u32, start: Duration| {
        stand.charge(&limit, WHO).cost(cost).action(Action::Refund { at: Some(stand.now() + start) })
    };
    if !second.start_after().is_zero() && second.granted() > 0 {
        let kept = stand.one(undo(2, first.start_after())).await;
        if !first.start_after().is_zero() {
            assert_eq!(kept.granted(), 0, "three queued behind the two");
        }
        let given = stand.one(undo(3, second.start_after())).await;
        assert_eq!(given.granted(), 3, "nobody queued behind the last");
    }
}
