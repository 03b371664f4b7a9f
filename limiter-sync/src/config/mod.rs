//! Configuration: the builder of [`Synced`], the [policies](SyncPolicy) of its limits (`policy`), and what follows from
//! them for a limit (`limit`).

mod limit;
mod policy;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{ConfigError, Limit, SystemClock, Timer};

pub(crate) use limit::{CENTRAL, CoarseTime, LimitConfig, LimitConfigs};
pub(crate) use policy::Policies;
pub use policy::{ColdKeys, Mode, SyncPolicy, WhenStale};

use crate::node::Node;
use crate::synced::Synced;

/// The default of [`SyncedBuilder::max_keys`].
const MAX_KEYS: usize = 1_000_000;

/// Configures a [`Synced`]. Created by [`Synced::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct SyncedBuilder<S, C = SystemClock> {
    store: S,
    clock: C,
    max_keys: usize,
    policies: Policies,
    manual: bool,
}

impl<S: Store + 'static> SyncedBuilder<S> {
    pub(crate) fn new(store: S) -> Self {
        Self {
            store,
            clock: SystemClock::new(),
            max_keys: MAX_KEYS,
            policies: Policies::default(),
            manual: false,
        }
    }
}

impl<S: Store + 'static, C: Timer + 'static> SyncedBuilder<S, C> {
    /// Sets the sync interval of the default policy ([`SyncPolicy::interval`]). Default: 100 ms.
    pub fn interval(self, interval: Duration) -> Self {
        self.default_policy(|policy| policy.interval(interval))
    }

    /// Sets the mode of the default policy ([`SyncPolicy::mode`]). Default: [`Mode::Deltas`].
    pub fn mode(self, mode: Mode) -> Self {
        self.default_policy(|policy| policy.mode(mode))
    }

    /// Sets what the default policy does when the central store has not answered for too long
    /// ([`SyncPolicy::when_stale`]). Default: [`WhenStale::Continue`].
    pub fn when_stale(self, when_stale: WhenStale) -> Self {
        self.default_policy(|policy| policy.when_stale(when_stale))
    }

    /// Changes the default policy, which applies to all limits without a policy of their own.
    pub fn default_policy(mut self, change: impl FnOnce(SyncPolicy) -> SyncPolicy) -> Self {
        self.policies.default = change(self.policies.default);
        self
    }

    /// Sets the policy of `limit`, and of all limits with its name. `change` receives the default policy as configured
    /// so far: configure that one first.
    pub fn policy(mut self, limit: &Limit, change: impl FnOnce(SyncPolicy) -> SyncPolicy) -> Self {
        self.policies.by_limit.insert(limit.name().into(), change(self.policies.default));
        self
    }

    /// Sets how many keys have a local entry at a time. Default: 1,000,000. At least 1. An entry takes about 140 bytes,
    /// that of a window 220.
    ///
    /// When more keys are in use, entries without pending deltas are evicted, and their state is fetched when their key
    /// is used again. If no entry can be evicted, the new key is decided by the central store.
    /// [`Stats::evicted`](crate::Stats::evicted) and [`Stats::decided_centrally`](crate::Stats::decided_centrally)
    /// count both.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = keys;
        self
    }

    /// Starts no background task: the node synchronizes only by [`sync_now`](Synced::sync_now), which has to be called
    /// once per interval, or decisions become [stale](crate#staleness). For tests, simulations, and programs with a
    /// schedule of their own.
    pub fn manual(mut self) -> Self {
        self.manual = true;
        self
    }

    /// Sets the clock, such as one that is moved manually. Default: [`SystemClock`].
    pub fn clock<D: Timer + 'static>(self, clock: D) -> SyncedBuilder<S, D> {
        let Self { store, clock: _, max_keys, policies, manual } = self;
        SyncedBuilder { store, clock, max_keys, policies, manual }
    }

    /// Creates the store. Its background task starts with the first check on a tokio runtime, on that runtime. An error
    /// says which setting is invalid, and what would be valid.
    pub fn build(self) -> Result<Synced<S, C>, ConfigError> {
        if self.max_keys == 0 {
            return Err(ConfigError::new("Synced", "max_keys", "is 0", "use at least 1"));
        }
        self.policies.validate()?;
        Ok(self.build_valid())
    }

    pub(crate) fn build_valid(self) -> Synced<S, C> {
        let limits = LimitConfigs::new(self.policies);
        let node = Node::new(self.store, self.clock, limits, self.max_keys, self.manual);
        Synced::from_node(Arc::new(node))
    }
}

impl<S, C> fmt::Debug for SyncedBuilder<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncedBuilder")
            .field("policies", &self.policies)
            .field("max_keys", &self.max_keys)
            .field("manual", &self.manual)
            .finish_non_exhaustive()
    }
}
