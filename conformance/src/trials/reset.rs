//! A key that is reset has a fresh state.

use tollgate_core::Action;
use tollgate_core::store::Store;

use super::Plan;
use crate::fixture::Fixture;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("reset", reset);
}

async fn reset<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let fresh = fixture.peek(&limit).await;
    fixture.exhaust(&limit).await;
    assert!(fixture.act(&limit, 1, Action::Reset).await.is_allowed());
    assert_eq!(fixture.peek(&limit).await, fresh);
    assert!(fixture.take(&limit, limit.capacity()).await.is_allowed());
}
