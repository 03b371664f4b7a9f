//! A peek takes nothing, and is decided as a cost of 1 would be.

use tollgate_core::Action;
use tollgate_core::store::Store;

use super::Plan;
use crate::fixture::Fixture;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("peek", peek);
}

async fn peek<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let fresh = fixture.peek(&limit).await;
    assert_eq!((fresh.is_allowed(), fresh.granted(), fresh.remaining()), (true, 0, limit.capacity()));
    assert!(fresh.reset_after().is_zero());
    for _ in 0..limit.capacity() {
        let _ = fixture.take(&limit, 1).await;
        let once = fixture.peek(&limit).await;
        assert_eq!(fixture.peek(&limit).await, once, "a second peek has the same result");
        assert_eq!(fixture.act(&limit, 0, Action::TakeUpTo).await, once, "taking up to 0 is a peek");
    }
    fixture.exhaust(&limit).await;
    let exhausted = fixture.peek(&limit).await;
    assert!(exhausted.is_denied() && exhausted.retry_after().is_some(), "{exhausted:?}");
    assert_eq!(fixture.peek(&limit).await, exhausted);
}
