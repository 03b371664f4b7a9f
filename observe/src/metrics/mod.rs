//! Events as metrics, through the `metrics` facade.

mod names;

use std::sync::{Mutex, OnceLock, PoisonError};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tollgate_core::{BreakerState, Decision, ErrorKind, Event, FallbackReason, Observer, Outcome, Source};

use crate::chain::Chain;
use crate::limits::{Label, MAX_LIMITS, PerLimit};

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
    breaker: Mutex<Option<[(BreakerState, Gauge); 3]>>,
    breaker_changes: Chain<BreakerState, Counter>,
    reconciliations: OnceLock<Counter>,
    reconciled_keys: OnceLock<Counter>,
    reconciliation_lost: OnceLock<Counter>,
    sync_round: OnceLock<Histogram>,
    synced_keys: OnceLock<Counter>,
    sync_errors: Chain<ErrorKind, Counter>,
    sync_debt: OnceLock<Gauge>,
    sync_stale: OnceLock<Gauge>,
    store_call: OnceLock<Histogram>,
    store_errors: Chain<ErrorKind, Counter>,
    misconfigured_servers: OnceLock<Counter>,
}

/// The counters of one limit.
#[derive(Debug, Default)]
struct LimitCounters {
    decisions: Chain<(Outcome, Source), Counter>,
    fallbacks: Chain<(FallbackReason, Source), Counter>,
}

impl Metrics {
    /// Creates metrics with a label of its own for each of the first [`MAX_LIMITS`] limits.
    pub fn new() -> Self {
        names::describe();
        Self {
            limits: PerLimit::new(MAX_LIMITS),
            label_overflow: OnceLock::new(),
            breaker: Mutex::default(),
            breaker_changes: Chain::default(),
            reconciliations: OnceLock::new(),
            reconciled_keys: OnceLock::new(),
            reconciliation_lost: OnceLock::new(),
            sync_round: OnceLock::new(),
            synced_keys: OnceLock::new(),
            sync_errors: Chain::default(),
            sync_debt: OnceLock::new(),
            sync_stale: OnceLock::new(),
            store_call: OnceLock::new(),
            store_errors: Chain::default(),
            misconfigured_servers: OnceLock::new(),
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

    fn breaker_changed(&self, new: BreakerState) {
        let register = || counter!(names::BREAKER_CHANGES, "state" => new.as_str());
        self.breaker_changes.get(new, register).increment(1);
        // Locked, so that two changes at once do not leave two states set. Changes are rare.
        let mut gauges = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let gauges = gauges.get_or_insert_with(|| {
            [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen]
                .map(|state| (state, gauge!(names::BREAKER_STATE, "state" => state.as_str())))
        });
        for (state, gauge) in gauges {
            gauge.set(f64::from(u8::from(*state == new)));
        }
    }

    fn reconciled(&self, keys: usize, lost: u64) {
        self.reconciliations.get_or_init(|| counter!(names::RECONCILIATIONS)).increment(1);
        self.reconciled_keys.get_or_init(|| counter!(names::RECONCILED_KEYS)).increment(keys as u64);
        self.reconciliation_lost.get_or_init(|| counter!(names::RECONCILIATION_LOST)).increment(lost);
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
            Event::BreakerChanged { state } => self.breaker_changed(state),
            Event::Reconciled { keys, lost } => self.reconciled(keys, lost),
            Event::Synchronized { keys, took, debt, stale_for, error } => {
                self.sync_round.get_or_init(|| histogram!(names::SYNC_ROUND)).record(took);
                self.synced_keys.get_or_init(|| counter!(names::SYNCED_KEYS)).increment(keys as u64);
                #[expect(clippy::cast_precision_loss, reason = "a gauge")]
                self.sync_debt.get_or_init(|| gauge!(names::SYNC_DEBT)).set(debt as f64);
                self.sync_stale.get_or_init(|| gauge!(names::SYNC_STALE)).set(stale_for);
                if let Some(kind) = error.map(tollgate_core::StoreError::kind) {
                    let register = || counter!(names::SYNC_ERRORS, "kind" => kind.as_str());
                    self.sync_errors.get(kind, register).increment(1);
                }
            }
            Event::StoreCalled { took, error } => {
                self.store_call.get_or_init(|| histogram!(names::STORE_CALL)).record(took);
                if let Some(kind) = error.map(tollgate_core::StoreError::kind) {
                    let register = || counter!(names::STORE_ERRORS, "kind" => kind.as_str());
                    self.store_errors.get(kind, register).increment(1);
                }
            }
            Event::ServerMisconfigured { .. } => {
                self.misconfigured_servers
                    .get_or_init(|| counter!(names::MISCONFIGURED_SERVERS))
                    .increment(1);
            }
            // Events that are newer than this crate.
            _ => {}
        }
    }
}
