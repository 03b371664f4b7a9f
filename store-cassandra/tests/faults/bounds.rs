//! The size of rows is bounded.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Clock, Effect, ErrorKind, Limit, Request, StoreError, Time};

use crate::fixture::{assert_error, in_time, limiter, stored};

const UNSUPPORTED: (ErrorKind, Effect) = (ErrorKind::Unsupported, Effect::None);
const FULL: (ErrorKind, Effect) = (ErrorKind::Full, Effect::None);

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
        assert_error(in_time(limiter.check(&limit, key)).await, UNSUPPORTED, &messages);
        assert_error(in_time(limiter.peek(&limit, key)).await, UNSUPPORTED, &messages);
        let peek = [limit.charge(key).with_cost(0)];
        let applied = in_time(limiter.store().apply_deltas(Request::new(&peek), Time::EPOCH)).await;
        assert_error(applied, UNSUPPORTED, &messages);
        let exported = in_time(limiter.store().export(&limit, key.into(), Time::EPOCH)).await;
        assert_error(exported, UNSUPPORTED, &messages);
        assert_eq!(limiter.store().stats(), before, "nothing was sent");
    }
    for limit in [log(1_000), concurrent(1_000)] {
        let most = limit.charge("as large as possible").with_cost(1_000);
        assert!(in_time(limiter.charge(most)).await.expect("a decision").is_allowed(), "{}", limit.name());
    }
}

#[tokio::test]
async fn debits_on_a_full_row_fail_and_change_nothing() {
    let (limiter, key, limit) = (limiter().await, "debited", log(1_000));
    // Nearly filled by a few calls, because thousands of single debits take long.
    let now = limiter.clock().now();
    for part in 0..8 {
        let at = |entry: u64| now - Duration::from_nanos(2_000 - part * 250 - entry);
        let debits: Vec<_> = (0..250)
            .map(|entry| limit.charge(key).with_action(Action::Debit { at: Some(at(entry)) }))
            .collect();
        let applied = limiter.store().apply_deltas(Request::new(&debits), now);
        in_time(applied).await.expect("there is room");
    }
    let full: StoreError = loop {
        match in_time(limiter.debit(&limit, key, 1_000)).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let messages = ["limit `log`", "row in cassandra is full", "debit less often, or use a sliding counter"];
    assert_error::<()>(Err(full), FULL, &messages);
    let before = stored(key).await;
    assert_error(in_time(limiter.debit(&limit, key, 1_000)).await, FULL, &messages);
    assert_eq!(stored(key).await, before);
    assert!(before.len() < 64 * 1_024, "{} bytes", before.len());
    // Deltas fail, too.
    let debit = [limit.charge(key).with_action(Action::Debit { at: None })];
    let applied = in_time(limiter.store().apply_deltas(Request::new(&debit), limiter.clock().now())).await;
    assert_error(applied, FULL, &messages);
    assert_eq!(stored(key).await, before);
    // Everything else still works.
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_denied());
    in_time(limiter.reset(&limit, key)).await.expect("there is room");
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
}
