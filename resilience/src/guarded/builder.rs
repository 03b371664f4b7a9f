//! The configuration of a guarded store.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{ConfigError, Limit};

use super::Guarded;
use super::breaker::{BreakerConfig, CircuitBreaker, MAX_OF_LAST};
use super::pending::PendingDeltas;
use super::policies::{FailurePolicies, PolicyTable};
use super::policy::OnFailure;
use super::reconciliation::ReconciledStore;
use super::telemetry::Telemetry;

/// Configures a [`Guarded`] store. Created by [`Guarded::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct GuardedBuilder<S> {
    store: S,
    name: Box<str>,
    deadline: Duration,
    policies: PolicyTable,
    breaker: BreakerConfig,
    max_keys: usize,
    min_reset: Duration,
}

impl<S: Store + 'static> GuardedBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store,
            name: "store".into(),
            deadline: Duration::from_millis(20),
            // An outage of the rate limiter must not become an outage of the service.
            policies: PolicyTable { default: OnFailure::Allow, by_name: HashMap::new() },
            breaker: BreakerConfig::default(),
            max_keys: 10_000,
            min_reset: Duration::from_secs(10),
        }
    }

    /// Sets the name of the store in events, metrics and log lines, to tell several guarded stores apart. Default:
    /// `store`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets how long a call may take. Default: 20 ms. More than zero.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the failure policy of all limits without one of their own. Default: [`OnFailure::Allow`].
    pub fn on_failure(mut self, policy: impl Into<OnFailure>) -> Self {
        self.policies.default = policy.into();
        self
    }

    /// Sets the failure policy of `limit`, and of all limits with its name.
    pub fn on_failure_of(mut self, limit: &Limit, policy: impl Into<OnFailure>) -> Self {
        self.policies.by_name.insert(limit.name().into(), policy.into());
        self
    }

    /// Opens the circuit breaker when this many of the last calls have failed. Default: 5 of the last 10. `failures` is
    /// from 1 to `of_last`, which is at most 64.
    pub fn failure_threshold(mut self, failures: u32, of_last: u32) -> Self {
        (self.breaker.failures, self.breaker.of_last) = (failures, of_last);
        self
    }

    /// Sets how long the circuit breaker stays open: the first time, and at most. The time doubles whenever a probe
    /// fails, and a random half of it is left out. Default: 500 ms and 8 s. `first` is more than zero, and at most
    /// `longest`.
    pub fn open_for(mut self, first: Duration, longest: Duration) -> Self {
        (self.breaker.open_for, self.breaker.open_for_at_most) = (first, longest);
        self
    }

    /// Sets how many probes in a row must succeed to close a half-open circuit breaker. Default: 2. At least 1.
    pub fn half_open_probes(mut self, probes: u32) -> Self {
        self.breaker.probes = probes;
        self
    }

    /// Limits what is reconciled of the grants of fallback stores: at most `max_keys` keys, of limits whose exhausted
    /// state takes at least `min_reset` until it equals a fresh one. Default: 10,000 keys and 10 s. With 0 keys,
    /// nothing is reconciled.
    pub fn reconcile(mut self, max_keys: usize, min_reset: Duration) -> Self {
        (self.max_keys, self.min_reset) = (max_keys, min_reset);
        self
    }

    /// Builds the guarded store. An error says which setting is invalid, and what would be valid.
    pub fn build(self) -> Result<Guarded<S>, ConfigError> {
        self.validate()?;
        Ok(self.build_valid())
    }

    pub(super) fn build_valid(self) -> Guarded<S> {
        let pending = PendingDeltas::new(self.max_keys, self.min_reset);
        Guarded {
            deadline: self.deadline,
            breaker: Arc::new(CircuitBreaker::new(self.breaker)),
            policies: FailurePolicies::new(self.policies),
            inner: Arc::new(ReconciledStore::new(self.store, pending, Telemetry::new(self.name))),
        }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let BreakerConfig { failures, of_last, open_for, open_for_at_most, probes } = self.breaker;
        let refuse = |setting, problem: String, advice: &str| {
            Err(ConfigError::new("Guarded", setting, problem, advice))
        };
        if self.deadline.is_zero() {
            return refuse("deadline", "is zero, so every call would fail".into(), "use more, such as 20 ms");
        }
        if !(1..=MAX_OF_LAST).contains(&of_last) {
            let problem = format!("counts failures among the last {of_last} calls");
            return refuse("failure_threshold", problem, &format!("use from 1 to {MAX_OF_LAST} calls"));
        }
        if !(1..=of_last).contains(&failures) {
            let problem = format!("is {failures} failures of the last {of_last} calls");
            return refuse("failure_threshold", problem, &format!("use from 1 to {of_last} failures"));
        }
        if open_for.is_zero() {
            return refuse("open_for", "starts with zero".into(), "use more, such as 500 ms and 8 s");
        }
        if open_for > open_for_at_most {
            let problem = format!("starts with {open_for:?}, which is more than the longest time");
            return refuse("open_for", problem, &format!("use at most {open_for_at_most:?} at first"));
        }
        if probes == 0 {
            return refuse("half_open_probes", "is 0".into(), "use at least 1");
        }
        let mut policies = std::iter::once(&self.policies.default).chain(self.policies.by_name.values());
        if let Some((problem, advice)) = policies.find_map(OnFailure::problem) {
            return refuse("on_failure", problem.into(), advice);
        }
        Ok(())
    }
}

impl<S: fmt::Debug> fmt::Debug for GuardedBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedBuilder")
            .field("store", &self.store)
            .field("name", &self.name)
            .field("deadline", &self.deadline)
            .field("policies", &self.policies)
            .field("breaker", &self.breaker)
            .field("max_keys", &self.max_keys)
            .field("min_reset", &self.min_reset)
            .finish_non_exhaustive()
    }
}
