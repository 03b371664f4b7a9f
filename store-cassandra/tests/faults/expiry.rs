//! Rows end by themselves, and not too soon.

use std::time::Duration;

use tollgate_core::{Limit, Limiter, ManualClock};

use crate::expect::{config, connect, daily, every_algorithm, in_time, node, number, only_row, rows, until};

#[tokio::test]
async fn every_row_ends_when_it_is_fresh_and_a_margin_later() {
    let margin = Duration::from_secs(100_000);
    let store = connect(config(node().await).expiry_margin(margin)).await;
    let clock = ManualClock::default();
    let limiter = Limiter::with_clock(store, clock.clone());
    for limit in every_algorithm() {
        let key = &format!("ends {}", limit.name());
        assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
        let first = number(key, "TTL(state)").await;
        assert!((100_000..=100_000 + 2 * 3_700).contains(&first), "{}: {first}", limit.name());
    }
    // To the second: a bucket of ten an hour, half of it gone.
    let (limit, key) = (Limit::per_hour(10).build("bucket").expect("valid"), "ends on time");
    for cost in [5, 0, 2] {
        let _ = in_time(limiter.charge(limit.charge(key).with_cost(cost))).await.expect("a decision");
    }
    let left = number(key, "TTL(state)").await;
    let written = 7 * 360 + 100_000 + 1;
    // The server has counted since.
    assert!((written - 60..=written).contains(&left), "{left} of {written}");
    // An hour later nearly all has come back; what is written then ends sooner.
    clock.advance(Duration::from_secs(3_600));
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
    let left = number(key, "TTL(state)").await;
    let written = 360 + 100_000 + 1;
    assert!((written - 60..=written).contains(&left), "{left} of {written}");
}

#[tokio::test]
async fn spans_as_long_as_there_are_do_no_harm() {
    let config = config(node().await)
        .expiry_margin(Duration::MAX)
        .call_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX);
    let limiter = Limiter::new(connect(config).await);
    let (limit, key) = (daily(1), "ends late");
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_denied());
    // More than ten years is more than servers take.
    let (left, most) = (number(key, "TTL(state)").await, 10 * 365 * 86_400 + 1);
    assert!((most - 60..=most).contains(&left), "{left}");
}

#[tokio::test]
async fn a_row_that_has_ended_is_gone() {
    // As short as it gets: two calls, and a second of rounding.
    let brief = config(node().await).call_timeout(Duration::from_secs(2)).expiry_margin(Duration::ZERO);
    let limiter = Limiter::new(connect(brief).await);
    let (limit, key) = (Limit::per_second(10).build("brief").expect("valid"), "ends soon");
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
    only_row(key, "state").await;
    until("the row is gone", async || rows(key, "state").await.is_empty()).await;
    // The store has seen it last as it was, and finds out.
    let told = in_time(limiter.check(&limit, key)).await.expect("a decision");
    assert_eq!((told.granted(), told.remaining()), (1, 9));
}
