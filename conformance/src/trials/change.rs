//! A limit whose parameters change while it is in use never grants more than its new capacity.

use std::time::Duration;

use tollgate_core::Limit;
use tollgate_core::store::Store;

use super::Plan;
use crate::fixture::{ENTITY, Fixture};
use crate::pure::Pure;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("live_change", live_change);
    plan.each("live_change_in_one_request", in_one_request);
    plan.add("live_change::keeps_the_time_until_full", time_until_full);
    plan.add("live_change::a_shorter_limit_is_not_blocked_by_a_longer_one", clamped);
    plan.add("live_change::counters_keep_their_count", counters);
}

async fn live_change<S: Store>(mut fixture: Fixture<S>, Sample { limit, changed, .. }: Sample) {
    let [more, fewer] = changed;
    let mut pure = Pure::default();
    for (step, limit) in [&limit, &more, &fewer, &limit, &fewer, &more].into_iter().enumerate() {
        let mut granted = 0;
        for _ in 0..60 {
            let charge = [fixture.charge(limit, ENTITY)];
            let verdict = fixture.agrees(&mut pure, &charge, &format!("step {step}")).await;
            granted += verdict.decisions()[0].granted();
        }
        // A smooth limiter admits one more than it has stored: the next caller waits for it.
        assert!(granted <= limit.capacity() + 1, "{granted} of {}", limit.capacity());
        fixture.advance(Duration::from_millis(450));
    }
}

/// A request has the same limit twice, with other parameters, as while a change is rolled out. Its key is new, and used
/// later under either of them.
async fn in_one_request<S: Store>(mut fixture: Fixture<S>, Sample { limit, changed, .. }: Sample) {
    let [more, fewer] = changed;
    let orders = [[&limit, &more], [&more, &limit], [&limit, &fewer], [&fewer, &limit], [&fewer, &more]];
    let mut pure = Pure::default();
    for (order, limits) in orders.into_iter().enumerate() {
        let entity = format!("order {order}");
        // Nearly all of the second one: more than the first one could hold, if its capacity is shorter.
        let [first, second] = limits.map(|limit| fixture.charge(limit, &entity));
        let charges = [first, second.with_cost(second.limit().capacity() - 1)];
        let _ = fixture.agrees(&mut pure, &charges, &format!("order {order}, a new key")).await;
        for limit in [limits[0], limits[1], limits[0]] {
            for cost in [0, 1, limit.capacity()] {
                let charge = fixture.charge(limit, &entity).with_cost(cost);
                let _ = fixture.one_agrees(&mut pure, charge, &format!("order {order}, afterwards")).await;
            }
        }
        let _ = fixture.agrees(&mut pure, &[first, second], &format!("order {order}, a used key")).await;
        fixture.advance(Duration::from_millis(130));
    }
}

async fn time_until_full<S: Store>(fixture: Fixture<S>) {
    let slow = Limit::per_second(10).burst(10).build("plan").expect("valid");
    let fast = Limit::per_second(100).burst(100).build("plan").expect("valid");
    let drained = fixture.take(&slow, 5).await;
    assert_eq!(drained.reset_after(), Duration::from_millis(500));
    let upgraded = fixture.peek(&fast).await;
    assert_eq!((upgraded.reset_after(), upgraded.remaining()), (Duration::from_millis(500), 50));
}

async fn clamped<S: Store>(mut fixture: Fixture<S>) {
    let hourly = Limit::per_hour(5).build("plan").expect("valid");
    let quick = Limit::per_second(100).build("plan").expect("valid");
    assert!(fixture.take(&hourly, 5).await.is_allowed());
    let upgraded = fixture.take(&quick, 1).await;
    assert!(upgraded.is_denied(), "no tokens were left, and the change adds none");
    let wait = upgraded.retry_after().expect("a denial has a retry_after");
    assert_eq!(wait, Duration::from_millis(10), "the wait is that of the new parameters");
    fixture.advance(wait);
    assert!(fixture.take(&quick, 1).await.is_allowed(), "allowed at retry_after");
    fixture.advance(Duration::from_secs(1));
    assert_eq!(fixture.peek(&quick).await.remaining(), 100);
}

async fn counters<S: Store>(fixture: Fixture<S>) {
    let daily = Limit::per_day(100).fixed_window().build("daily").expect("valid");
    let less = Limit::per_day(70).fixed_window().build("daily").expect("valid");
    assert!(fixture.take(&daily, 80).await.is_allowed());
    let denied = fixture.take(&less, 1).await;
    assert_eq!((denied.is_denied(), denied.debt()), (true, 10));
    assert_eq!(fixture.peek(&daily).await.remaining(), 20);
}
