//! A limit that changes while it is in use never grants more than its new capacity.

use std::time::Duration;

use tollgate_core::Limit;
use tollgate_core::store::Store;

use super::Plan;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::stand::{Stand, WHO};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("live_change", live_change);
    plan.add("live_change::keeps_the_time_until_full", time_until_full);
    plan.add("live_change::a_shorter_limit_is_not_blocked_by_a_longer_one", clamped);
    plan.add("live_change::counters_keep_their_count", counters);
}

async fn live_change<S: Store>(mut stand: Stand<S>, Sample { limit, changed, .. }: Sample) {
    let [more, fewer] = changed;
    let mut pure = Pure::default();
    for (step, limit) in [&limit, &more, &fewer, &limit, &fewer, &more].into_iter().enumerate() {
        let mut granted = 0;
        for _ in 0..60 {
            let charge = [stand.charge(limit, WHO)];
            let told = stand.decide(&charge).await;
            assert_eq!(told, pure.decide(&charge, stand.now()), "step {step}");
            granted += told.decisions()[0].granted();
        }
        // One more than is stored passes a smooth limiter: the next caller pays.
        assert!(granted <= limit.capacity() + 1, "{granted} of {}", limit.capacity());
        stand.advance(Duration::from_millis(450));
    }
}

async fn time_until_full<S: Store>(stand: Stand<S>) {
    let slow = Limit::per_second(10).burst(10).build("plan").expect("valid");
    let fast = Limit::per_second(100).burst(100).build("plan").expect("valid");
    let drained = stand.take(&slow, 5).await;
    assert_eq!(drained.reset_after(), Duration::from_millis(500));
    let upgraded = stand.peek(&fast).await;
    assert_eq!((upgraded.reset_after(), upgraded.remaining()), (Duration::from_millis(500), 50));
}

async fn clamped<S: Store>(mut stand: Stand<S>) {
    let hourly = Limit::per_hour(5).build("plan").expect("valid");
    let quick = Limit::per_second(100).build("plan").expect("valid");
    assert!(stand.take(&hourly, 5).await.is_allowed());
    let upgraded = stand.take(&quick, 1).await;
    assert!(upgraded.is_denied(), "nothing was left, and nothing is given");
    let wait = upgraded.retry_after().expect("a wait cures it");
    assert_eq!(wait, Duration::from_millis(10), "but the new limit's time counts from now on");
    stand.advance(wait);
    assert!(stand.take(&quick, 1).await.is_allowed(), "and its word is kept");
    stand.advance(Duration::from_secs(1));
    assert_eq!(stand.peek(&quick).await.remaining(), 100);
}

async fn counters<S: Store>(stand: Stand<S>) {
    let daily = Limit::per_day(100).fixed_window().build("daily").expect("valid");
    let less = Limit::per_day(70).fixed_window().build("daily").expect("valid");
    assert!(stand.take(&daily, 80).await.is_allowed());
    let denied = stand.take(&less, 1).await;
    assert_eq!((denied.is_denied(), denied.debt()), (true, 10));
    assert_eq!(stand.peek(&daily).await.remaining(), 20);
}
