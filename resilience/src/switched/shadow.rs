//! Limits that are only watched: what they would have done, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::RawDecision;
use tollgate_core::{Charge, Decision, Source};

/// What a limit would have done since it was switched to shadow.
///
/// Counted are charges that take or renew; those that only look are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowReport {
    /// How many the store answered.
    pub evaluated: u64,
    /// How many of these would have been denied.
    pub would_deny: u64,
    /// How many of these would have passed later, or in part.
    pub would_curb: u64,
    /// How many the store could not answer, because it failed or because the algorithm cannot do that.
    pub failed: u64,
}

/// The counters of a limit that is watched.
#[derive(Debug, Default)]
pub(super) struct Watch {
    evaluated: AtomicU64,
    would_deny: AtomicU64,
    would_curb: AtomicU64,
    failed: AtomicU64,
}

impl Watch {
    /// What the caller of a watched charge is told, whatever the store answered, if it did.
    pub(super) fn told(&self, charge: &Charge<'_>, answer: Option<Decision>) -> Decision {
        let told = match &answer {
            Some(decision) => decision.raw().shadowed(charge).into(),
            None => RawDecision::allow(charge, Source::Switch).into(),
        };
        if !charge.is_peek() {
            self.count(answer, told);
        }
        told
    }

    fn count(&self, answer: Option<Decision>, told: Decision) {
        let one_more = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let Some(answer) = answer else {
            one_more(&self.failed);
            return;
        };
        one_more(&self.evaluated);
        if answer.is_denied() {
            one_more(&self.would_deny);
        } else if told.is_shadowed() {
            one_more(&self.would_curb);
        }
    }

    pub(super) fn report(&self) -> ShadowReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShadowReport {
            evaluated: read(&self.evaluated),
            would_deny: read(&self.would_deny),
            would_curb: read(&self.would_curb),
            failed: read(&self.failed),
        }
    }
}
