//! The runtime's time, for deadlines and pauses. What is decided is decided by the caller's time.

use std::time::Duration;

use tokio::time::Instant;

#[expect(clippy::disallowed_methods, reason = "deadlines are the runtime's")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The instant after a span, however long somebody has made that.
pub(crate) fn in_future(span: Duration) -> Instant {
    const LONG: Duration = Duration::from_secs(30 * 365 * 86_400);
    now() + span.min(LONG)
}
