//! What is given back can be taken again, and never more than was there.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind};

use super::Plan;
use crate::samples::Sample;
use crate::stand::Stand;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("refund", refund);
    plan.each("refund_belongs_to_its_instant", belongs);
}

const NOW: Action = Action::Refund { at: None };

async fn refund<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    if limit.kind() == AlgorithmKind::Concurrency {
        return stand.refused(&limit, NOW).await;
    }
    let whole = limit.capacity();
    assert!(stand.take(&limit, whole).await.is_allowed());
    let back = stand.act(&limit, 4, NOW).await;
    assert!(back.is_allowed() && back.granted() <= 4, "{back:?}");
    if limit.kind() != AlgorithmKind::SmoothWarmingUp {
        assert_eq!((back.granted(), back.remaining()), (4, 4));
    }
    // More than was ever taken does not make more than the whole.
    let all = stand.act(&limit, 10 * whole, NOW).await;
    assert!(all.remaining() <= whole, "{all:?}");
    let fresh = stand.act(&limit, 5, NOW).await;
    assert!(fresh.remaining() <= whole && fresh.debt() == 0, "{fresh:?}");
}

async fn belongs<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    if limit.kind() == AlgorithmKind::Concurrency {
        return stand.refused(&limit, Action::Refund { at: Some(stand.now()) }).await;
    }
    let whole = limit.capacity();
    let then = stand.now();
    assert!(stand.take(&limit, whole).await.is_allowed());
    // Long enough for all of it to have been refilled or gone out of sight.
    stand.advance(Duration::from_secs(120));
    assert!(stand.take(&limit, whole).await.is_allowed());
    let late = stand.act(&limit, whole, Action::Refund { at: Some(then) }).await;
    if limit.kind() != AlgorithmKind::SmoothWarmingUp {
        assert_eq!((late.granted(), late.remaining()), (0, 0), "{late:?}");
    }
}
