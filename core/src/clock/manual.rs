//! A clock for tests.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use super::{BlockingTimer, Clock, Timer};
use crate::time::Time;

/// A clock that a test moves. Clones share the time, and sleeping tasks wake up when their time has come.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use std::time::Duration;
/// use tollgate::{Clock, ManualClock};
///
/// let clock = ManualClock::default();
/// let (clone, before) = (clock.clone(), clock.now());
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clone.now().since(before), Duration::from_secs(1));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    shared: Arc<Mutex<SharedTime>>,
}

#[derive(Debug)]
struct SharedTime {
    now: Time,
    sleepers: Vec<Sleeper>,
    last_id: u64,
}

#[derive(Debug)]
struct Sleeper {
    id: u64,
    until: Time,
    waker: Waker,
}

impl ManualClock {
    /// Creates a clock that stands at `now`.
    pub fn at(now: Time) -> Self {
        Self { shared: Arc::new(Mutex::new(SharedTime { now, sleepers: Vec::new(), last_id: 0 })) }
    }

    /// Advances the time by `span`.
    pub fn advance(&self, span: Duration) {
        self.change(|now| now + span);
    }

    /// Sets the time. It may go backwards.
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
        // Woken without the lock, because a waker may read the clock.
        for sleeper in due {
            sleeper.waker.wake();
        }
    }

    /// Returns how many tasks sleep on this clock.
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    fn lock(&self) -> MutexGuard<'_, SharedTime> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    /// Creates a clock that stands at a round instant in the year 2026.
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
        let (id, until) = {
            let mut shared = self.lock();
            shared.last_id += 1;
            (shared.last_id, shared.now + span)
        };
        Sleep { clock: self, id, until }.await;
    }
}

impl BlockingTimer for ManualClock {
    /// Advances the time by `span` and returns: the blocked thread could not be woken by a test that runs on it.
    fn pause(&self, span: Duration) {
        self.advance(span);
    }
}

struct Sleep<'a> {
    clock: &'a ManualClock,
    id: u64,
    until: Time,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.clock.lock();
        shared.sleepers.retain(|sleeper| sleeper.id != self.id);
        if shared.now >= self.until {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        shared.sleepers.push(Sleeper { id: self.id, until: self.until, waker });
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.clock.lock().sleepers.retain(|sleeper| sleeper.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_wake_when_the_time_has_passed() {
        let clock = ManualClock::default();
        let mut sleep = core::pin::pin!(clock.sleep(Duration::from_secs(5)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        clock.advance(Duration::from_secs(4));
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        assert_eq!(clock.sleepers(), 1);
        clock.advance(Duration::from_secs(1));
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
}
