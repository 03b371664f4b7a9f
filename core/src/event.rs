//! One small hook that metrics and tracing hang on.

use core::fmt;
use core::time::Duration;

use crate::decision::Decision;
use crate::error::{ErrorKind, StoreError};

/// What has just happened. Names limits, never keys.
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
    /// Something other than the store decided a charge.
    FellBack {
        /// The limit's name.
        limit: &'a str,
        /// Why.
        reason: FallbackReason,
        /// The decision; its [source](Decision::source) says who made it.
        decision: &'a Decision,
    },
    /// A store is asked again, or is no longer asked.
    BreakerChanged {
        /// What the breaker does now.
        state: BreakerState,
    },
    /// What was consumed while a store was away has been told to it.
    HandedOver {
        /// How many keys it was about.
        keys: usize,
        /// How much could not be told since the last such event.
        lost: u64,
    },
    /// Local and central state were exchanged.
    Exchanged {
        /// How many keys.
        keys: usize,
        /// How long it took.
        took: Duration,
        /// How far below zero the centre's balance of one of them was at most, in tokens: what passed beyond the limit and
        /// has to be repaid.
        debt: u64,
        /// How long the centre has not answered, if it did not.
        silent: Duration,
        /// How the centre failed, if it did not answer all of it; the rest is told again.
        error: Option<&'a StoreError>,
    },
    /// A store was called.
    StoreCalled {
        /// How long it took.
        took: Duration,
        /// How it failed, if it did.
        error: Option<&'a StoreError>,
    },
}

/// Why something other than the store decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FallbackReason {
    /// It failed shortly before, and was not asked.
    NotAsked,
    /// It was asked, and failed like this.
    Failed(ErrorKind),
    /// It panicked, or what says what to ask did.
    Panicked,
    /// It has been silent for too long.
    Stale,
}

impl FallbackReason {
    /// A word for it: one of few, as metrics need it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAsked => "not-asked",
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

/// What a circuit breaker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// The store is asked.
    Closed,
    /// The store failed, and is left alone for a while.
    Open,
    /// A few calls find out whether the store is back.
    HalfOpen,
}

impl BreakerState {
    /// A word for it.
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

/// Is told what happens. Called on the hot path: be quick, and don't block.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: Event<'_>) {
        self(event);
    }
}
