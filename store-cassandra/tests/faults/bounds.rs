//! The size of rows is bounded.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Clock, Effect, ErrorKind, Limit, Request, Time};

use crate::fixture::{assert_error, in_time, limiter, stored, take};

const UNSUPPORTED: (ErrorKind, Effect) = (ErrorKind::Unsupported, Effect::None);

fn log(count: u32) -> Limit {
    Limit::per_day(count).sliding_log().build("log").expect("valid")
}

fn concurrent(count: u32) -> Limit {
    Limit::concurrent(count).lease(Duration::from_secs(600)).build("concurrent").expect("valid")
}

#[tokio::test]
async fn limits_that_are_too_large_for_a_row_are_unsupported() {
    let limiter = limiter().await;
    let key = "too large";
    for (limit, messages) in [
        (log(1_001), ["1001 timestamps in one row", "use a sliding counter or a sliding window"]),
        (concurrent(1_001), ["1001 leases in one row", "use several keys"]),
    ] {
        let before = limiter.store().stats();
        let messages = [&[limit.name()][..], &messages].concat();
        assert_error(in_time(limiter.charge(take(&limit, key))).await, UNSUPPORTED, &messages);
        assert_error(in_time(limiter.peek(&limit, key)).await, UNSUPPORTED, &messages);
        let peek = [limit.charge(key).with_cost(0)];
        let applied = in_time(limiter.store().apply_deltas(Request::new(&peek), Time::EPOCH)).await;
        assert_error(applied, UNSUPPORTED, &messages);
        let exported = in_time(limiter.store().export(&limit, key.into(), Time::EPOCH)).await;
        assert_error(exported, UNSUPPORTED, &messages);
        assert_eq!(limiter.store().stats(), before, "nothing was sent");
    }
    for limit in [log(1_000), concurrent(1_000)] {
        let most = take(&limit, "as large as possible").with_cost(1_000);
        assert!(in_time(limiter.charge(most)).await.expect("a decision").is_allowed(), "{}", limit.name());
    }
}

/// A log keeps little more than its count, so that debits do not fill its row.
#[tokio::test]
async fn debits_do_not_fill_a_row() {
    let (limiter, key, limit) = (limiter().await, "debited", log(1_000));
    let now = limiter.clock().now();
    for part in 0..8 {
        let at = |entry: u64| now - Duration::from_nanos(2_000 - part * 250 - entry);
        let debits: Vec<_> = (0..250)
            .map(|entry| limit.charge(key).with_action(Action::Debit { at: Some(at(entry)) }))
            .collect();
        let applied = limiter.store().apply_deltas(Request::new(&debits), now);
        in_time(applied).await.expect("there is room");
    }
    let size = stored(key).await.len();
    assert!(size < 1_100 * 16, "{size} bytes for 2,000 debits");
    assert_eq!(in_time(limiter.debit(&limit, key, 1_000)).await.expect("there is room").debt(), 2_000);
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_denied());
    in_time(limiter.reset(&limit, key)).await.expect("there is room");
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
}
