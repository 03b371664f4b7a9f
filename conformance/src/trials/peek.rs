//! Looking takes nothing, and answers as a cost of 1 would be answered.

use tollgate_core::Action;
use tollgate_core::store::Store;

use super::Plan;
use crate::samples::Sample;
use crate::stand::Stand;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("peek", peek);
}

async fn peek<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    let fresh = stand.peek(&limit).await;
    assert_eq!((fresh.is_allowed(), fresh.granted(), fresh.remaining()), (true, 0, limit.capacity()));
    assert!(fresh.reset_after().is_zero());
    for _ in 0..limit.capacity() {
        let _ = stand.take(&limit, 1).await;
        let once = stand.peek(&limit).await;
        assert_eq!(stand.peek(&limit).await, once, "looking twice sees the same");
        assert_eq!(stand.act(&limit, 0, Action::TakeUpTo).await, once, "up to nothing only looks");
    }
    stand.exhaust(&limit).await;
    let exhausted = stand.peek(&limit).await;
    assert!(exhausted.is_denied() && exhausted.retry_after().is_some(), "{exhausted:?}");
    assert_eq!(stand.peek(&limit).await, exhausted);
}
