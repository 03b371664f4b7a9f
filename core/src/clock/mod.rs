//! Clocks and timers: where the time comes from, and how a caller waits.
//!
//! - `system`: the clock of the machine. Nothing else in this crate reads it. `discipline` computes how it follows the
//!   wall clock, and `course` is what its readers share.
//! - `manual`: a clock for tests.

#[cfg(feature = "std")]
mod course;
#[cfg(feature = "std")]
mod discipline;
#[cfg(feature = "std")]
mod manual;
#[cfg(feature = "std")]
mod system;

use alloc::sync::Arc;
use core::future::Future;
use core::time::Duration;

#[cfg(feature = "std")]
pub use manual::ManualClock;
#[cfg(feature = "std")]
pub use system::SystemClock;

use crate::time::Time;

/// A source of the current time.
///
/// Everything in Tollgate that needs the time gets it from a clock, so that tests control it. A [`Time`] is a clock,
/// too: one that stands still.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Time;
}

/// A clock that can also wait, without blocking the thread.
pub trait Timer: Clock {
    /// Completes once `span` has passed.
    fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send;
}

/// A clock that can also wait by blocking the thread.
pub trait BlockingTimer: Clock {
    /// Blocks the thread until `span` has passed.
    fn pause(&self, span: Duration);
}

/// A clock that stands still.
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
