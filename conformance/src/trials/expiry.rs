//! Idle state goes by itself, as soon as it equals a fresh one and never earlier.

use std::time::Duration;

use tollgate_core::store::Store;

use super::Plan;
use crate::samples::Sample;
use crate::stand::Stand;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("expiry", expiry);
}

async fn expiry<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    assert_eq!(stand.export(&limit).await, None, "nothing is remembered of who never came");
    let fresh = stand.peek(&limit).await;
    assert_eq!(stand.export(&limit).await, None, "looking leaves nothing behind");
    for cost in [1, limit.capacity()] {
        let taken = stand.take(&limit, cost).await;
        assert!(taken.is_allowed());
        let idle = taken.reset_after();
        assert!(!idle.is_zero());
        stand.advance(idle.saturating_sub(Duration::from_nanos(1)));
        assert!(stand.export(&limit).await.is_some(), "a nanosecond early it is still remembered");
        stand.advance(Duration::from_nanos(1));
        assert_eq!(stand.export(&limit).await, None, "after {idle:?} it is as good as none");
        assert_eq!(stand.peek(&limit).await, fresh);
    }
}
