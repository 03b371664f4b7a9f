//! The steps of random traces: pauses and operations, relative to the parameters of a limit.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::{Action, Charge, Limit};

use super::trace::{nanos, period};

/// One operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Take(u32),
    Reserve(u32, Duration),
    TakeUpTo(u32),
    Debit(u32),
    Refund(u32),
    Reset,
}

impl Operation {
    pub(crate) fn charge(self, limit: &Limit) -> Charge<'_> {
        let (cost, action) = match self {
            Self::Take(cost) => (cost, Action::Take { max_wait: None }),
            Self::Reserve(cost, wait) => (cost, Action::Take { max_wait: Some(wait) }),
            Self::TakeUpTo(cost) => (cost, Action::TakeUpTo),
            Self::Debit(cost) => (cost, Action::Debit { at: None }),
            Self::Refund(cost) => (cost, Action::Refund { at: None }),
            Self::Reset => (0, Action::Reset),
        };
        limit.charge("k").with_cost(cost).with_action(action)
    }

    /// Returns the cost and the maximum wait, in nanoseconds, of a take. `None` for an operation that is no take.
    pub(crate) fn as_take(self) -> Option<(u32, u64)> {
        match self {
            Self::Take(cost) | Self::TakeUpTo(cost) => Some((cost, 0)),
            Self::Reserve(cost, max_wait) => Some((cost, nanos(max_wait))),
            Self::Debit(_) | Self::Refund(_) | Self::Reset => None,
        }
    }

    pub(crate) fn is_take(self) -> bool {
        self.as_take().is_some()
    }
}

/// A step of a trace. Its amounts are relative to the parameters of a limit, so that traces hit boundaries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(super) pause: Pause,
    kind: OperationKind,
    cost: Cost,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Pause {
    None,
    Nanos(u64),
    /// Around a multiple of the time of one token.
    Intervals(u64, i64),
    /// Around a multiple of the period.
    Periods(u64, i64),
    /// Thousandths of the period.
    PartOfPeriod(u64),
    /// Around the next multiple of the period (or a fraction of it) on the clock.
    Boundary(u64, i64),
    /// Around the instant at which the last denied charge can be retried.
    Retry(i64),
    /// Around the instant at which the state is fresh, according to the last decision.
    Reset(i64),
}

#[derive(Clone, Copy, Debug)]
enum OperationKind {
    Take,
    /// With a maximum wait in hundredths of a period.
    Reserve(u32),
    /// With a maximum wait in multiples of the time of one token.
    ReserveIntervals(u32),
    TakeUpTo,
    Debit,
    Refund,
    Reset,
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Few(u32),
    AroundCapacity(i64),
    /// Thousandths of the capacity.
    Part(u32),
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step =
        (pauses(), operation_kinds(), costs()).prop_map(|(pause, kind, cost)| Step { pause, kind, cost });
    vec(step, 1..=most)
}

fn pauses() -> impl Strategy<Value = Pause> {
    let off = || -1..=1_i64;
    prop_oneof![
        4 => Just(Pause::None),
        2 => (1..4_u64).prop_map(Pause::Nanos),
        3 => (1..4_u64, off()).prop_map(|(times, off)| Pause::Intervals(times, off)),
        2 => (1..3_u64, off()).prop_map(|(times, off)| Pause::Periods(times, off)),
        1 => (5..12_u64).prop_map(|times| Pause::Periods(times, 0)),
        4 => (1..1500_u64).prop_map(Pause::PartOfPeriod),
        2 => (1..4_u64, off()).prop_map(|(part, off)| Pause::Boundary(part, off)),
        3 => off().prop_map(Pause::Retry),
        2 => off().prop_map(Pause::Reset),
    ]
}

fn operation_kinds() -> impl Strategy<Value = OperationKind> {
    prop_oneof![
        16 => Just(OperationKind::Take),
        4 => (0..150_u32).prop_map(OperationKind::Reserve),
        4 => (0..4_u32).prop_map(OperationKind::ReserveIntervals),
        4 => Just(OperationKind::TakeUpTo),
        3 => Just(OperationKind::Debit),
        3 => Just(OperationKind::Refund),
        1 => Just(OperationKind::Reset),
    ]
}

fn costs() -> impl Strategy<Value = Cost> {
    prop_oneof![
        5 => (0..4_u32).prop_map(Cost::Few),
        2 => (-2..=2_i64).prop_map(Cost::AroundCapacity),
        2 => (0..1000_u32).prop_map(Cost::Part),
    ]
}

impl Cost {
    fn of(self, limit: &Limit) -> u32 {
        let capacity = limit.capacity();
        match self {
            Self::Few(cost) => cost,
            Self::AroundCapacity(off) => {
                u32::try_from((i64::from(capacity) + off).max(0)).unwrap_or(u32::MAX)
            }
            Self::Part(part) => u32::try_from(u64::from(capacity) * u64::from(part) / 1000).unwrap_or(0),
        }
    }
}

/// What the last decision reported, for pauses that aim at it.
#[derive(Clone, Copy, Default)]
pub(super) struct Reported {
    pub(super) retry_at: u64,
    pub(super) reset_at: u64,
}

impl Pause {
    pub(super) fn end(self, limit: &Limit, now: u64, reported: Reported) -> u64 {
        let period = period(limit);
        let interval = (period / u64::from(limit.count())).max(1);
        let target = match self {
            Self::None => now,
            Self::Nanos(nanos) => now + nanos,
            Self::Intervals(times, off) => (now + times * interval).saturating_add_signed(off),
            Self::Periods(times, off) => (now + times * period).saturating_add_signed(off),
            Self::PartOfPeriod(part) => now + period / 1000 * part + period % 1000 * part / 1000,
            Self::Boundary(part, off) => {
                let grid = (period / part).max(1);
                ((now / grid + 1) * grid).saturating_add_signed(off)
            }
            Self::Retry(off) => reported.retry_at.saturating_add_signed(off),
            Self::Reset(off) => reported.reset_at.saturating_add_signed(off),
        };
        target.max(now)
    }
}

impl Step {
    /// Returns the same step with a take instead of a refund.
    pub(crate) fn without_refund(self) -> Self {
        let kind = if matches!(self.kind, OperationKind::Refund) { OperationKind::Take } else { self.kind };
        Self { kind, ..self }
    }

    pub(super) fn operation(self, limit: &Limit, in_debt: bool) -> Operation {
        let cost = self.cost.of(limit);
        let reserve = |max_wait: u64| {
            if limit.kind().reserves() {
                Operation::Reserve(cost, Duration::from_nanos(max_wait))
            } else {
                Operation::Take(cost)
            }
        };
        match self.kind {
            OperationKind::Reserve(part) if !in_debt => reserve(period(limit) / 100 * u64::from(part)),
            OperationKind::ReserveIntervals(times) if !in_debt => {
                reserve(period(limit) / u64::from(limit.count()) * u64::from(times))
            }
            OperationKind::Debit if !in_debt => Operation::Debit(cost),
            OperationKind::Take
            | OperationKind::Reserve(_)
            | OperationKind::ReserveIntervals(_)
            | OperationKind::Debit => Operation::Take(cost),
            OperationKind::TakeUpTo => Operation::TakeUpTo(cost),
            OperationKind::Refund => Operation::Refund(cost),
            OperationKind::Reset => Operation::Reset,
        }
    }
}
