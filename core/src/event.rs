//! Events: the hook for metrics and logs.

use core::fmt;
use core::time::Duration;

use crate::decision::Decision;
use crate::error::{ErrorKind, StoreError};

/// Something that happened. Contains names of limits, never keys.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A charge was decided.
    Decided {
        /// The limit's name.
        limit: &'a str,
        /// The decision.
        decision: &'a Decision,
    },
    /// A charge was not decided: the limiter returned an error.
    Failed {
        /// The limit's name.
        limit: &'a str,
        /// The error.
        error: &'a StoreError,
    },
    /// A fallback decided a charge instead of the store.
    FellBack {
        /// The limit's name.
        limit: &'a str,
        /// The reason.
        reason: FallbackReason,
        /// The decision; its [source](Decision::source) says what made it.
        decision: &'a Decision,
    },
    /// A circuit breaker changed its state.
    BreakerChanged {
        /// The name of the store that the circuit breaker guards.
        store: &'a str,
        /// The new state.
        state: BreakerState,
    },
    /// What a fallback store granted during an outage was reconciled with the store.
    Reconciled {
        /// The name of the store.
        store: &'a str,
        /// How many keys were reconciled.
        keys: usize,
        /// How much could not be reconciled since the last such event.
        lost: u64,
    },
    /// A sync round ended: pending deltas were sent to the central store, and its states received.
    Synchronized {
        /// How many keys took part.
        keys: usize,
        /// How long it took.
        took: Duration,
        /// The largest debt among their central balances, in tokens: what passed beyond the limit and has to be repaid.
        debt: u64,
        /// How long the central store has not answered. Zero if it did.
        stale_for: Duration,
        /// The error of the central store, if it did not answer everything; the rest is sent again.
        error: Option<&'a StoreError>,
    },
    /// A store was called.
    StoreCalled {
        /// The name of the store.
        store: &'a str,
        /// How long it took.
        took: Duration,
        /// The error, if it failed.
        error: Option<&'a StoreError>,
    },
    /// A store found that its server is configured such that limits may be exceeded.
    ServerMisconfigured {
        /// What is wrong with which server, and what would be right.
        problem: &'a str,
    },
    /// Other rules are in use from now on.
    RulesLoaded {
        /// The name of the source of rules.
        source: &'a str,
        /// A digest of the names and texts of its documents: processes with the same rules have the same digest.
        digest: u64,
        /// How many documents there are.
        documents: usize,
    },
    /// The newest rules of a source cannot be used; those before them stay in use. Reported once per version.
    RulesRejected {
        /// The name of the source of rules.
        source: &'a str,
        /// What is wrong with which document, and what would be right.
        problem: &'a str,
    },
    /// A source of rules was polled.
    RulesPolled {
        /// The name of the source of rules.
        source: &'a str,
        /// How long the source has not answered. Zero if it did.
        stale_for: Duration,
        /// The error, if it did not answer; the rules in use stay in use.
        error: Option<&'a StoreError>,
    },
    /// The store of plan assignments was asked for a user's plan, and did not answer. The last known plan or the
    /// default plan is used.
    PlanUnavailable {
        /// The error.
        error: &'a StoreError,
    },
}

/// Why a fallback decided instead of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// The circuit breaker is open: the store was not called.
    CircuitOpen,
    /// The call failed with an error of this kind.
    Failed(ErrorKind),
    /// The store panicked.
    Panicked,
    /// The central store has not answered for too long.
    Stale,
}

impl FallbackReason {
    /// Returns its name, for logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CircuitOpen => "circuit-open",
            Self::Failed(kind) => kind.as_str(),
            Self::Panicked => "panicked",
            Self::Stale => "stale",
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// The store is called.
    Closed,
    /// The store failed, and is not called for a while.
    Open,
    /// Probes find out whether the store answers again.
    HalfOpen,
}

impl BreakerState {
    /// Returns its name, for logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
    }
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Receives events. Called on the hot path: it must be fast, and must not block.
///
/// [`Limiter::with_observer`](crate::Limiter::with_observer) attaches one to a limiter and to everything below it.
pub trait Observer: Send + Sync {
    /// Handles an event.
    fn observe(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: Event<'_>) {
        self(event);
    }
}
