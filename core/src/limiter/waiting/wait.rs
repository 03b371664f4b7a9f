//! How long a caller would wait, and with how much jitter.

use core::hash::BuildHasher;
use core::time::Duration;
use std::hash::RandomState;

/// How long a caller would wait, and with how much jitter. A plain [`Duration`] is a wait without jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    max_wait: Duration,
    jitter: Duration,
}

impl Wait {
    /// Creates a wait of at most `max_wait`, without jitter.
    pub const fn up_to(max_wait: Duration) -> Self {
        Self { max_wait, jitter: Duration::ZERO }
    }

    /// Adds a random delay of up to `jitter`, so that callers that wait for the same instant do not start together. The
    /// delay stays within the maximum wait.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    pub(super) fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// How long to wait for what is due in `wait`: a random part of the jitter longer, within what is left of the
    /// maximum wait.
    pub(super) fn with_delay(&self, wait: Duration, left: Duration) -> Duration {
        wait.saturating_add(self.delay().min(left.saturating_sub(wait)))
    }

    fn delay(&self) -> Duration {
        match u64::try_from(self.jitter.as_nanos()) {
            Ok(0) => Duration::ZERO,
            Ok(most) => Duration::from_nanos(RandomState::new().hash_one(most) % most),
            Err(_) => self.jitter,
        }
    }
}

impl From<Duration> for Wait {
    fn from(max_wait: Duration) -> Self {
        Self::up_to(max_wait)
    }
}
