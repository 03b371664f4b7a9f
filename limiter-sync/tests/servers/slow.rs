//! Limits that give nothing back while a test runs, so that what a centre has less is what was granted.

use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Clock, Limit, Request, SystemClock};

const DAY: Duration = Duration::from_secs(86_400);

/// A token takes a quarter of an hour and more. All of it fits into the numbers of Redis' short scripts.
pub(crate) fn bucket(capacity: u32) -> Limit {
    assert!(capacity <= 2_160, "at most as many as fit into 25 days");
    Limit::per(2_160, 25 * DAY).burst(capacity).build("bucket").expect("valid")
}

/// A window as long as they come.
pub(crate) fn window(capacity: u32) -> Limit {
    Limit::per(capacity, 366 * DAY).fixed_window().build("window").expect("valid")
}

/// The same in parts.
pub(crate) fn counter(capacity: u32) -> Limit {
    Limit::per(capacity, 366 * DAY).sliding_counter(4).build("counter").expect("valid")
}

/// What a centre has less of a limit, for each of some keys.
pub(crate) async fn booked(centre: &impl Store, limit: &Limit, keys: &[String]) -> Vec<u32> {
    let looks: Vec<_> = keys.iter().map(|key| [limit.charge(key).with_cost(0)]).collect();
    let runs: Vec<_> = looks.iter().map(|look| Run::new(Request::new(look), 1)).collect();
    let mut booked = Vec::with_capacity(keys.len());
    for answer in centre.decide_batch(&runs, SystemClock::new().now()).await {
        let verdict = answer.expect("the centre answers").into_verdicts().pop().expect("a verdict");
        let seen = verdict.decisions()[0];
        assert_eq!(seen.debt(), 0, "more than the limit is no count");
        booked.push(limit.capacity() - seen.remaining());
    }
    booked
}
