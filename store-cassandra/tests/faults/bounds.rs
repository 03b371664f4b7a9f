//! Rows stay small.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Clock, Effect, ErrorKind, Limit, Request, StoreError, Time};

use crate::expect::{assert_error, in_time, limiter, stored};

const UNSUPPORTED: (ErrorKind, Effect) = (ErrorKind::Unsupported, Effect::None);
const FULL: (ErrorKind, Effect) = (ErrorKind::Full, Effect::None);

fn log(count: u32) -> Limit {
    Limit::per_day(count).sliding_log().build("log").expect("valid")
}

fn places(count: u32) -> Limit {
    Limit::concurrent(count).lease(Duration::from_secs(600)).build("places").expect("valid")
}

#[tokio::test]
async fn limits_that_would_keep_too_much_are_refused_with_advice() {
    let limiter = limiter().await;
    let key = "too much";
    for (limit, says) in [
        (log(1_001), ["1001 instants in one row", "use a sliding counter or a sliding window"]),
        (places(1_001), ["1001 leases in one row", "use several keys"]),
    ] {
        let before = limiter.store().counts();
        let says = [&[limit.name()][..], &says].concat();
        assert_error(in_time(limiter.check(&limit, key)).await, UNSUPPORTED, &says);
        assert_error(in_time(limiter.peek(&limit, key)).await, UNSUPPORTED, &says);
        let peek = [limit.charge(key).with_cost(0)];
        let applied = in_time(limiter.store().apply_deltas(Request::new(&peek), Time::EPOCH)).await;
        assert_error(applied, UNSUPPORTED, &says);
        let exported = in_time(limiter.store().export(&limit, key.into(), Time::EPOCH)).await;
        assert_error(exported, UNSUPPORTED, &says);
        assert_eq!(limiter.store().counts(), before, "nothing was sent");
    }
    for limit in [log(1_000), places(1_000)] {
        let most = limit.charge("as much as goes").with_cost(1_000);
        assert!(in_time(limiter.charge(most)).await.expect("a decision").is_allowed(), "{}", limit.name());
    }
}

#[tokio::test]
async fn debits_beyond_a_full_row_are_refused_and_change_nothing() {
    let (limiter, key, limit) = (limiter().await, "debited", log(1_000));
    // Nearly full by few calls, since thousands of single debits take a while.
    let now = limiter.clock().now();
    for part in 0..8 {
        let at = |entry: u64| now - Duration::from_nanos(2_000 - part * 250 - entry);
        let debits: Vec<_> = (0..250)
            .map(|entry| limit.charge(key).with_action(Action::Debit { at: Some(at(entry)) }))
            .collect();
        let applied = limiter.store().apply_deltas(Request::new(&debits), now);
        in_time(applied).await.expect("there is room for that");
    }
    let full: StoreError = loop {
        match in_time(limiter.debit(&limit, key, 1_000)).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let says = ["limit `log`", "row on cassandra is full", "debit less often, or use a sliding counter"];
    assert_error::<()>(Err(full), FULL, &says);
    let before = stored(key).await;
    assert_error(in_time(limiter.debit(&limit, key, 1_000)).await, FULL, &says);
    assert_eq!(stored(key).await, before);
    assert!(before.len() < 64 * 1_024, "{} bytes", before.len());
    // Nor by deltas.
    let debit = [limit.charge(key).with_action(Action::Debit { at: None })];
    let applied = in_time(limiter.store().apply_deltas(Request::new(&debit), limiter.clock().now())).await;
    assert_error(applied, FULL, &says);
    assert_eq!(stored(key).await, before);
    // Everything else goes on.
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_denied());
    in_time(limiter.reset(&limit, key)).await.expect("there is room for that");
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
}
