//! Metrics of sources of rules.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};
use tollgate_core::ErrorKind;

use super::names;
use crate::chain::Chain;
use crate::limits::{Label, MAX_LIMITS, PerLimit};

/// The metrics of all sources of rules. Bounded like limits, although these names come from the program.
#[derive(Debug)]
pub(super) struct RulesMetrics {
    sources: PerLimit<SourceMetrics>,
}

/// The metrics of one source.
#[derive(Debug, Default)]
struct SourceMetrics {
    loads: OnceLock<Counter>,
    documents: OnceLock<Gauge>,
    rejections: OnceLock<Counter>,
    is_rejected: OnceLock<Gauge>,
    stale: OnceLock<Gauge>,
    errors: Chain<ErrorKind, Counter>,
}

impl SourceMetrics {
    fn set_rejected(&self, label: Label<'_>, is_rejected: bool) {
        let register = || gauge!(names::RULES_REJECTED, "source" => label.as_str().to_owned());
        self.is_rejected.get_or_init(register).set(f64::from(u8::from(is_rejected)));
    }
}

impl RulesMetrics {
    pub(super) fn new() -> Self {
        Self { sources: PerLimit::new(MAX_LIMITS) }
    }

    pub(super) fn loaded(&self, source: &str, documents: usize) {
        self.sources.with(source, |label, metrics| {
            let source = || label.as_str().to_owned();
            metrics.loads.get_or_init(|| counter!(names::RULES_LOADS, "source" => source())).increment(1);
            let register = || gauge!(names::RULES_DOCUMENTS, "source" => source());
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics.documents.get_or_init(register).set(documents as f64);
            metrics.set_rejected(label, false);
        });
    }

    pub(super) fn rejected(&self, source: &str) {
        self.sources.with(source, |label, metrics| {
            let register = || counter!(names::RULES_REJECTIONS, "source" => label.as_str().to_owned());
            metrics.rejections.get_or_init(register).increment(1);
            metrics.set_rejected(label, true);
        });
    }

    pub(super) fn polled(&self, source: &str, stale_for: Duration, error: Option<ErrorKind>) {
        self.sources.with(source, |label, metrics| {
            let source = || label.as_str().to_owned();
            let register = || gauge!(names::RULES_STALE, "source" => source());
            metrics.stale.get_or_init(register).set(stale_for);
            if let Some(kind) = error {
                let register =
                    || counter!(names::RULES_POLL_ERRORS, "source" => source(), "kind" => kind.as_str());
                metrics.errors.get(kind, register).increment(1);
            }
        });
    }
}
