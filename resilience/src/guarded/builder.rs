//! The configuration of a guarded store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Observer;
use tollgate_core::store::Store;

use super::Guarded;
use super::breaker::{BreakerConfig, CircuitBreaker};
use super::pending::PendingDeltas;
use super::policy::OnFailure;
use super::reconciliation::ReconciledStore;
use super::shares::Policies;
use super::telemetry::Telemetry;

/// Configures a [`Guarded`] store. Created by [`Guarded::builder`].
pub struct GuardedBuilder<S> {
    store: S,
    deadline: Duration,
    default_policy: OnFailure,
    policies: HashMap<Box<str>, OnFailure>,
    breaker: BreakerConfig,
    max_keys: usize,
    min_reset: Duration,
    observer: Option<Arc<dyn Observer>>,
}

impl<S: Store + 'static> GuardedBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store,
            deadline: Duration::from_millis(20),
            // An outage of the rate limiter must not become an outage of the service.
            default_policy: OnFailure::Allow,
            policies: HashMap::new(),
            breaker: BreakerConfig::default(),
            max_keys: 10_000,
            min_reset: Duration::from_secs(10),
            observer: None,
        }
    }

    /// Sets how long a call may take. Default: 20 ms.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the failure policy of all limits without one of their own. Default: [`OnFailure::Allow`].
    #[must_use]
    pub fn on_failure(mut self, policy: impl Into<OnFailure>) -> Self {
        self.default_policy = policy.into();
        self
    }

    /// Sets the failure policy of the limits with this name.
    #[must_use]
    pub fn on_failure_of(mut self, limit: &str, policy: impl Into<OnFailure>) -> Self {
        self.policies.insert(limit.into(), policy.into());
        self
    }

    /// Opens the circuit breaker when this many of the last calls have failed. Default: 5 of the last 10. `of_last` is
    /// at most 64.
    #[must_use]
    pub fn failure_threshold(mut self, failures: u32, of_last: u32) -> Self {
        (self.breaker.failures, self.breaker.of_last) = (failures, of_last);
        self
    }

    /// Sets how long the circuit breaker stays open: the first time, and at most. The time doubles whenever a probe
    /// fails, and a random half of it is left out. Default: 500 ms and 8 s.
    #[must_use]
    pub fn open_for(mut self, first: Duration, longest: Duration) -> Self {
        (self.breaker.open_for, self.breaker.open_for_at_most) = (first, longest.max(first));
        self
    }

    /// Sets how many probes in a row must succeed to close a half-open circuit breaker. Default: 2.
    #[must_use]
    pub fn half_open_probes(mut self, probes: u32) -> Self {
        self.breaker.probes = probes.max(1);
        self
    }

    /// Limits what is reconciled of the grants of fallback stores: at most `max_keys` keys, of limits whose exhausted
    /// state takes at least `min_reset` until it equals a fresh one. Default: 10,000 keys and 10 s.
    #[must_use]
    pub fn reconcile(mut self, max_keys: usize, min_reset: Duration) -> Self {
        (self.max_keys, self.min_reset) = (max_keys, min_reset);
        self
    }

    /// Sets the observer of calls, fallbacks, changes of the circuit breaker, and reconciliation. Default: none.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Builds the guarded store.
    #[must_use]
    pub fn build(self) -> Guarded<S> {
        let pending = PendingDeltas::new(self.max_keys, self.min_reset);
        Guarded {
            deadline: self.deadline,
            breaker: Arc::new(CircuitBreaker::new(self.breaker)),
            policies: Policies::new(self.default_policy, self.policies),
            inner: Arc::new(ReconciledStore::new(self.store, pending, Telemetry::new(self.observer))),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for GuardedBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedBuilder")
            .field("store", &self.store)
            .field("deadline", &self.deadline)
            .field("default_policy", &self.default_policy)
            .field("policies", &self.policies)
            .field("breaker", &self.breaker)
            .field("max_keys", &self.max_keys)
            .field("min_reset", &self.min_reset)
            .finish_non_exhaustive()
    }
}
