//! Clients whose clocks differ by minutes.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Clock, Limit, Limiter, ManualClock};
use tollgate_store_cassandra::CassandraStore;

use crate::fixture::{config, connect, in_time, node, rows, until};

const DIFFERENCE: Duration = Duration::from_secs(300);
const BURST: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Ten per second, with a burst of ten.
fn limit() -> Limit {
    Limit::per_second(10).burst(BURST).build("clocks").expect("valid")
}

/// Creates two clients, the second of which is ahead.
async fn clients() -> [Limiter<CassandraStore, ManualClock>; 2] {
    let behind = ManualClock::default();
    let ahead = ManualClock::default();
    ahead.advance(DIFFERENCE);
    let store = || async {
        let node = node().await;
        connect(config(node).call_timeout(Duration::from_secs(2)).expiry_margin(Duration::ZERO)).await
    };
    [Limiter::with_clock(store().await, behind), Limiter::with_clock(store().await, ahead)]
}

/// Takes all available units.
async fn exhaust(limiter: &Limiter<CassandraStore, ManualClock>, key: &str) -> u32 {
    // Without an idempotency key, which would keep the row for a minute.
    let (limit, now) = (limit(), limiter.clock().now());
    let all = limit.charge(key).with_cost(1_000).with_action(Action::TakeUpTo);
    in_time(limiter.store().decide_one(&all, &now)).await.expect("a decision").granted()
}

/// Returns what the limit admits in some seconds, plus one additional burst.
fn most(seconds: u32) -> u32 {
    BURST + 10 * seconds + BURST
}

#[tokio::test]
async fn together_they_get_at_most_one_additional_burst() {
    let [behind, ahead] = clients().await;
    for (key, first, second) in [("ahead first", &ahead, &behind), ("behind first", &behind, &ahead)] {
        let mut granted = 0;
        for seconds in 0..20 {
            granted += exhaust(first, key).await + exhaust(second, key).await;
            assert!(granted <= most(seconds), "{key}: {granted} after {seconds} s");
            first.clock().advance(SECOND);
            second.clock().advance(SECOND);
        }
        assert!(granted >= BURST + 190, "{key}: one of them gets all that is refilled: {granted}");
    }
}

#[tokio::test]
async fn an_expired_row_grants_no_more_than_that() {
    let [behind, ahead] = clients().await;
    let key = "expired in between";
    let mut granted = exhaust(&ahead, key).await;
    assert_eq!((granted, exhaust(&behind, key).await), (BURST, 0), "denied what the other client has taken");
    until("the row has expired", async || rows(key, "state").await.is_empty()).await;
    // One second until its state was fresh, and a margin of two call timeouts.
    let lived = 5;
    for limiter in [&behind, &ahead] {
        limiter.clock().advance(lived * SECOND);
    }
    granted += exhaust(&behind, key).await;
    granted += exhaust(&ahead, key).await;
    granted += exhaust(&behind, key).await;
    assert!(granted <= most(lived), "{granted}");
    assert!(granted >= 2 * BURST, "{granted}");
}
