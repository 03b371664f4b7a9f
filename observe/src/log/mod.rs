//! Events as lines of a log, through `tracing`.

mod episode;

use std::time::Duration;

use tollgate_core::{
    BreakerState, Clock, Decision, ErrorKind, Event, FallbackReason, Observer, StoreError, SystemClock,
};
use tracing::{debug, info, trace, warn};

use crate::chain::Chain;
use crate::limits::{Limits, MOST_LIMITS};
use episode::Episode;

/// What lines are filtered by.
const TARGET: &str = "tollgate";

/// Writes down what happens, with the target `tollgate`. Names limits, never keys.
///
/// | level | what |
/// |---|---|
/// | warn | a store is no longer asked; what was consumed meanwhile is lost; calls of stores that fail; fallbacks |
/// | info | a store is tried or asked again; what was consumed meanwhile has been told to it |
/// | debug | decisions that turn somebody away |
/// | trace | everything else |
///
/// When a store is gone, every request falls back; that is not a line for every request. Fallbacks of one limit for
/// one reason are told when they begin, and from then on at most once in a while, with their number since the line
/// before (`count`). So are calls that fail, by kind. A line comes with an event: what came after the last line is
/// told when the next such event comes, whenever that is. Fallbacks of more than
/// [`MOST_LIMITS`] limits are told as those of [`OTHER`](crate::OTHER).
///
/// Messages of errors are written down as they are: a store's errors name no keys.
#[derive(Debug)]
#[doc(alias = "tracing")]
pub struct Log<C = SystemClock> {
    clock: C,
    every: Duration,
    fallbacks: Limits<Chain<FallbackReason, Episode>>,
    failures: Chain<ErrorKind, Episode>,
}

impl Log {
    /// By the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> Log<C> {
    /// By `clock`, which says when it is time for the next line.
    pub fn with_clock(clock: C) -> Self {
        Self {
            clock,
            every: Duration::from_secs(10),
            fallbacks: Limits::new(MOST_LIMITS),
            failures: Chain::default(),
        }
    }

    /// How long to wait before the next line about the same thing; ten seconds unless another time is asked for.
    #[must_use]
    pub fn every(mut self, span: Duration) -> Self {
        self.every = span;
        self
    }

    fn fell_back(&self, limit: &str, reason: FallbackReason, decision: &Decision) {
        self.fallbacks.with(limit, |label, reasons| {
            if let Some(count) = reasons.get(reason, Episode::default).add(self.clock.now(), self.every) {
                let (limit, reason, source) = (label.as_str(), reason.as_str(), decision.source().as_str());
                warn!(target: TARGET, limit, reason, source, count, "the store did not decide");
            }
        });
    }

    fn store_called(&self, took: Duration, error: Option<&StoreError>) {
        let Some(error) = error else {
            return trace!(target: TARGET, ?took, "a store was called");
        };
        let kind = error.kind();
        if let Some(count) = self.failures.get(kind, Episode::default).add(self.clock.now(), self.every) {
            warn!(target: TARGET, kind = kind.as_str(), count, ?took, %error, "a store failed");
        }
    }
}

impl<C: Clock> Observer for Log<C> {
    fn observe(&self, event: Event<'_>) {
        match event {
            Event::Decided { limit, decision } => decided(limit, decision),
            Event::FellBack { limit, reason, decision } => self.fell_back(limit, reason, decision),
            Event::BreakerChanged { state } => breaker_changed(state),
            Event::Reconciled { keys, lost: 0 } => {
                info!(target: TARGET, keys, "what was consumed while the store was away has been told to it");
            }
            Event::Reconciled { keys, lost } => {
                warn!(target: TARGET, keys, lost, "a part of what was consumed while the store was away is lost");
            }
            Event::Synchronized { keys, took, debt, error: None, .. } => {
                trace!(target: TARGET, keys, ?took, debt, "local and central state were exchanged");
            }
            // A centre that did not answer is a store that failed.
            Event::Synchronized { took, error, .. } | Event::StoreCalled { took, error } => {
                self.store_called(took, error);
            }
            // Events that are newer than this crate.
            _ => {}
        }
    }
}

#[inline]
fn decided(limit: &str, decision: &Decision) {
    // The fields are only asked for if somebody reads the line.
    if decision.is_allowed() {
        trace!(
            target: TARGET,
            limit,
            source = decision.source().as_str(),
            remaining = decision.remaining(),
            "allowed"
        );
    } else {
        debug!(
            target: TARGET,
            limit,
            outcome = decision.outcome().as_str(),
            source = decision.source().as_str(),
            retry_after = ?decision.retry_after(),
            "turned away"
        );
    }
}

fn breaker_changed(state: BreakerState) {
    let word = state.as_str();
    match state {
        BreakerState::Open => warn!(target: TARGET, state = word, "the store is no longer asked"),
        BreakerState::HalfOpen => info!(target: TARGET, state = word, "the store is tried again"),
        BreakerState::Closed => info!(target: TARGET, state = word, "the store is asked again"),
        _ => info!(target: TARGET, state = word, "the breaker changed"),
    }
}
