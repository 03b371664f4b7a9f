//! Events as metrics, through the `metrics` facade.

mod names;
mod rules;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tollgate_core::{
    BreakerState, Decision, ErrorKind, Event, FallbackReason, Observer, Outcome, Source, StoreError,
};

use crate::chain::Chain;
use crate::limits::{Label, MAX_LIMITS, PerLimit};
use rules::RulesMetrics;

/// Records events as metrics. The [crate's page](crate#metrics) lists them.
///
/// Create it after the exporter's recorder is installed. The metrics are described to the recorder that is installed at
/// that time. Each metric is registered at its first use, with the recorder that is installed then, and stays with it.
/// Without a recorder, events are not counted.
///
/// A decision on a known limit costs one look-up by name and one increment. It takes no lock and allocates nothing, as
/// long as the recorder does not.
#[derive(Debug)]
pub struct Metrics {
    // Each metric is registered at its first use.
    limits: PerLimit<LimitCounters>,
    label_overflow: OnceLock<Counter>,
    /// By the name of a guarded store. Bounded like limits, although these names come from the program.
    stores: PerLimit<StoreMetrics>,
    sync_round: OnceLock<Histogram>,
    synced_keys: OnceLock<Counter>,
    sync_errors: Chain<ErrorKind, Counter>,
    sync_debt: OnceLock<Gauge>,
    sync_stale: OnceLock<Gauge>,
    misconfigured_servers: OnceLock<Counter>,
    rules: RulesMetrics,
    plan_errors: Chain<ErrorKind, Counter>,
}

/// The metrics of one guarded store.
#[derive(Debug, Default)]
struct StoreMetrics {
    breaker: Mutex<Option<[(BreakerState, Gauge); 3]>>,
    breaker_changes: Chain<BreakerState, Counter>,
    reconciliations: OnceLock<Counter>,
    reconciled_keys: OnceLock<Counter>,
    reconciliation_lost: OnceLock<Counter>,
    call: OnceLock<Histogram>,
    errors: Chain<ErrorKind, Counter>,
}

/// The counters of one limit.
#[derive(Debug, Default)]
struct LimitCounters {
    decisions: Chain<(Outcome, Source), Counter>,
    errors: Chain<ErrorKind, Counter>,
    fallbacks: Chain<(FallbackReason, Source), Counter>,
}

impl Metrics {
    /// Creates metrics with a label of its own for each of the first [`MAX_LIMITS`] limits.
    pub fn new() -> Self {
        names::describe();
        Self {
            limits: PerLimit::new(MAX_LIMITS),
            label_overflow: OnceLock::new(),
            stores: PerLimit::new(MAX_LIMITS),
            sync_round: OnceLock::new(),
            synced_keys: OnceLock::new(),
            sync_errors: Chain::default(),
            sync_debt: OnceLock::new(),
            sync_stale: OnceLock::new(),
            misconfigured_servers: OnceLock::new(),
            rules: RulesMetrics::new(),
            plan_errors: Chain::default(),
        }
    }

    /// Sets how many limits get a label of their own, in the order of their first event. The others share the label
    /// [`OTHER`](crate::OTHER). Default: [`MAX_LIMITS`].
    #[must_use]
    pub fn max_limits(mut self, limits: usize) -> Self {
        self.limits = PerLimit::new(limits);
        self
    }

    #[inline]
    fn decided(&self, limit: &str, decision: &Decision) {
        let (outcome, source) = (decision.outcome(), decision.source());
        self.limits.with(limit, |label, counters| {
            let register = || {
                let (limit, outcome, source) = (label.as_str().to_owned(), outcome.as_str(), source.as_str());
                counter!(names::DECISIONS, "limit" => limit, "outcome" => outcome, "source" => source)
            };
            counters.decisions.get((outcome, source), register).increment(1);
            self.count_overflow(label);
        });
    }

    fn failed(&self, limit: &str, kind: ErrorKind) {
        self.limits.with(limit, |label, counters| {
            let register =
                || counter!(names::ERRORS, "limit" => label.as_str().to_owned(), "kind" => kind.as_str());
            counters.errors.get(kind, register).increment(1);
            self.count_overflow(label);
        });
    }

    fn fell_back(&self, limit: &str, reason: FallbackReason, source: Source) {
        self.limits.with(limit, |label, counters| {
            let register = || {
                let (limit, reason, source) = (label.as_str().to_owned(), reason.as_str(), source.as_str());
                counter!(names::FALLBACKS, "limit" => limit, "reason" => reason, "source" => source)
            };
            counters.fallbacks.get((reason, source), register).increment(1);
            self.count_overflow(label);
        });
    }

    #[inline]
    fn count_overflow(&self, label: Label<'_>) {
        if label == Label::Shared {
            self.label_overflow.get_or_init(|| counter!(names::LABEL_OVERFLOW)).increment(1);
        }
    }

    fn breaker_changed(&self, store: &str, new: BreakerState) {
        self.stores.with(store, |label, metrics| {
            let store = || label.as_str().to_owned();
            let register = || counter!(names::BREAKER_CHANGES, "store" => store(), "state" => new.as_str());
            metrics.breaker_changes.get(new, register).increment(1);
            // Locked, so that two changes at once do not leave two states set. Changes are rare.
            let mut gauges = metrics.breaker.lock().unwrap_or_else(PoisonError::into_inner);
            let gauges = gauges.get_or_insert_with(|| {
                [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen].map(|state| {
                    (state, gauge!(names::BREAKER_STATE, "store" => store(), "state" => state.as_str()))
                })
            });
            for (state, gauge) in gauges {
                gauge.set(f64::from(u8::from(*state == new)));
            }
        });
    }

    fn reconciled(&self, store: &str, keys: usize, lost: u64) {
        self.stores.with(store, |label, metrics| {
            let register = |name| counter!(name, "store" => label.as_str().to_owned());
            let StoreMetrics { reconciliations, reconciled_keys, reconciliation_lost, .. } = metrics;
            reconciliations.get_or_init(|| register(names::RECONCILIATIONS)).increment(1);
            reconciled_keys.get_or_init(|| register(names::RECONCILED_KEYS)).increment(keys as u64);
            reconciliation_lost.get_or_init(|| register(names::RECONCILIATION_LOST)).increment(lost);
        });
    }

    fn store_called(&self, store: &str, took: Duration, error: Option<ErrorKind>) {
        self.stores.with(store, |label, metrics| {
            let store = || label.as_str().to_owned();
            metrics.call.get_or_init(|| histogram!(names::STORE_CALL, "store" => store())).record(took);
            if let Some(kind) = error {
                let register = || counter!(names::STORE_ERRORS, "store" => store(), "kind" => kind.as_str());
                metrics.errors.get(kind, register).increment(1);
            }
        });
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Metrics {
    #[inline]
    fn observe(&self, event: Event<'_>) {
        match event {
            Event::Decided { limit, decision } => self.decided(limit, decision),
            Event::FellBack { limit, reason, decision } => self.fell_back(limit, reason, decision.source()),
            Event::Failed { limit, error } => self.failed(limit, error.kind()),
            Event::BreakerChanged { store, state } => self.breaker_changed(store, state),
            Event::Reconciled { store, keys, lost } => self.reconciled(store, keys, lost),
            Event::Synchronized { keys, took, debt, stale_for, error } => {
                self.sync_round.get_or_init(|| histogram!(names::SYNC_ROUND)).record(took);
                self.synced_keys.get_or_init(|| counter!(names::SYNCED_KEYS)).increment(keys as u64);
                #[expect(clippy::cast_precision_loss, reason = "a gauge")]
                self.sync_debt.get_or_init(|| gauge!(names::SYNC_DEBT)).set(debt as f64);
                self.sync_stale.get_or_init(|| gauge!(names::SYNC_STALE)).set(stale_for);
                if let Some(kind) = error.map(StoreError::kind) {
                    let register = || counter!(names::SYNC_ERRORS, "kind" => kind.as_str());
                    self.sync_errors.get(kind, register).increment(1);
                }
            }
            Event::StoreCalled { store, took, error } => {
                self.store_called(store, took, error.map(StoreError::kind));
            }
            Event::ServerMisconfigured { .. } => {
                self.misconfigured_servers
                    .get_or_init(|| counter!(names::MISCONFIGURED_SERVERS))
                    .increment(1);
            }
            Event::RulesLoaded { source, documents, digest: _ } => self.rules.loaded(source, documents),
            Event::RulesRejected { source, problem: _ } => self.rules.rejected(source),
            Event::RulesPolled { source, stale_for, error } => {
                self.rules.polled(source, stale_for, error.map(StoreError::kind));
            }
            Event::PlanUnavailable { error } => {
                let kind = error.kind();
                let register = || counter!(names::PLAN_ERRORS, "kind" => kind.as_str());
                self.plan_errors.get(kind, register).increment(1);
            }
            // Events that are newer than this crate.
            _ => {}
        }
    }
}
