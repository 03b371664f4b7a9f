//! The fast path of flows: a take that passes now or not at all, from a bucket whose unit is a nanosecond.

use super::Flow;
use crate::charge::Charge;
use crate::decision::{Decision, Outcome, RawDecision, Source};
use crate::time::Time;

/// The result of [`Flow::take`], before it becomes a [`Decision`].
#[derive(Clone, Copy, Debug)]
pub struct PlainTake {
    now: u64,
    /// The TAT without this take; not earlier than now.
    tat: u64,
    /// The TAT with this take.
    next_tat: u64,
    /// The latest TAT that the capacity allows.
    max_tat: u64,
}

impl PlainTake {
    /// Returns the new theoretical arrival time if the take is allowed. A denied take does not change the state.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        (self.next_tat <= self.max_tat).then_some(Time::from_nanos(self.next_tat))
    }

    /// Returns the decision. `flow` and `cost` are those of the take.
    #[inline]
    pub fn answer(&self, flow: &Flow, cost: u32) -> Decision {
        let (outcome, granted, tat, wait) = if self.next_tat <= self.max_tat {
            (Outcome::Allowed, cost, self.next_tat, 0)
        } else {
            (Outcome::Denied, 0, self.tat, self.next_tat - self.max_tat)
        };
        RawDecision {
            outcome,
            source: Source::Store,
            granted,
            limit: flow.capacity,
            left: self.max_tat.cast_signed() - tat.cast_signed(),
            unit: flow.rate.token(),
            wait,
            reset: tat - self.now,
        }
        .into()
    }
}

impl Flow {
    /// Returns whether a charge is a plain take: a take without a wait, of a cost that fits, from a bucket whose unit
    /// is a nanosecond. Nearly all charges are.
    ///
    /// For a plain take and a state under the same parameters, [`take`](Self::take) followed by
    /// [`answer`](PlainTake::answer) returns the same decision as [`apply`](Self::apply).
    #[inline]
    pub fn is_plain(&self, charge: &Charge<'_>) -> bool {
        self.plain
            && charge.operation.action.is_plain_take()
            && charge.operation.cost.wrapping_sub(1) < self.capacity
    }

    /// Takes `cost` from a plain bucket whose theoretical arrival time is `at`.
    ///
    /// The decision is computed later, by [`PlainTake::answer`]: the shorter the time between reading a state and
    /// replacing it, the fewer threads collide.
    #[inline]
    pub fn take(&self, at: Time, now: Time, cost: u32) -> PlainTake {
        let tat = at.max(now).nanos();
        // Cannot overflow: an instant and two fill times are less than half of a word.
        let next_tat = (tat + self.rate.token() * u64::from(cost)).min(Time::MAX.nanos());
        PlainTake { now: now.nanos(), tat, next_tat, max_tat: now.nanos() + self.capacity_units }
    }
}
