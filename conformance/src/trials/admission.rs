//! Admission: a burst of the whole capacity and no more, exactly at the boundary, by cost.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Limit, Outcome};

use super::Plan;
use crate::fixture::{ENTITY, Fixture};
use crate::pure::Pure;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("admission", admission);
    plan.each("boundary", boundary);
    plan.each("boundary_of_several_instants", several_instants);
    plan.add("boundary_of_several_instants::of_a_long_log", long_log);
    plan.each("cost", cost);
}

/// A burst, then a steady stream: the store admits what the pure function admits, and nothing else.
async fn admission<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let mut pure = Pure::default();
    let mut admitted = 0;
    for step in 0..120 {
        let charge = [fixture.charge(&limit, ENTITY)];
        let verdict = fixture.agrees(&mut pure, &charge, &format!("step {step}")).await;
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

/// Units that were taken at different instants come back at different instants, each to the nanosecond.
async fn several_instants<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let takes = u64::from(limit.capacity()).min(10);
    come_back(fixture, &limit, takes, Duration::from_micros(40_013), 1).await;
}

/// Long enough that a store may keep it in several parts, with instants a few nanoseconds apart.
async fn long_log<S: Store>(fixture: Fixture<S>) {
    let limit = Limit::per_second(300).sliding_log().build("long log").expect("valid");
    come_back(fixture, &limit, 300, Duration::from_nanos(7), 29).await;
}

/// Takes units `apart`, and then peeks and takes around the end of the period of every one in `stride`.
async fn come_back<S: Store>(
    mut fixture: Fixture<S>,
    limit: &Limit,
    takes: u64,
    apart: Duration,
    stride: usize,
) {
    let mut pure = Pure::default();
    let mut instants = Vec::new();
    for take in 0..takes {
        instants.push(fixture.now());
        let charge = [fixture.charge(limit, ENTITY)];
        let _ = fixture.agrees(&mut pure, &charge, &format!("take {take}")).await;
        fixture.advance(apart);
    }
    for (take, instant) in instants.into_iter().enumerate().step_by(stride) {
        for nanos in [-1_i64, 0, 1] {
            let end = instant + limit.period();
            fixture.set(if nanos < 0 { end - Duration::from_nanos(1) } else { end });
            fixture.advance(Duration::from_nanos(nanos.max(0).unsigned_abs()));
            for cost in [0, 1] {
                let charge = [fixture.charge(limit, ENTITY).with_cost(cost)];
                let context = format!("cost {cost}, {nanos} ns after the period of take {take}");
                let _ = fixture.agrees(&mut pure, &charge, &context).await;
            }
        }
    }
}

/// Costs add up, and a cost that exceeds the capacity is denied as one that never fits.
async fn cost<S: Store>(fixture: Fixture<S>, Sample { limit, name, .. }: Sample) {
    let whole = limit.capacity();
    let mut pure = Pure::default();
    for cost in [2, whole - 3, whole + 1, 3, 1] {
        let charge = [fixture.charge(&limit, "another").with_cost(cost)];
        let _ = fixture.agrees(&mut pure, &charge, &format!("cost {cost}")).await;
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
