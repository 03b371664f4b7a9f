//! Probes: the calls of a half-open breaker.

use std::sync::Arc;

use tollgate_core::{BreakerState, Time};

use super::CircuitBreaker;

/// The one call at a time that a half-open breaker permits. If it is dropped without an outcome, the next call is the
/// probe.
#[derive(Debug)]
pub(in crate::guarded) struct Probe {
    /// `None` once the outcome is known.
    breaker: Option<Arc<CircuitBreaker>>,
    number: u64,
}

impl Probe {
    pub(super) fn new(breaker: Arc<CircuitBreaker>, number: u64) -> Self {
        Self { breaker: Some(breaker), number }
    }

    /// Records that the probe succeeded. Returns `Some` if enough probes have: the breaker can close.
    pub(in crate::guarded) fn record_success(mut self) -> Option<Recovered> {
        let breaker = self.breaker.as_ref()?;
        let succeeded = {
            let mut recovery = breaker.lock();
            recovery.succeeded += 1;
            breaker.failing_since.succeeded();
            recovery.succeeded
        };
        let recovered = succeeded >= breaker.config.probes;
        recovered.then(|| Recovered(Self { breaker: self.breaker.take(), number: self.number }))
    }

    /// Records that the probe failed. Returns the new state if that opened the breaker.
    pub(in crate::guarded) fn record_failure(mut self, now: Time) -> Option<BreakerState> {
        let breaker = self.breaker.take()?;
        let mut recovery = breaker.lock();
        // Another probe may have started because this one took too long.
        let is_current = recovery.in_flight.is_some_and(|(number, _)| number == self.number);
        is_current.then(|| breaker.open(&mut recovery, now))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(breaker) = &self.breaker {
            let mut recovery = breaker.lock();
            recovery.in_flight.take_if(|(number, _)| *number == self.number);
        }
    }
}

/// Enough probes succeeded. The breaker stays half-open until it is closed, which leaves time for reconciliation.
#[derive(Debug)]
pub(in crate::guarded) struct Recovered(Probe);

impl Recovered {
    /// Closes the breaker. Returns the new state if that changed it.
    pub(in crate::guarded) fn close(mut self) -> Option<BreakerState> {
        let breaker = self.0.breaker.take()?;
        if breaker.is_closed() {
            return None;
        }
        breaker.close();
        Some(BreakerState::Closed)
    }

    /// Records that reconciliation failed. Returns the new state if that opened the breaker.
    pub(in crate::guarded) fn record_failure(self, now: Time) -> Option<BreakerState> {
        self.0.record_failure(now)
    }
}
