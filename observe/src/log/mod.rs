//! Events as log lines, through `tracing`.

mod throttle;

use std::time::Duration;

use tollgate_core::{
    BreakerState, Clock, Decision, ErrorKind, Event, FallbackReason, Observer, StoreError, SystemClock,
};
use tracing::{debug, info, trace, warn};

use crate::chain::Chain;
use crate::limits::{MAX_LIMITS, PerLimit};
use throttle::Throttle;

/// The target of all lines, to filter by.
const TARGET: &str = "tollgate";

/// Logs events through `tracing`, with the target `tollgate`. Lines contain names of limits, never keys.
///
/// | level | events |
/// |---|---|
/// | warn | a circuit breaker opens; a reconciliation is incomplete; store calls that fail; charges that are not decided; fallbacks; servers with an unsafe configuration; rules that cannot be used; sources of rules and stores of plans that do not answer |
/// | info | a circuit breaker is half-open or closes; a reconciliation is complete; other rules are in use |
/// | debug | denials |
/// | trace | all others |
///
/// During an outage every request falls back, which must not write a line per request. Fallbacks of one limit for one
/// reason are logged when they begin, and from then on at most once per [interval](Self::interval), with the number of
/// fallbacks since the previous line (`count`). Store calls that fail, charges that are not decided, and polls for rules
/// and look-ups of plans that fail are throttled in the same way, by the kind of the error. A line is written when an
/// event occurs: events after the last line are counted in the line of the next such event, whenever it comes. Limits
/// beyond the first [`MAX_LIMITS`] share the name [`OTHER`](crate::OTHER).
///
/// Error messages are logged unchanged: errors of stores contain no keys.
#[derive(Debug)]
#[doc(alias = "tracing")]
pub struct Log<C = SystemClock> {
    clock: C,
    interval: Duration,
    fallbacks: PerLimit<Chain<FallbackReason, Throttle>>,
    undecided: PerLimit<Chain<ErrorKind, Throttle>>,
    failures: Chain<ErrorKind, Throttle>,
    polls: Chain<ErrorKind, Throttle>,
    plans: Chain<ErrorKind, Throttle>,
}

impl Log {
    /// Creates a log that uses the system clock.
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
    /// Creates a log that uses `clock` to measure intervals between lines.
    pub fn with_clock(clock: C) -> Self {
        Self {
            clock,
            interval: Duration::from_secs(10),
            fallbacks: PerLimit::new(MAX_LIMITS),
            undecided: PerLimit::new(MAX_LIMITS),
            failures: Chain::default(),
            polls: Chain::default(),
            plans: Chain::default(),
        }
    }

    /// Sets the minimum time between two lines about the same sort of event. Default: 10 s.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    fn fell_back(&self, limit: &str, reason: FallbackReason, decision: &Decision) {
        self.fallbacks.with(limit, |label, reasons| {
            let throttle = reasons.get(reason, Throttle::default);
            if let Some(count) = throttle.add(self.clock.now(), self.interval) {
                let (limit, reason, source) = (label.as_str(), reason.as_str(), decision.source().as_str());
                warn!(target: TARGET, limit, reason, source, count, "a fallback decided instead of the store");
            }
        });
    }

    /// Logs a charge that was not decided, by the limit and the kind of the error.
    fn failed(&self, limit: &str, error: &StoreError) {
        let kind = error.kind();
        self.undecided.with(limit, |label, kinds| {
            let throttle = kinds.get(kind, Throttle::default);
            if let Some(count) = throttle.add(self.clock.now(), self.interval) {
                let (limit, kind) = (label.as_str(), kind.as_str());
                warn!(target: TARGET, limit, kind, count, %error, "a charge was not decided");
            }
        });
    }

    fn store_called(&self, store: &str, took: Duration, error: Option<&StoreError>) {
        let Some(error) = error else {
            return trace!(target: TARGET, store, ?took, "store call succeeded");
        };
        let kind = error.kind();
        if let Some(count) = self.failures.get(kind, Throttle::default).add(self.clock.now(), self.interval) {
            warn!(target: TARGET, store, kind = kind.as_str(), count, ?took, %error, "store call failed");
        }
    }

    fn rules_polled(&self, source: &str, stale_for: Duration, error: Option<&StoreError>) {
        let Some(error) = error else {
            return trace!(target: TARGET, source, "polled for rules");
        };
        let kind = error.kind();
        if let Some(count) = self.polls.get(kind, Throttle::default).add(self.clock.now(), self.interval) {
            let kind = kind.as_str();
            warn!(
                target: TARGET,
                source, kind, count, ?stale_for, %error,
                "the source of rules does not answer; the rules in use stay in use"
            );
        }
    }

    fn plan_unavailable(&self, error: &StoreError) {
        let kind = error.kind();
        if let Some(count) = self.plans.get(kind, Throttle::default).add(self.clock.now(), self.interval) {
            let kind = kind.as_str();
            warn!(target: TARGET, kind, count, %error, "the store of plans did not answer");
        }
    }
}

impl<C: Clock> Observer for Log<C> {
    fn observe(&self, event: Event<'_>) {
        match event {
            Event::Decided { limit, decision } => decided(limit, decision),
            Event::FellBack { limit, reason, decision } => self.fell_back(limit, reason, decision),
            Event::Failed { limit, error } => self.failed(limit, error),
            Event::BreakerChanged { store, state } => breaker_changed(store, state),
            Event::Reconciled { store, keys, lost: 0 } => {
                info!(target: TARGET, store, keys, "fallback store reconciled with the store");
            }
            Event::Reconciled { store, keys, lost } => {
                warn!(target: TARGET, store, keys, lost, "fallback store reconciled in part: some tokens are lost");
            }
            Event::Synchronized { keys, took, debt, error: None, .. } => {
                trace!(target: TARGET, keys, ?took, debt, "sync round completed");
            }
            // A central store that did not answer is a store that failed.
            Event::Synchronized { took, error, .. } => self.store_called("central", took, error),
            Event::StoreCalled { store, took, error } => self.store_called(store, took, error),
            // Not throttled: a store reports each of its servers once.
            Event::ServerMisconfigured { problem } => {
                warn!(target: TARGET, problem, "the configuration of a server is unsafe");
            }
            Event::RulesLoaded { source, digest, documents } => {
                let digest = format_args!("{digest:016x}");
                info!(target: TARGET, source, %digest, documents, "rules loaded");
            }
            // Not throttled: reported once per version.
            Event::RulesRejected { source, problem } => {
                warn!(target: TARGET, source, problem, "rules rejected; the rules in use stay in use");
            }
            Event::RulesPolled { source, stale_for, error } => self.rules_polled(source, stale_for, error),
            Event::PlanUnavailable { error } => self.plan_unavailable(error),
            // Events that are newer than this crate.
            _ => {}
        }
    }
}

#[inline]
fn decided(limit: &str, decision: &Decision) {
    // The fields are computed only if the level is enabled.
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
            "denied"
        );
    }
}

fn breaker_changed(store: &str, state: BreakerState) {
    let name = state.as_str();
    match state {
        BreakerState::Open => warn!(target: TARGET, store, state = name, "circuit breaker opened"),
        BreakerState::HalfOpen => info!(target: TARGET, store, state = name, "circuit breaker is half-open"),
        BreakerState::Closed => info!(target: TARGET, store, state = name, "circuit breaker closed"),
        _ => info!(target: TARGET, store, state = name, "circuit breaker changed"),
    }
}
