//! Whose clock decides, and how long keys live.

use std::time::Duration;

use tollgate_core::Time;

/// The clock and the lifetimes that scripts use; see [`Config`](crate::Config).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The caller's clock decides instead of the server's.
    pub(crate) caller_clock: bool,
    pub(crate) expiry_margin: Duration,
    pub(crate) idempotency_retention: Duration,
}

impl Timing {
    /// Returns the caller's time if its clock decides.
    pub(crate) fn caller_time(&self, now: Time) -> Option<Time> {
        self.caller_clock.then_some(now)
    }

    pub(crate) fn margin_millis(&self) -> u32 {
        millis(self.expiry_margin)
    }

    pub(crate) fn retention_millis(&self) -> u32 {
        millis(self.idempotency_retention).max(1)
    }

    /// Returns how long the idempotency key of a batch of deltas is retained. A node that was disconnected resends its
    /// pending deltas much later than a caller that waits for a decision repeats a request.
    pub(crate) fn delta_retention_millis(&self) -> u32 {
        self.retention_millis().saturating_mul(10)
    }
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}
