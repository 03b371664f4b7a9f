//! The configuration of a coalesced store.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Clock, ConfigError, SystemClock};

use super::Coalesced;
use super::in_flight::Coalescer;
use super::routes::{InFlightLimits, MAX_CALLS, Routes};
use super::stats::BatchCounters;

/// Configures a [`Coalesced`] store. Created by [`Coalesced::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct CoalescedBuilder<S, C = SystemClock> {
    store: S,
    clock: C,
    limits: InFlightLimits,
}

impl<S: Store + 'static> CoalescedBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        Self { store, clock: SystemClock::new(), limits: InFlightLimits::default() }
    }
}

impl<S: Store + 'static, C: Clock + 'static> CoalescedBuilder<S, C> {
    /// Sets how many calls of one route may be in flight before requests wait. Default: 4. From 1 to 16.
    ///
    /// More of them keep a server busy while replies are delivered; fewer make batches larger. With 1, no two calls
    /// touch the same key at the same time, which avoids conflicts in stores that decide by compare-and-set.
    pub fn max_in_flight(mut self, calls: u32) -> Self {
        self.limits.max_in_flight = calls;
        self
    }

    /// Sets the age of the newest call of a route from which a new request overtakes it: the request is sent although
    /// the maximum of calls is in flight. At most 16 calls of one route are in flight then. Default: 10 ms.
    pub fn overtake_after(mut self, age: Duration) -> Self {
        self.limits.overtake_after = age;
        self
    }

    /// Sets the clock that measures the age of calls. It decides nothing else. Default: the system clock.
    pub fn clock<D: Clock + 'static>(self, clock: D) -> CoalescedBuilder<S, D> {
        CoalescedBuilder { store: self.store, clock, limits: self.limits }
    }

    /// Builds the coalesced store. An error says which setting is invalid, and what would be valid.
    pub fn build(self) -> Result<Coalesced<S, C>, ConfigError> {
        let calls = self.limits.max_in_flight;
        if !(1..=MAX_CALLS).contains(&calls) {
            let (problem, advice) = (format!("is {calls}"), format!("use from 1 to {MAX_CALLS}"));
            return Err(ConfigError::new("Coalesced", "max_in_flight", problem, advice));
        }
        Ok(self.build_valid())
    }

    pub(super) fn build_valid(self) -> Coalesced<S, C> {
        let coalescer = Coalescer {
            store: self.store,
            clock: self.clock,
            routes: Routes::new(self.limits),
            counters: BatchCounters::default(),
        };
        Coalesced { coalescer: Arc::new(coalescer) }
    }
}
