//! [`Coalesced`]: concurrent checks in few calls.
//!
//! # Layout
//!
//! - `builder`: the configuration; `store`: the calls; `stats`: the counters.
//! - `routes`: which requests are sent directly, which wait, and which calls are in flight.
//! - `waiters`: the callers that wait, and the replies to them.
//! - `batch`: requests that are decided by one call; `merge`: equal ones among them.
//! - `in_flight`: calls from their start to their end.

mod batch;
mod builder;
mod in_flight;
mod merge;
mod routes;
mod stats;
mod store;
mod waiters;

use std::fmt;
use std::sync::Arc;

use tollgate_core::store::Store;
use tollgate_core::{Clock, SystemClock};

pub use builder::CoalescedBuilder;
pub use stats::CoalescedStats;

use in_flight::Coalescer;

/// A store that batches concurrent requests, and merges equal ones.
///
/// A request is sent at once, by itself, while fewer than the [maximum](CoalescedBuilder::max_in_flight) of calls are
/// in flight. Otherwise it waits. When a call ends, all waiting requests are sent as one [batch](Store::decide_batch).
/// There is no timer and no added delay: a request waits only for calls that are already in flight. Equal requests of a
/// batch are merged into one [run](tollgate_core::store::Run), so that a hot key costs next to nothing.
///
/// ```
/// use tollgate::resilience::Coalesced;
/// use tollgate::{Limit, Limiter};
/// # use tollgate::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = MemoryStore::config().max_keys(1_024).build();
/// let limiter = Limiter::new(Coalesced::new(redis));
/// let api = Limit::per_second(50).build("api")?;
/// let (first, second) = tokio::join!(limiter.check(&api, "user:42"), limiter.check(&api, "user:42"));
/// assert!(first?.is_allowed() && second?.is_allowed());
/// # Ok(())
/// # }
/// ```
///
/// # Semantics
///
/// - **Routes**: only requests with the same [route](Store::route) are batched, because the store decides them in one
///   call. A request whose charges have several routes is forwarded.
/// - **Order**: the waiting requests of a route are decided in the order of their arrival.
/// - **Time**: a batch is decided at the latest time that one of its callers passed.
/// - **Failure**: a call that fails, fails for every request in it, and for no other.
/// - **Hanging calls**: once the newest call of a route is older than
///   [`overtake_after`](CoalescedBuilder::overtake_after), the next request is sent without waiting for it. A batch is
///   abandoned once all of its callers are cancelled, for instance by a deadline.
/// - **Cancellation**: a request is not sent if its caller is cancelled first. Once it is sent, it may or may not take
///   effect.
///
/// Batches, exports and deltas of the caller are forwarded.
///
/// # Runtime
///
/// Batches are sent by tasks of the callers' tokio runtime, which must keep running. Without a runtime, callers that
/// waited call the store themselves.
///
/// Clones share routes and stats.
pub struct Coalesced<S, C = SystemClock> {
    coalescer: Arc<Coalescer<S, C>>,
}

impl<S: Store + 'static> Coalesced<S> {
    /// Wraps a store with the default configuration.
    pub fn new(store: S) -> Self {
        Self::builder(store).build_valid()
    }

    /// Returns a builder, to configure the coalesced store.
    pub fn builder(store: S) -> CoalescedBuilder<S> {
        CoalescedBuilder::new(store)
    }
}

impl<S: Store + 'static, C: Clock + 'static> Coalesced<S, C> {
    /// Returns the inner store.
    pub fn store(&self) -> &S {
        &self.coalescer.store
    }

    /// Returns what has been counted since the coalesced store was built.
    pub fn stats(&self) -> CoalescedStats {
        self.coalescer.counters.read(self.coalescer.routes.counts())
    }
}

impl<S, C> Clone for Coalesced<S, C> {
    fn clone(&self) -> Self {
        Self { coalescer: Arc::clone(&self.coalescer) }
    }
}

impl<S: fmt::Debug, C> fmt::Debug for Coalesced<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalesced")
            .field("store", &self.coalescer.store)
            .field("limits", &self.coalescer.routes.limits)
            .finish_non_exhaustive()
    }
}
