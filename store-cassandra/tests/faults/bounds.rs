//! Rows stay small.

use std::time::Duration;

use tollgate_core::{
    Action, AlgorithmKind, Clock, Effect, ErrorKind, Limit, Snapshot, State, Store, StoreError, Time,
};

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
        // What somebody else kept of it is not taken over either: as much as a row has no words for.
        let words = vec![1; 70_001];
        let theirs = Snapshot::from_parts(Snapshot::VERSION, limit.kind(), words);
        let merged = in_time(limiter.store().merge(&limit, key.into(), &theirs, Time::EPOCH)).await;
        assert_error(merged, UNSUPPORTED, &says);
        let exported = in_time(limiter.store().export(&limit, key.into(), Time::EPOCH)).await;
        assert_error(exported, UNSUPPORTED, &says);
        assert_eq!(limiter.store().counts(), before, "nothing was sent");
    }
    for limit in [log(1_000), places(1_000)] {
        let most = limit.charge("as much as goes").cost(1_000);
        assert!(in_time(limiter.charge(most)).await.expect("a decision").is_allowed(), "{}", limit.name());
    }
}

#[tokio::test]
async fn debits_beyond_a_full_row_are_refused_and_change_nothing() {
    let (limiter, key, limit) = (limiter().await, "debited", log(1_000));
    // Nearly full at once, since thousands of debits take a while.
    let (mut nearly, mut now) = (State::default(), limiter.clock().now());
    for _ in 0..2_000 {
        let debit = limit.charge(key).action(Action::Debit { at: None });
        assert!(nearly.apply(&debit, now).is_allowed());
        now = now + Duration::from_nanos(1);
    }
    let nearly = nearly.snapshot(&limit);
    in_time(limiter.store().merge(&limit, key.into(), &nearly, now)).await.expect("there is room for that");
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
    // Nor by a merge.
    let mut large = State::default();
    let now = Time::from_secs(1_790_000_000);
    for _ in 0..70 {
        let _ = large.apply(&limit.charge(key).cost(1_000).action(Action::Debit { at: None }), now);
    }
    assert_eq!(limit.kind(), AlgorithmKind::SlidingLog);
    let merged = in_time(limiter.store().merge(&limit, key.into(), &large.snapshot(&limit), now)).await;
    assert_error(merged, FULL, &says);
    assert_eq!(stored(key).await, before);
    // Everything else goes on.
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_denied());
    in_time(limiter.forget(&limit, key)).await.expect("there is room for that");
    assert!(in_time(limiter.check(&limit, key)).await.expect("a decision").is_allowed());
}
