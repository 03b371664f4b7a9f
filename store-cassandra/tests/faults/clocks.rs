//! Clients that are minutes apart.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Clock, Limit, Limiter, ManualClock};
use tollgate_store_cassandra::CassandraStore;

use crate::expect::{config, connect, in_time, node, rows, until};

const APART: Duration = Duration::from_secs(300);
const BURST: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Ten a second, and ten at once.
fn limit() -> Limit {
    Limit::per_second(10).burst(BURST).build("apart").expect("valid")
}

/// Two clients, the second of them ahead.
async fn clients() -> [Limiter<CassandraStore, ManualClock>; 2] {
    let behind = ManualClock::default();
    let ahead = ManualClock::default();
    ahead.advance(APART);
    let short = || async {
        let node = node().await;
        connect(config(node).call_timeout(Duration::from_secs(2)).expiry_margin(Duration::ZERO)).await
    };
    [Limiter::with_clock(short().await, behind), Limiter::with_clock(short().await, ahead)]
}

/// Takes whatever there is.
async fn exhaust(limiter: &Limiter<CassandraStore, ManualClock>, key: &str) -> u32 {
    // Without a name: rows with named calls live for a minute.
    let (limit, now) = (limit(), limiter.clock().now());
    let all = limit.charge(key).with_cost(1_000).with_action(Action::TakeUpTo);
    in_time(limiter.store().decide_one(&all, &now)).await.expect("a decision").granted()
}

/// What a limit lets through in some seconds, and a fresh bucket.
fn most(seconds: u32) -> u32 {
    BURST + 10 * seconds + BURST
}

#[tokio::test]
async fn together_they_get_no_more_than_a_fresh_bucket_on_top() {
    let [behind, ahead] = clients().await;
    for (key, first, second) in [("ahead first", &ahead, &behind), ("behind first", &behind, &ahead)] {
        let mut granted = 0;
        for seconds in 0..20 {
            granted += exhaust(first, key).await + exhaust(second, key).await;
            assert!(granted <= most(seconds), "{key}: {granted} after {seconds} s");
            first.clock().advance(SECOND);
            second.clock().advance(SECOND);
        }
        assert!(granted >= BURST + 190, "{key}: one of them gets what there is: {granted}");
    }
}

#[tokio::test]
async fn a_row_that_has_ended_gives_them_no_more_than_that() {
    let [behind, ahead] = clients().await;
    let key = "ended in between";
    let mut granted = exhaust(&ahead, key).await;
    assert_eq!((granted, exhaust(&behind, key).await), (BURST, 0), "denied what the other has taken");
    until("the row has ended", async || rows(key, "state").await.is_empty()).await;
    // It has lived for a second until it was fresh, and for the margin of two calls.
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
