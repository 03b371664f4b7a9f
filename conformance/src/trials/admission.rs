//! Admission: a burst of the whole capacity and no more, exactly at the boundary, by cost.

use std::time::Duration;

use tollgate_core::Outcome;
use tollgate_core::store::Store;

use super::Plan;
use crate::fixture::{ENTITY, Fixture};
use crate::pure::Pure;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("admission", admission);
    plan.each("boundary", boundary);
    plan.each("cost", cost);
}

/// A burst, then a steady stream: the store admits what the pure function admits, and nothing else.
async fn admission<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let mut pure = Pure::default();
    let mut admitted = 0;
    for step in 0..120 {
        let charge = [fixture.charge(&limit, ENTITY)];
        let verdict = fixture.decide(&charge).await;
        assert_eq!(verdict, pure.decide(&charge, fixture.now()), "step {step}");
        admitted += u32::from(verdict.is_allowed());
        if step >= 30 {
            fixture.advance(Duration::from_millis(35));
        }
    }
    assert!(admitted > 0 && admitted < 120, "some steps are allowed and some denied, not {admitted} of 120");
}

/// A denied charge passes at `retry_after` and not a nanosecond earlier.
async fn boundary<S: Store>(mut fixture: Fixture<S>, Sample { limit, name, .. }: Sample) {
    let whole = limit.capacity();
    assert!(fixture.take(&limit, whole).await.is_allowed(), "a whole burst fits a fresh state");
    let counted = name.contains("denied_counted");
    for cost in [1, 2, whole] {
        // A peek does not count as another denied action.
        let denied = if counted { fixture.peek(&limit).await } else { fixture.take(&limit, cost).await };
        let cost = if counted { 1 } else { cost };
        let Some(wait) = denied.retry_after() else {
            assert!(denied.is_allowed(), "a denial has a retry_after: {denied:?}");
            continue;
        };
        assert!(!wait.is_zero(), "retry_after is not zero: {denied:?}");
        fixture.advance(wait.saturating_sub(Duration::from_nanos(1)));
        assert!(fixture.peek(&limit).await.is_denied() || cost > 1, "a nanosecond early");
        if !counted && limit.block_time().is_none() {
            assert!(fixture.take(&limit, cost).await.is_denied(), "cost {cost} a nanosecond early");
        }
        fixture.advance(Duration::from_nanos(1));
        assert!(fixture.take(&limit, cost).await.is_allowed(), "cost {cost} after {wait:?}");
    }
}

/// Costs add up, and a cost that exceeds the capacity is denied as one that never fits.
async fn cost<S: Store>(fixture: Fixture<S>, Sample { limit, name, .. }: Sample) {
    let whole = limit.capacity();
    let mut pure = Pure::default();
    for cost in [2, whole - 3, whole + 1, 3, 1] {
        let charge = [fixture.charge(&limit, "another").with_cost(cost)];
        assert_eq!(fixture.decide(&charge).await, pure.decide(&charge, fixture.now()), "cost {cost}");
    }
    let first = fixture.take(&limit, whole - 3).await;
    assert_eq!((first.is_allowed(), first.granted()), (true, whole - 3));
    if name.contains("smooth") || name.contains("gap") {
        // The next caller waits for the cost of this one, or for the minimum gap: no other charge passes now.
        assert_eq!(
            fixture.take(&limit, 1).await.is_allowed(),
            name == "smooth_bursty",
            "it has stored permits"
        );
        return;
    }
    assert_eq!(first.remaining(), 3, "{first:?}");
    let never = fixture.take(&limit, whole + 1).await;
    assert_eq!((never.outcome(), never.retry_after(), never.remaining()), (Outcome::NeverFits, None, 3));
    assert_eq!(fixture.take(&limit, 3).await.remaining(), 0);
    assert_eq!(fixture.take(&limit, 1).await.outcome(), Outcome::Denied);
}
