//! Deadlines, by a timer that tests can move.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use tollgate_core::Timer;

/// Waits for `work`, but for `span` at most. `None` if it has not completed by then; it is dropped.
pub(crate) async fn within<T>(
    timer: &impl Timer,
    span: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    match select(pin!(work), pin!(timer.sleep(span))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(((), _)) => None,
    }
}
