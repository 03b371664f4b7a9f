//! Events as metrics, for whatever exporter listens behind the `metrics` facade.

mod names;

use std::sync::{Mutex, OnceLock, PoisonError};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tollgate_core::{BreakerState, Decision, ErrorKind, Event, FallbackReason, Observer, Outcome, Source};

use crate::chain::Chain;
use crate::limits::{Label, Limits, MOST_LIMITS};

/// Counts and times what happens. The [crate's page](crate#metrics) lists the metrics.
///
/// Make it after the exporter's recorder was installed: the metrics are described to the recorder that is there when
/// this is made, and each is registered with the recorder that is there when the metric is first needed, and stays
/// with it. What happens while there is no recorder is not counted, then or later.
///
/// A decision of a limit that is known costs one look-up by name and one increment. It takes no lock and allocates
/// nothing, unless the recorder does.
#[derive(Debug)]
pub struct Metrics {
    // Each is registered when it is first needed.
    limits: Limits<OfLimit>,
    folded: OnceLock<Counter>,
    breaker: Mutex<Option<[(BreakerState, Gauge); 3]>>,
    breaker_changes: Chain<BreakerState, Counter>,
    handovers: OnceLock<Counter>,
    handed_over_keys: OnceLock<Counter>,
    handover_lost: OnceLock<Counter>,
    exchange: OnceLock<Histogram>,
    exchanged_keys: OnceLock<Counter>,
    exchange_errors: Chain<ErrorKind, Counter>,
    exchange_debt: OnceLock<Gauge>,
    exchange_silence: OnceLock<Gauge>,
    store_call: OnceLock<Histogram>,
    store_errors: Chain<ErrorKind, Counter>,
}

/// What is counted for each limit.
#[derive(Debug, Default)]
struct OfLimit {
    decisions: Chain<(Outcome, Source), Counter>,
    fallbacks: Chain<(FallbackReason, Source), Counter>,
}

impl Metrics {
    /// Tells up to [`MOST_LIMITS`] limits apart.
    pub fn new() -> Self {
        names::describe();
        Self {
            limits: Limits::new(MOST_LIMITS),
            folded: OnceLock::new(),
            breaker: Mutex::default(),
            breaker_changes: Chain::default(),
            handovers: OnceLock::new(),
            handed_over_keys: OnceLock::new(),
            handover_lost: OnceLock::new(),
            exchange: OnceLock::new(),
            exchanged_keys: OnceLock::new(),
            exchange_errors: Chain::default(),
            exchange_debt: OnceLock::new(),
            exchange_silence: OnceLock::new(),
            store_call: OnceLock::new(),
            store_errors: Chain::default(),
        }
    }

    /// Tells up to `limits` limits apart: the first that something happens to. The rest share the label
    /// [`OTHER`](crate::OTHER).
    #[must_use]
    pub fn most_limits(mut self, limits: usize) -> Self {
        self.limits = Limits::new(limits);
        self
    }

    #[inline]
    fn decided(&self, limit: &str, decision: &Decision) {
        let (outcome, source) = (decision.outcome(), decision.source());
        self.limits.with(limit, |label, of_limit| {
            let register = || {
                let (limit, outcome, source) = (label.as_str().to_owned(), outcome.as_str(), source.as_str());
                counter!(names::DECISIONS, "limit" => limit, "outcome" => outcome, "source" => source)
            };
            of_limit.decisions.get((outcome, source), register).increment(1);
            self.note_folding(label);
        });
    }

    fn fell_back(&self, limit: &str, reason: FallbackReason, source: Source) {
        self.limits.with(limit, |label, of_limit| {
            let register = || {
                let (limit, reason, source) = (label.as_str().to_owned(), reason.as_str(), source.as_str());
                counter!(names::FALLBACKS, "limit" => limit, "reason" => reason, "source" => source)
            };
            of_limit.fallbacks.get((reason, source), register).increment(1);
            self.note_folding(label);
        });
    }

    #[inline]
    fn note_folding(&self, label: Label<'_>) {
        if label == Label::Shared {
            self.folded.get_or_init(|| counter!(names::FOLDED)).increment(1);
        }
    }

    fn breaker_changed(&self, now: BreakerState) {
        let register = || counter!(names::BREAKER_CHANGES, "state" => now.as_str());
        self.breaker_changes.get(now, register).increment(1);
        // Locked, so that two changes at once do not leave two states behind. Changes are rare.
        let mut gauges = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let gauges = gauges.get_or_insert_with(|| {
            [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen]
                .map(|state| (state, gauge!(names::BREAKER_STATE, "state" => state.as_str())))
        });
        for (state, gauge) in gauges {
            gauge.set(f64::from(u8::from(*state == now)));
        }
    }

    fn handed_over(&self, keys: usize, lost: u64) {
        self.handovers.get_or_init(|| counter!(names::HANDOVERS)).increment(1);
        self.handed_over_keys.get_or_init(|| counter!(names::HANDED_OVER_KEYS)).increment(keys as u64);
        self.handover_lost.get_or_init(|| counter!(names::HANDOVER_LOST)).increment(lost);
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
            Event::Reconciled { keys, lost } => self.handed_over(keys, lost),
            Event::Synchronized { keys, took, debt, stale_for: silent, error } => {
                self.exchange.get_or_init(|| histogram!(names::EXCHANGE)).record(took);
                self.exchanged_keys.get_or_init(|| counter!(names::EXCHANGED_KEYS)).increment(keys as u64);
                #[expect(clippy::cast_precision_loss, reason = "a gauge")]
                self.exchange_debt.get_or_init(|| gauge!(names::EXCHANGE_DEBT)).set(debt as f64);
                self.exchange_silence.get_or_init(|| gauge!(names::EXCHANGE_SILENCE)).set(silent);
                if let Some(kind) = error.map(tollgate_core::StoreError::kind) {
                    let register = || counter!(names::EXCHANGE_ERRORS, "kind" => kind.as_str());
                    self.exchange_errors.get(kind, register).increment(1);
                }
            }
            Event::StoreCalled { took, error } => {
                self.store_call.get_or_init(|| histogram!(names::STORE_CALL)).record(took);
                if let Some(kind) = error.map(tollgate_core::StoreError::kind) {
                    let register = || counter!(names::STORE_ERRORS, "kind" => kind.as_str());
                    self.store_errors.get(kind, register).increment(1);
                }
            }
            // Events that are newer than this crate.
            _ => {}
        }
    }
}
