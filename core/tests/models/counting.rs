//! Models that count whole tokens: fixed windows and the sliding algorithms.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{Decision, Outcome};

use super::trace::{Model, Operation};

/// The parts of a decision that a counting model predicts exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) granted: u64,
    /// Below zero is debt.
    pub(crate) left: i128,
}

impl Answer {
    pub(crate) fn of(decision: &Decision) -> Self {
        Self {
            outcome: decision.outcome(),
            granted: decision.granted().into(),
            left: i128::from(decision.remaining()) - i128::from(decision.debt()),
        }
    }
}

/// A model that counts whole tokens, so that its answers are exact, and that cannot reserve.
pub(crate) trait Counting {
    fn capacity(&self) -> u64;
    /// Moves the time to `now`.
    fn advance(&mut self, now: u64);
    /// Returns how much counts against the capacity now.
    fn used(&self) -> u64;
    /// Returns whether something other than the count delays a take.
    fn is_delayed(&self) -> bool {
        false
    }
    fn add(&mut self, cost: u64);
    /// Refunds up to `cost`. Returns how much it refunded.
    fn refund(&mut self, cost: u64) -> u64;
    fn reset(&mut self);
    /// Counts a denied take, if denied takes count.
    fn count_denial(&mut self, _cost: u64) {}
}

/// Applies an operation to a counting model: the common rules of takes, debits and refunds.
fn apply(model: &mut impl Counting, now: u64, operation: Operation) -> Answer {
    model.advance(now);
    let capacity = model.capacity();
    let available = capacity.saturating_sub(model.used());
    let (outcome, granted) = match operation {
        Operation::Take(cost) | Operation::Reserve(cost, _) if u64::from(cost) > capacity => {
            (Outcome::NeverFits, 0)
        }
        Operation::Take(cost) | Operation::Reserve(cost, _) => {
            let passes = u64::from(cost.max(1)) <= available && !model.is_delayed();
            if passes { (Outcome::Allowed, cost.into()) } else { (Outcome::Denied, 0) }
        }
        Operation::TakeUpTo(cost) => {
            let passes = available > 0 && !model.is_delayed();
            if passes { (Outcome::Allowed, u64::from(cost).min(available)) } else { (Outcome::Denied, 0) }
        }
        Operation::Debit(cost) => (Outcome::Allowed, cost.into()),
        Operation::Refund(cost) => (Outcome::Allowed, model.refund(cost.into())),
        Operation::Reset => {
            model.reset();
            (Outcome::Allowed, 0)
        }
    };
    match operation {
        Operation::Take(cost) | Operation::Reserve(cost, _) | Operation::TakeUpTo(cost)
            if outcome == Outcome::Denied && cost > 0 =>
        {
            model.count_denial(cost.into());
        }
        Operation::Take(_) | Operation::Reserve(..) | Operation::TakeUpTo(_) | Operation::Debit(_) => {
            if granted > 0 {
                model.add(granted);
            }
        }
        Operation::Refund(_) | Operation::Reset => {}
    }
    Answer { outcome, granted, left: i128::from(capacity) - i128::from(model.used()) }
}

impl<C: Counting> Model for C {
    fn follow(&mut self, now: u64, operation: Operation, decision: &Decision) -> TestCaseResult {
        prop_assert_eq!(Answer::of(decision), apply(self, now, operation), "decision and model");
        prop_assert_eq!(decision.start_after(), Duration::ZERO, "a counter passes now or not at all");
        Ok(())
    }
}

/// Refunds up to `cost` of the hits, in their order. Returns how much it refunded.
pub(crate) fn refund_from<'h, T: 'h>(hits: impl Iterator<Item = &'h mut (T, u64)>, cost: u64) -> u64 {
    let mut refunded = 0;
    for (_, left) in hits {
        let part = (cost - refunded).min(*left);
        *left -= part;
        refunded += part;
    }
    refunded
}
