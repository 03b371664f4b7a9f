//! Refunded units can be taken again, and a refund never exceeds the capacity.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, AlgorithmKind};

use super::Plan;
use crate::fixture::Fixture;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("refund", refund);
    plan.each("refund_counts_at_its_instant", dated);
}

const NOW: Action = Action::Refund { at: None };

async fn refund<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    if limit.kind() == AlgorithmKind::Concurrency {
        return fixture.refused(&limit, NOW).await;
    }
    let whole = limit.capacity();
    assert!(fixture.take(&limit, whole).await.is_allowed());
    let refunded = fixture.act(&limit, 4, NOW).await;
    assert!(refunded.is_allowed() && refunded.granted() <= 4, "{refunded:?}");
    if limit.kind() != AlgorithmKind::SmoothWarmingUp {
        assert_eq!((refunded.granted(), refunded.remaining()), (4, 4));
    }
    // A refund of more than was taken does not exceed the capacity.
    let all = fixture.act(&limit, 10 * whole, NOW).await;
    assert!(all.remaining() <= whole, "{all:?}");
    let fresh = fixture.act(&limit, 5, NOW).await;
    assert!(fresh.remaining() <= whole && fresh.debt() == 0, "{fresh:?}");
}

async fn dated<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    if limit.kind() == AlgorithmKind::Concurrency {
        return fixture.refused(&limit, Action::Refund { at: Some(fixture.now()) }).await;
    }
    let whole = limit.capacity();
    let then = fixture.now();
    assert!(fixture.take(&limit, whole).await.is_allowed());
    // Long enough for all of it to be refilled, or to leave the window.
    fixture.advance(Duration::from_secs(120));
    assert!(fixture.take(&limit, whole).await.is_allowed());
    let late = fixture.act(&limit, whole, Action::Refund { at: Some(then) }).await;
    if limit.kind() != AlgorithmKind::SmoothWarmingUp {
        assert_eq!((late.granted(), late.remaining()), (0, 0), "{late:?}");
    }
}
