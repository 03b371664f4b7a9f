//! What a failed trial prints: the charges, the time, what the store decided and what was expected.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::store::{Export, RunVerdict};
use tollgate_core::{Charge, Decision, Time};

use crate::fixture::{peek_at, peek_of};
use crate::pure::Pure;

/// How many calls are shown.
const SHOWN_CALLS: usize = 6;
/// How many characters of an entity are shown.
const SHOWN_ENTITY: usize = 24;

/// Shows a charge with its limit's parameters, without those that only an implementation needs.
pub(crate) struct Shown<'a>(pub(crate) &'a Charge<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(charge) = self;
        let (limit, entity) = (charge.limit(), String::from_utf8_lossy(charge.key().entity()));
        let entity: String = entity.chars().take(SHOWN_ENTITY).collect();
        write!(f, "{:?}, cost {}, of {entity:?} under `{}` (", charge.action(), charge.cost(), limit.name())?;
        write!(f, "{}, {} per {:?}, ", limit.kind().name(), limit.count(), limit.period())?;
        write!(f, "capacity {}", limit.capacity())?;
        if let Some(block) = limit.block_time() {
            write!(f, ", blocks for {block:?}")?;
        }
        write!(f, "), lease {}", charge.lease().get())
    }
}

/// Asserts that the store decided as expected, charge by charge.
pub(crate) fn assert_decided(
    decided: &[Decision],
    expected: &[Decision],
    charges: &[Charge<'_>],
    now: Time,
    context: &str,
) {
    assert_eq!(decided.len(), charges.len(), "{context}: the number of decisions is not that of charges");
    let different = decided.iter().zip(expected).position(|(decided, expected)| decided != expected);
    let Some(index) = different else { return };
    panic!(
        "{context}: at {now}, charge {} of {}: {}\n  decided by the store: {:?}\n  expected:             {:?}",
        index + 1,
        charges.len(),
        Shown(&charges[index]),
        decided[index],
        expected[index],
    );
}

/// Asserts that every request of a run was decided as expected.
pub(crate) fn assert_run_decided(
    decided: &RunVerdict,
    charges: &[Charge<'_>],
    count: u32,
    pure: &mut Pure,
    now: Time,
) {
    let verdicts = decided.verdicts();
    assert_eq!(verdicts.len(), count as usize, "the number of verdicts is not that of requests in the run");
    for (index, verdict) in verdicts.iter().enumerate() {
        let expected = pure.decide(charges, now);
        let context = format!("request {} of a run of {count}", index + 1);
        assert_decided(verdict.decisions(), expected.decisions(), charges, now, &context);
        assert!(
            *verdict == expected,
            "the store says decided at {}, expected {}",
            verdict.decided_at(),
            expected.decided_at()
        );
    }
}

/// Asserts that by an exported state, a peek is decided as expected.
pub(crate) fn assert_exported(
    charge: &Charge<'_>,
    export: &Export,
    pure: &mut Pure,
    now: Time,
    context: &str,
) {
    let (peek, by_export) = (peek_of(charge), peek_at(charge, export));
    let expected = pure.decide(&[peek], now);
    let context = format!("{context}: a peek by the state that the store returned");
    assert_decided(&[by_export], expected.decisions(), &[peek], now, &context);
}

/// The last calls of a trial. A failed trial prints them, whichever assertion failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentCalls(Arc<Mutex<VecDeque<String>>>);

impl RecentCalls {
    pub(crate) fn add(&self, method: &str, charges: &[Charge<'_>], now: Time, result: &dyn fmt::Debug) {
        let mut lines = vec![format!("at {now}, {method}")];
        lines.extend(charges.iter().map(|charge| Shown(charge).to_string()));
        lines.push(format!("returned {result:?}"));
        let call = lines.join("\n    ");
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.len() == SHOWN_CALLS {
            calls.pop_front();
        }
        calls.push_back(call);
    }
}

impl fmt::Display for RecentCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.is_empty() {
            return Ok(());
        }
        write!(f, "\nthe last calls of the store, the latest last:")?;
        calls.iter().try_for_each(|call| write!(f, "\n  {call}"))
    }
}
