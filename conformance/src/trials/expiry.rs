//! Idle state expires by itself, as soon as it equals a fresh one and never earlier.

use std::time::Duration;

use tollgate_core::store::Store;

use super::Plan;
use crate::fixture::Fixture;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("expiry", expiry);
}

async fn expiry<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    assert_eq!(fixture.export(&limit).await, None, "an unused key has no state");
    let fresh = fixture.peek(&limit).await;
    assert_eq!(fixture.export(&limit).await, None, "a peek creates no state");
    for cost in [1, limit.capacity()] {
        let taken = fixture.take(&limit, cost).await;
        assert!(taken.is_allowed());
        let idle = taken.reset_after();
        assert!(!idle.is_zero());
        fixture.advance(idle.saturating_sub(Duration::from_nanos(1)));
        assert!(fixture.export(&limit).await.is_some(), "a nanosecond early the state is still there");
        fixture.advance(Duration::from_nanos(1));
        assert_eq!(fixture.export(&limit).await, None, "after {idle:?} the state has expired");
        assert_eq!(fixture.peek(&limit).await, fresh);
    }
}
