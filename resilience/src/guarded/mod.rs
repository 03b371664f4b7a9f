//! [`Guarded`]: a deadline, a circuit breaker, failure policies, and reconciliation.
//!
//! # Layout
//!
//! - `builder`: the configuration.
//! - `store`: the calls; `call`: a call with a deadline.
//! - `breaker`: the circuit breaker.
//! - `policy`: failure policies; `policies`: replaces them at run time; `shares`: the policy of each limit, and its
//!   share; `fallback`: decisions by policies.
//! - `delta`, `pending`: what fallback stores granted; `reconciliation`: sends it to the store.
//! - `stats`, `telemetry`: counters, and the observer.

mod breaker;
mod builder;
mod call;
mod delta;
mod fallback;
mod pending;
mod policies;
mod policy;
mod reconciliation;
mod shares;
mod stats;
mod store;
mod telemetry;

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::BreakerState;
use tollgate_core::store::Store;

pub use builder::GuardedBuilder;
pub use policies::FailurePolicies;
pub use policy::{FallbackStore, OnFailure, Share};
pub use stats::GuardedStats;

use breaker::CircuitBreaker;
use reconciliation::ReconciledStore;

/// A store with a deadline, a circuit breaker, and a fallback for when it fails.
///
/// ```
/// use tollgate::memory::MemoryStore;
/// use tollgate::resilience::{FallbackStore, Guarded, OnFailure, Share};
/// use tollgate::{Limit, Limiter};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::new(); // for a store that can fail
/// let api = Limit::per_second(50).build("api")?;
/// let login = Limit::per_minute(5).build("login")?;
/// let guarded = Guarded::builder(redis)
///     .on_failure(FallbackStore::new(MemoryStore::new(), Share::one_of(10))) // ten processes share the limits
///     .on_failure_of(&login, OnFailure::Deny)
///     .build()?;
/// let limiter = Limiter::new(guarded);
/// let decision = limiter.check_now(&api, "user:42"); // with a remote store: check(…).await
/// # assert!(decision.is_allowed());
/// # Ok(())
/// # }
/// ```
///
/// # Deadline
///
/// A call fails if it returns an error, if it panics, or if it does not answer within the
/// [deadline](GuardedBuilder::deadline). Default: 20 ms. A call that misses its deadline may still take effect. An
/// unsupported request is an error of the request, not a failure of the store.
///
/// # Fallback
///
/// If the call fails, or if the circuit breaker does not permit it, the failure policy of each limit decides: allow,
/// deny, allow for a while and then deny, or decide on a fallback store. See [`OnFailure`]. Default: allow.
/// [`failure_policies`](Self::failure_policies) replaces the policies of limits at run time.
/// [`Decision::source`](tollgate_core::Decision::source) says that the store did not decide; [`stats`](Self::stats)
/// counts these decisions.
///
/// A request whose limits have different policies passes if all of them allow it. Otherwise nothing is debited; only a
/// lease that was released on one of several fallback stores stays released. The renewal of a lease that the fallback
/// store does not know is allowed: the lease may still be held on the store.
///
/// # Circuit breaker
///
/// - **Closed**: calls are permitted. The breaker opens when 5 of the last 10 calls failed
///   ([`failure_threshold`](GuardedBuilder::failure_threshold)).
/// - **Open**: calls are not permitted, and the policies decide at once. The breaker is half-open after 500 ms, doubled
///   each time up to 8 s, minus a random part of up to half ([`open_for`](GuardedBuilder::open_for)).
/// - **Half-open**: one call at a time is permitted, as a probe. The breaker closes when 2 probes in a row succeeded
///   ([`half_open_probes`](GuardedBuilder::half_open_probes)), and opens when one failed.
///
/// Time is measured by the callers' clock.
///
/// # Reconciliation
///
/// After an outage, before the circuit breaker closes, the store receives what fallback stores granted. So its first
/// decisions are correct. It receives debits with idempotency keys, dated at the instants of the grants, of up to
/// 10,000 keys and of limits that take at least 10 s to reset ([`reconcile`](GuardedBuilder::reconcile)). Grants of
/// further keys are counted as [`lost`](GuardedStats::lost). A call that missed its deadline may have taken effect, and
/// is then counted twice: this over-counts and never over-admits.
///
/// # Runtime
///
/// A store that waits needs a tokio runtime with a timer, which must keep running: reconciliation runs in its tasks.
/// Panics are caught if the program is built with unwinding.
#[derive(Debug)]
pub struct Guarded<S> {
    deadline: Duration,
    breaker: Arc<CircuitBreaker>,
    policies: FailurePolicies,
    inner: Arc<ReconciledStore<S>>,
}

impl<S: Store + 'static> Guarded<S> {
    /// Guards a store with the default configuration: a deadline of 20 ms, and charges are allowed while the store
    /// fails.
    pub fn new(store: S) -> Self {
        Self::builder(store).build_valid()
    }

    /// Returns a builder, to configure the guarded store.
    pub fn builder(store: S) -> GuardedBuilder<S> {
        GuardedBuilder::new(store)
    }

    /// Returns the inner store.
    pub fn store(&self) -> &S {
        &self.inner.store
    }

    /// Returns the state of the circuit breaker.
    pub fn breaker_state(&self) -> BreakerState {
        self.breaker.state()
    }

    /// Returns the failure policies of limits, to replace them at run time. Clones of them are the same policies.
    pub fn failure_policies(&self) -> &FailurePolicies {
        &self.policies
    }

    /// Returns what has been counted since the guarded store was built.
    pub fn stats(&self) -> GuardedStats {
        self.inner.telemetry.counters.read()
    }
}
