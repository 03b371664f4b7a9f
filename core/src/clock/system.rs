//! The clock of the machine.

use core::time::Duration;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::course::{Course, Machine};
use super::discipline::Sample;
use super::{BlockingTimer, Clock};
use crate::time::{Time, nanos};

/// How often the wall clock is sampled to get one sample in which nothing came between both readings.
const ATTEMPTS: usize = 4;

/// The clock of the machine: it follows the wall clock and never runs backwards.
///
/// A reading costs as little as reading the processor's counter. About once per second, one of the readings also looks
/// at the wall clock, from which the counter's rate is learnt and the clock's own course is corrected:
///
/// - On a wall clock that runs steadily, the clock is within a millisecond of it, whatever the counter's error.
/// - A wall clock that is changed by up to a second is approached by running at most 1 % faster or slower.
/// - A wall clock that is set forward by more than that is followed at once, and so is one that has moved on while the
///   machine was suspended.
/// - A wall clock that is set back by more than a second is approached by running 10 % slower until it is reached.
///
/// If it was not read for a while, the next reading looks at the wall clock first. All system clocks of a process show
/// the same time. A thread never sees it run backwards. From one thread to another it does not either, as long as the
/// processor reads its counter in the order of the program: it may be up to a microsecond early, and waiting for it
/// would double the cost of a reading.
#[derive(Clone, Debug)]
pub struct SystemClock {
    course: &'static Course<Processor>,
}

impl SystemClock {
    /// Creates a clock.
    pub fn new() -> Self {
        static COURSE: LazyLock<Course<Processor>> = LazyLock::new(|| {
            let processor = Processor(quanta::Clock::new());
            let (length, nanos) = processor.ticks_per_second();
            Course::new(processor, length, nanos)
        });
        Self { course: &COURSE }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Time {
        Time::from_nanos(self.course.now())
    }
}

/// The processor's own counter where there is one, and otherwise the machine's monotonic clock.
#[derive(Debug)]
struct Processor(quanta::Clock);

impl Processor {
    /// Returns about how many ticks a second has, and how many nanoseconds these take.
    fn ticks_per_second(&self) -> (u64, u64) {
        const MANY: u64 = 1 << 32;
        let nanos = self.0.delta_as_nanos(0, MANY).max(1);
        let ticks = u64::try_from(1_000_000_000 * u128::from(MANY) / u128::from(nanos)).unwrap_or(u64::MAX);
        (ticks, self.0.delta_as_nanos(0, ticks))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that everything else reads")]
impl Machine for Processor {
    #[inline]
    fn counter(&self) -> u64 {
        self.0.raw()
    }

    fn sample(&self) -> Sample {
        let attempt = || {
            let before = self.counter();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let took = self.counter().wrapping_sub(before);
            (took, Sample { counter: before.wrapping_add(took / 2), wall: nanos(wall) })
        };
        let mut best = attempt();
        for _ in 1..ATTEMPTS {
            let next = attempt();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
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
    fn no_thread_sees_it_run_backwards_whichever_clock_it_reads() {
        let readings = || {
            let clocks = [SystemClock::new(), SystemClock::default()];
            let mut last = Time::EPOCH;
            for clock in clocks.iter().cycle().take(100_000) {
                let now = clock.now();
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(readings))));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "compares the clock with the machine's")]
    fn is_set_to_the_wall_clock() {
        let wall = Time::EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let (now, minute) = (SystemClock::new().now(), Duration::from_secs(60));
        assert!(now.since(wall) < minute && wall.since(now) < minute, "{now} against {wall}");
    }
}
