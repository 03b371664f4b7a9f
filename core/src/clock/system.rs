//! The clock of the machine.

use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{BlockingTimer, Clock};
use crate::time::Time;

/// The clock of the machine: set to the wall clock when it is created, and monotonic from then on.
///
/// It reads the processor's own counter where there is one. A later adjustment of the wall clock does not change it.
/// Its rate is that of the counter, calibrated once. Create a new clock to follow the wall clock again.
#[derive(Clone, Debug)]
pub struct SystemClock {
    counter: quanta::Clock,
    start: u64,
    anchor: Time,
}

impl SystemClock {
    /// Creates a clock that is set to the wall clock.
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else reads")]
    pub fn new() -> Self {
        let counter = quanta::Clock::new();
        let start = counter.raw();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { counter, start, anchor: Time::EPOCH + wall }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else reads")]
    fn now(&self) -> Time {
        self.anchor.after(self.counter.delta_as_nanos(self.start, self.counter.raw()))
    }
}

impl BlockingTimer for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the timer that everything else waits with")]
    fn pause(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

#[cfg(feature = "tokio")]
impl super::Timer for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the timer that everything else waits with")]
    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        let clock = SystemClock::new();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "compares the clock with the machine's")]
    fn is_set_to_the_wall_clock() {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let now = SystemClock::new().now();
        assert!(now.since(Time::EPOCH + wall) < Duration::from_secs(60), "{now} against {wall:?}");
        assert!((Time::EPOCH + wall).since(now).is_zero());
    }
}
