//! A key that is forgotten is as good as new.

use tollgate_core::Action;
use tollgate_core::store::Store;

use super::Plan;
use crate::samples::Sample;
use crate::stand::Stand;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("forget", forget);
}

async fn forget<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    let fresh = stand.peek(&limit).await;
    stand.exhaust(&limit).await;
    assert!(stand.act(&limit, 1, Action::Reset).await.is_allowed());
    assert_eq!(stand.peek(&limit).await, fresh);
    assert!(stand.take(&limit, limit.capacity()).await.is_allowed());
}
