//! Rows expire, and not too soon.

use std::time::Duration;

use tollgate_core::{Limit, Limiter, ManualClock};

use crate::fixture::{
    config, connect, daily, every_algorithm, in_time, node, number, only_row, rows, take, until,
};

#[tokio::test]
async fn every_row_expires_a_margin_after_its_state_is_fresh() {
    let margin = Duration::from_secs(100_000);
    let store = connect(config(node().await).expiry_margin(margin)).await;
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(store, clock.clone());
    for limit in every_algorithm() {
        let key = &format!("expires {}", limit.name());
        assert!(in_time(limiter.charge(take(&limit, key))).await.expect("a decision").is_allowed());
        let first = number(key, "TTL(state)").await;
        assert!((100_000..=100_000 + 2 * 3_700).contains(&first), "{}: {first}", limit.name());
    }
    // Exact to the second: a bucket of ten per hour, half of it used.
    let (limit, key) = (Limit::per_hour(10).build("bucket").expect("valid"), "expires on time");
    for cost in [5, 0, 2] {
        let _ = in_time(limiter.charge(limit.charge(key).with_cost(cost))).await.expect("a decision");
    }
    let left = number(key, "TTL(state)").await;
    let written = 7 * 360 + 100_000 + 1;
    // The server's time-to-live has been counting down.
    assert!((written - 60..=written).contains(&left), "{left} of {written}");
    // An hour later nearly all is refilled, and a row written then expires sooner.
    clock.advance(Duration::from_secs(3_600));
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
    let left = number(key, "TTL(state)").await;
    let written = 360 + 100_000 + 1;
    assert!((written - 60..=written).contains(&left), "{left} of {written}");
}

#[tokio::test]
async fn the_longest_durations_are_accepted() {
    let config = config(node().await)
        .expiry_margin(Duration::MAX)
        .call_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX);
    let limiter = Limiter::new(connect(config).await);
    let (limit, key) = (daily(1), "expires late");
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_denied());
    // Servers accept at most about 20 years; the store caps it at ten.
    let (left, most) = (number(key, "TTL(state)").await, 10 * 365 * 86_400 + 1);
    assert!((most - 60..=most).contains(&left), "{left}");
}

#[tokio::test]
async fn an_expired_row_is_gone() {
    // The shortest time-to-live: two call timeouts, and a second of rounding.
    let brief = config(node().await).call_timeout(Duration::from_secs(2)).expiry_margin(Duration::ZERO);
    let limiter = Limiter::new(connect(brief).await);
    let (limit, key) = (Limit::per_second(10).build("brief").expect("valid"), "expires soon");
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
    only_row(key, "state").await;
    until("the row is gone", async || rows(key, "state").await.is_empty()).await;
    // The cached row is outdated, and the store finds out.
    let decision = in_time(limiter.check(&limit, key)).await.expect("a decision");
    assert_eq!((decision.granted(), decision.remaining()), (1, 9));
}
