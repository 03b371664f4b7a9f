//! Where the time comes from, and how waiting is done. The only module that asks the machine for it.

use alloc::sync::Arc;
use core::future::Future;
use core::time::Duration;

use crate::time::Time;

/// Tells the time: nanoseconds since the Unix epoch.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;
}

/// A clock that can also wait, without blocking the thread.
pub trait Timer: Clock {
    /// Completes once `span` has passed.
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send;
}

/// A clock that can also block the thread.
pub trait BlockingTimer: Clock {
    /// Returns once `span` has passed.
    fn pause(&self, span: Duration);
}

/// An instant is a clock that stands still.
impl Clock for Time {
    #[inline]
    fn now(&self) -> Time {
        *self
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    #[inline]
    fn now(&self) -> Time {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Time {
        (**self).now()
    }
}

impl<C: Timer> Timer for Arc<C> {
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send {
        (**self).sleep(span)
    }
}

impl<C: BlockingTimer> BlockingTimer for Arc<C> {
    fn pause(&self, span: Duration) {
        (**self).pause(span);
    }
}

#[cfg(feature = "std")]
pub use manual::ManualClock;
#[cfg(feature = "std")]
pub use system::SystemClock;

#[cfg(feature = "std")]
mod system {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::{BlockingTimer, Clock, Duration, Time};

    /// The machine's time: anchored to the wall clock when it is made, and monotonic from there on, by the
    /// processor's own counter where there is one.
    ///
    /// A wall clock that is set later does not move it. Its rate is the counter's, calibrated once; make a
    /// new one to be anchored again.
    #[derive(Clone, Debug)]
    pub struct SystemClock {
        counter: quanta::Clock,
        start: u64,
        anchor: Time,
    }

    impl SystemClock {
        /// A clock anchored to the wall clock of now.
        #[expect(clippy::disallowed_methods, reason = "this is the clock that everyone else asks")]
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
        #[expect(clippy::disallowed_methods, reason = "this is the clock that everyone else asks")]
        fn now(&self) -> Time {
            self.anchor.after(self.counter.delta_as_nanos(self.start, self.counter.raw()))
        }
    }

    impl BlockingTimer for SystemClock {
        #[expect(clippy::disallowed_methods, reason = "this is the timer that everyone else waits through")]
        fn pause(&self, span: Duration) {
            std::thread::sleep(span);
        }
    }

    #[cfg(feature = "tokio")]
    impl super::Timer for SystemClock {
        #[expect(clippy::disallowed_methods, reason = "this is the timer that everyone else waits through")]
        async fn sleep(&self, span: Duration) {
            tokio::time::sleep(span).await;
        }
    }
}

#[cfg(feature = "std")]
mod manual {
    use core::pin::Pin;
    use core::task::{Context, Poll, Waker};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use std::vec::Vec;

    use super::{BlockingTimer, Clock, Duration, Future, Time, Timer};

    /// A clock that moves when it is told to. Clones share the time, and whoever sleeps on it wakes up when
    /// it passes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_core::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::default();
    /// let (twin, before) = (clock.clone(), clock.now());
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(twin.now().since(before), Duration::from_secs(1));
    /// ```
    #[derive(Clone, Debug)]
    pub struct ManualClock {
        shared: Arc<Mutex<Shared>>,
    }

    #[derive(Debug)]
    struct Shared {
        now: Time,
        sleepers: Vec<Sleeper>,
        /// The number of the next sleep.
        next: u64,
    }

    #[derive(Debug)]
    struct Sleeper {
        number: u64,
        until: Time,
        waker: Waker,
    }

    impl ManualClock {
        /// A clock that stands at `now`.
        pub fn at(now: Time) -> Self {
            Self { shared: Arc::new(Mutex::new(Shared { now, sleepers: Vec::new(), next: 0 })) }
        }

        /// Moves the time on.
        pub fn advance(&self, span: Duration) {
            self.change(|now| now + span);
        }

        /// Sets the time, backwards too.
        pub fn set(&self, now: Time) {
            self.change(|_| now);
        }

        fn change(&self, to: impl FnOnce(Time) -> Time) {
            let due: Vec<_> = {
                let mut shared = self.lock();
                let now = to(shared.now);
                shared.now = now;
                shared.sleepers.extract_if(.., |sleeper| sleeper.until <= now).collect()
            };
            // Woken outside of the lock: a waker may look at the clock.
            for sleeper in due {
                sleeper.waker.wake();
            }
        }

        /// How many are asleep on this clock.
        pub fn sleepers(&self) -> usize {
            self.lock().sleepers.len()
        }

        fn lock(&self) -> MutexGuard<'_, Shared> {
            self.shared.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Default for ManualClock {
        /// A clock that stands at a round instant in the year 2026.
        fn default() -> Self {
            Self::at(Time::from_secs(1_790_000_000))
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Time {
            self.lock().now
        }
    }

    impl Timer for ManualClock {
        async fn sleep(&self, span: Duration) {
            let (number, until) = {
                let mut shared = self.lock();
                shared.next += 1;
                (shared.next, shared.now + span)
            };
            Sleep { clock: self, number, until }.await;
        }
    }

    impl BlockingTimer for ManualClock {
        /// Nobody else would move it while this thread blocks, so it moves itself.
        fn pause(&self, span: Duration) {
            self.advance(span);
        }
    }

    struct Sleep<'a> {
        clock: &'a ManualClock,
        number: u64,
        until: Time,
    }

    impl Future for Sleep<'_> {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            let mut shared = self.clock.lock();
            shared.sleepers.retain(|sleeper| sleeper.number != self.number);
            if shared.now >= self.until {
                return Poll::Ready(());
            }
            let waker = context.waker().clone();
            shared.sleepers.push(Sleeper { number: self.number, until: self.until, waker });
            Poll::Pending
        }
    }

    impl Drop for Sleep<'_> {
        fn drop(&mut self) {
            self.clock.lock().sleepers.retain(|sleeper| sleeper.number != self.number);
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_does_not_run_backwards() {
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
    fn the_system_clock_is_anchored_to_the_wall_clock() {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let now = SystemClock::new().now();
        assert!(now.since(Time::EPOCH + wall) < Duration::from_secs(60), "{now} against {wall:?}");
        assert!((Time::EPOCH + wall).since(now).is_zero());
    }

    #[test]
    fn sleepers_wake_when_the_time_passes() {
        let clock = ManualClock::default();
        let mut sleep = core::pin::pin!(clock.sleep(Duration::from_secs(5)));
        let mut context = core::task::Context::from_waker(core::task::Waker::noop());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_secs(4));
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!(clock.sleepers(), 1);
        clock.advance(Duration::from_secs(1));
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
}
