//! What calls are made with: whose time counts, and how long things are remembered.

use std::time::Duration;

use tollgate_core::Time;

/// See [`Config`](crate::Config).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) callers_time: bool,
    pub(crate) margin: Duration,
    pub(crate) memory: Duration,
}

impl Settings {
    /// The caller's time, if it is the one that counts.
    pub(crate) fn counts(&self, now: Time) -> Option<Time> {
        self.callers_time.then_some(now)
    }

    pub(crate) fn margin_millis(&self) -> u32 {
        millis(self.margin)
    }

    pub(crate) fn memory_millis(&self) -> u32 {
        millis(self.memory).max(1)
    }

    /// How long an exchange is remembered: whoever was cut off comes back with what it could not tell, much later than a
    /// caller that waits for an answer.
    pub(crate) fn exchange_memory_millis(&self) -> u32 {
        self.memory_millis().saturating_mul(10)
    }
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}
