//! Arithmetic that the algorithms share: balances in whole tokens, and conversions that saturate.

use crate::decision::{Decision, Outcome, RawDecision, Source};
use crate::time::Time;

/// The balance of a key after a decision, in whole tokens.
pub(super) struct Balance {
    capacity: u32,
    /// Below zero is debt.
    left: i64,
    /// Nanoseconds until the state equals a fresh one.
    reset: u64,
}

impl Balance {
    #[inline]
    pub(super) fn left(capacity: u32, left: u64, reset: u64) -> Self {
        Self { capacity, left: signed(left), reset }
    }

    #[inline]
    pub(super) fn used(capacity: u32, used: u64, reset: u64) -> Self {
        Self { capacity, left: i64::from(capacity).saturating_sub_unsigned(used), reset }
    }

    /// Returns the decision that reports this balance.
    #[inline]
    pub(super) fn decision(self, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let Self { capacity: limit, left, reset } = self;
        RawDecision { outcome, source: Source::Store, granted, limit, left, unit: 1, wait, reset }.into()
    }
}

/// Returns the cost that a take-up-to of at most `cost` debits while `available` tokens are left.
///
/// If none is left, that is 1: the take is denied, and its decision says when a retry can succeed. A peek remains a
/// peek.
#[inline]
pub(super) fn take_up_to_cost(cost: u32, available: u64) -> u32 {
    cost.min(saturate(available)).max(cost.min(1))
}

/// Returns the nanoseconds from `now` until `instant`; zero if it has passed.
#[inline]
pub(super) fn nanos_until(instant: u64, now: Time) -> u64 {
    instant.saturating_sub(now.nanos())
}

#[inline]
pub(super) fn saturate(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}

#[inline]
pub(super) fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
