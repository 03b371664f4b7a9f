//! Since when the store has failed without a success between.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::Time;

/// No failure since the last success.
const NEVER: u64 = u64::MAX;

/// The time of the first failure since the last success, in the callers' time.
#[derive(Debug)]
pub(super) struct FailingSince(AtomicU64);

impl FailingSince {
    pub(super) fn never() -> Self {
        Self(AtomicU64::new(NEVER))
    }

    /// Records a failure. The earliest counts, also if a clock has been set back.
    pub(super) fn failed(&self, now: Time) {
        self.0.fetch_min(now.nanos(), Ordering::AcqRel);
    }

    pub(super) fn succeeded(&self) {
        self.0.store(NEVER, Ordering::Release);
    }

    /// Returns how long the store has failed. `None` if it has not, since the last success.
    pub(super) fn elapsed(&self, now: Time) -> Option<Duration> {
        let since = self.0.load(Ordering::Acquire);
        (since != NEVER).then(|| now.since(Time::from_nanos(since)))
    }
}
