//! Who passes: the whole burst and nobody more, exactly at the boundary, by cost.

use std::time::Duration;

use tollgate_core::Outcome;
use tollgate_core::store::Store;

use super::Plan;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::stand::{Stand, WHO};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("admission", admission);
    plan.each("boundary", boundary);
    plan.each("cost", cost);
}

/// A burst, then a steady stream: what the pure function admits, and nothing else.
async fn admission<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    let mut pure = Pure::default();
    let mut admitted = 0;
    for step in 0..120 {
        let charge = [stand.charge(&limit, WHO)];
        let (told, right) = (stand.decide(&charge).await, pure.decide(&charge, stand.now()));
        assert_eq!(told, right, "step {step}");
        admitted += u32::from(told.is_allowed());
        if step >= 30 {
            stand.advance(Duration::from_millis(35));
        }
    }
    assert!(admitted > 0 && admitted < 120, "the trial must see both answers, not {admitted} of 120");
}

/// A denied charge passes at `retry_after` and not a nanosecond earlier.
async fn boundary<S: Store>(mut stand: Stand<S>, Sample { limit, name, .. }: Sample) {
    let whole = limit.capacity();
    assert!(stand.take(&limit, whole).await.is_allowed(), "a whole burst fits a fresh state");
    let counted = name.contains("denied_counted");
    for cost in [1, 2, whole] {
        // Looking does not count as another denied action.
        let denied = if counted { stand.peek(&limit).await } else { stand.take(&limit, cost).await };
        let cost = if counted { 1 } else { cost };
        let Some(wait) = denied.retry_after() else {
            assert!(denied.is_allowed(), "a wait cures it: {denied:?}");
            continue;
        };
        assert!(!wait.is_zero(), "there is something to wait for: {denied:?}");
        stand.advance(wait.saturating_sub(Duration::from_nanos(1)));
        assert!(stand.peek(&limit).await.is_denied() || cost > 1, "a nanosecond early");
        if !counted && limit.block_time().is_none() {
            assert!(stand.take(&limit, cost).await.is_denied(), "cost {cost} a nanosecond early");
        }
        stand.advance(Duration::from_nanos(1));
        assert!(stand.take(&limit, cost).await.is_allowed(), "cost {cost} after {wait:?}");
    }
}

/// Costs add up, and a cost that can never fit is told apart.
async fn cost<S: Store>(stand: Stand<S>, Sample { limit, name, .. }: Sample) {
    let whole = limit.capacity();
    let mut pure = Pure::default();
    for cost in [2, whole - 3, whole + 1, 3, 1] {
        let charge = [stand.charge(&limit, "another").with_cost(cost)];
        assert_eq!(stand.decide(&charge).await, pure.decide(&charge, stand.now()), "cost {cost}");
    }
    let first = stand.take(&limit, whole - 3).await;
    assert_eq!((first.is_allowed(), first.granted()), (true, whole - 3));
    if name.contains("smooth") || name.contains("gap") {
        // The next caller pays for any cost, or must keep a distance: nobody else passes now.
        assert_eq!(stand.take(&limit, 1).await.is_allowed(), name == "smooth_bursty", "it has stored more");
        return;
    }
    assert_eq!(first.remaining(), 3, "{first:?}");
    let never = stand.take(&limit, whole + 1).await;
    assert_eq!((never.outcome(), never.retry_after(), never.remaining()), (Outcome::NeverFits, None, 3));
    assert_eq!(stand.take(&limit, 3).await.remaining(), 0);
    assert_eq!(stand.take(&limit, 1).await.outcome(), Outcome::Denied);
}
