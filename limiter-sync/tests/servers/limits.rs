//! Limits that refill nothing while a test runs, so that the central debit is what was granted.

use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Clock, Limit, Request, SystemClock};

const DAY: Duration = Duration::from_secs(86_400);

/// A bucket whose token takes more than a quarter of an hour. Fits into the integers of Redis' short scripts.
pub(crate) fn bucket(capacity: u32) -> Limit {
    assert!(capacity <= 2_160, "at most as many as fit into 25 days");
    Limit::per(2_160, 25 * DAY).burst(capacity).build("bucket").expect("valid")
}

/// The longest window.
pub(crate) fn window(capacity: u32) -> Limit {
    Limit::per(capacity, 366 * DAY).fixed_window().build("window").expect("valid")
}

/// The longest sliding counter.
pub(crate) fn counter(capacity: u32) -> Limit {
    Limit::per(capacity, 366 * DAY).sliding_counter(4).build("counter").expect("valid")
}

/// Returns how much is debited from a limit, for each of the keys.
pub(crate) async fn debited(store: &impl Store, limit: &Limit, keys: &[String]) -> Vec<u32> {
    let peeks: Vec<_> = keys.iter().map(|key| [limit.charge(key).with_cost(0)]).collect();
    let runs: Vec<_> = peeks.iter().map(|peek| Run::new(Request::new(peek), 1)).collect();
    let mut debited = Vec::with_capacity(keys.len());
    for answer in store.decide_batch(&runs, SystemClock::new().now()).await {
        let verdict = answer.expect("the store answers").into_verdicts().pop().expect("a verdict");
        let seen = verdict.decisions()[0];
        assert_eq!(seen.debt(), 0, "more than the limit was granted");
        debited.push(limit.capacity() - seen.remaining());
    }
    debited
}
