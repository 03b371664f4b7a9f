//! Shadow mode: what limits would have denied, counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::RawDecision;
use tollgate_core::{Charge, Decision, Source};

/// What a [`Switched`](crate::Switched) store has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SwitchedStats {
    /// The limits in shadow mode, by name.
    pub shadow: BTreeMap<String, ShadowStats>,
}

/// What a limit would have done since it was switched to shadow mode.
///
/// Takes and renewals are counted; peeks are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowStats {
    /// Charges that the store decided.
    pub evaluated: u64,
    /// Evaluated charges that the limit would have denied.
    pub would_deny: u64,
    /// Evaluated charges that the limit would have delayed, or granted only in part.
    pub would_delay_or_reduce: u64,
    /// Charges that the store did not decide: it failed, or the algorithm does not support the action.
    pub failed: u64,
}

/// The counters of a limit in shadow mode.
#[derive(Debug, Default)]
pub(super) struct ShadowCounters {
    evaluated: AtomicU64,
    would_deny: AtomicU64,
    would_delay_or_reduce: AtomicU64,
    failed: AtomicU64,
}

impl ShadowCounters {
    /// Counts the store's decision, and returns the decision for the caller. `None` if the store did not decide.
    pub(super) fn shadow(&self, charge: &Charge<'_>, decision: Option<Decision>) -> Decision {
        let shadowed = match &decision {
            Some(decision) => decision.shadowed(charge),
            None => RawDecision::allow(charge, Source::Switch).into(),
        };
        if !charge.is_peek() {
            self.count(decision, shadowed);
        }
        shadowed
    }

    fn count(&self, decision: Option<Decision>, shadowed: Decision) {
        let increment = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let Some(decision) = decision else {
            increment(&self.failed);
            return;
        };
        increment(&self.evaluated);
        if decision.is_denied() {
            increment(&self.would_deny);
        } else if shadowed.is_shadowed() {
            increment(&self.would_delay_or_reduce);
        }
    }

    pub(super) fn read(&self) -> ShadowStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ShadowStats {
            evaluated: read(&self.evaluated),
            would_deny: read(&self.would_deny),
            would_delay_or_reduce: read(&self.would_delay_or_reduce),
            failed: read(&self.failed),
        }
    }
}
