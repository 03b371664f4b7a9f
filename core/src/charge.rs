//! Charges, and the requests they form.

use alloc::format;
use core::time::Duration;

use crate::algorithm::AlgorithmKind;
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::time::{Time, nanos};

/// What a charge does to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Debits the cost if there is room for all of it. Without `max_wait` it passes now or not at all (a queue always
    /// returns when to start). With it, it also passes if it becomes due within that time: it is debited at once, and
    /// the decision says when to start. A cost of 0 is a peek, and is answered as a cost of 1 would be.
    Take {
        /// How long the caller would wait for its start.
        max_wait: Option<Duration>,
    },
    /// Debits as much as there is, at most the cost, in one step.
    TakeUpTo,
    /// Debits the cost unconditionally; the balance may go below zero and is repaid over time.
    Debit {
        /// The instant it belongs to. Default: now.
        at: Option<Time>,
    },
    /// Refunds the cost.
    Refund {
        /// The instant the debit belongs to. Default: now. What has been refilled since, or has left its window, is
        /// not refunded again. A future instant means a reservation that has not started: it is refunded unless later
        /// reservations already wait behind it, which keep their start.
        at: Option<Time>,
    },
    /// Resets the key: its state equals a fresh one afterwards.
    Reset,
    /// Renews a lease for another lease time.
    Renew,
    /// Releases a lease.
    Release,
}

/// How [`Action`]s are written on the wire: a code, and for some of them an instant or a wait.
impl Action {
    /// Returns the code of this action in stored and sent data. Codes never change.
    pub const fn code(self) -> u8 {
        match self {
            Self::Take { .. } => 1,
            Self::TakeUpTo => 2,
            Self::Debit { .. } => 3,
            Self::Refund { .. } => 4,
            Self::Reset => 5,
            Self::Renew => 6,
            Self::Release => 7,
        }
    }

    /// Returns the nanoseconds that go with the code: the maximum wait of a take, or the instant of a debit or refund.
    pub fn nanos(self) -> Option<u64> {
        match self {
            Self::Take { max_wait } => max_wait.map(nanos),
            Self::Debit { at } | Self::Refund { at } => at.map(Time::nanos),
            Self::TakeUpTo | Self::Reset | Self::Renew | Self::Release => None,
        }
    }

    /// Returns whether this action takes only what the limit grants: a take or a take-up-to.
    #[inline]
    pub const fn is_take(self) -> bool {
        match self {
            Self::Take { .. } | Self::TakeUpTo => true,
            Self::Debit { .. } | Self::Refund { .. } | Self::Reset | Self::Renew | Self::Release => false,
        }
    }

    /// Returns whether this action is a take that passes now or not at all, which nearly all checks are.
    #[inline]
    pub const fn is_plain_take(self) -> bool {
        matches!(self, Self::Take { max_wait: None })
    }

    /// Returns whether this action can be denied: a take, a take-up-to or a renewal. All others record what happened.
    #[inline]
    pub const fn can_be_denied(self) -> bool {
        match self {
            Self::Take { .. } | Self::TakeUpTo | Self::Renew => true,
            Self::Debit { .. } | Self::Refund { .. } | Self::Reset | Self::Release => false,
        }
    }

    /// Returns the same delta with its instant mapped by `map`. An action that is not a delta is returned unchanged.
    #[must_use]
    pub fn map_instant(self, map: impl FnOnce(Option<Time>) -> Option<Time>) -> Self {
        match self {
            Self::Debit { at } => Self::Debit { at: map(at) },
            Self::Refund { at } => Self::Refund { at: map(at) },
            Self::Take { .. } | Self::TakeUpTo | Self::Reset | Self::Renew | Self::Release => self,
        }
    }

    /// Returns whether this action is a delta: a debit or a refund, which is never denied.
    #[inline]
    pub const fn is_delta(self) -> bool {
        match self {
            Self::Debit { .. } | Self::Refund { .. } => true,
            Self::Take { .. } | Self::TakeUpTo | Self::Reset | Self::Renew | Self::Release => false,
        }
    }
}

/// The id of a lease on a slot of a concurrency limit. Random, so that nobody releases somebody else's lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    // Two words instead of one of 128 bits, whose alignment would make every charge larger.
    high: u64,
    low: u64,
}

impl LeaseId {
    /// A lease that cannot be released early; its slot is freed when the lease expires. A [`Limiter`](crate::Limiter)
    /// takes no slot under it.
    pub const ANONYMOUS: Self = Self::new(0);

    /// Creates an id from random bits.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    pub const fn new(random: u128) -> Self {
        Self { high: (random >> 64) as u64, low: random as u64 }
    }

    /// Returns the bits.
    pub const fn get(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }
}

/// Identifies one mutating call, so that a call whose outcome is unknown can be repeated without being executed twice.
/// Random, or otherwise unique for as long as a store recognizes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(u128);

impl IdempotencyKey {
    /// Creates a key from random bits.
    pub const fn new(random: u128) -> Self {
        Self(random)
    }

    /// Returns the bits.
    pub const fn get(self) -> u128 {
        self.0
    }

    /// Returns the key of one part of a call that has several.
    #[must_use]
    pub const fn part(self, index: u32) -> Self {
        Self(self.0 ^ (index as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }
}

/// A key, a limit and a cost: one debit, refund or other [action](Action) on one limit.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use tollgate::Limit;
///
/// let api = Limit::per_second(50).build("api")?;
/// let charge = api.charge("user:42").with_cost(3);
/// # let _ = charge;
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) limit: &'a Limit,
    pub(crate) operation: Operation,
}

/// What a charge does to its limit, without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) cost: u32,
    pub(crate) action: Action,
    pub(crate) lease: LeaseId,
}

impl<'a> Charge<'a> {
    #[inline]
    pub(crate) fn new(limit: &'a Limit, key: Key<'a>) -> Self {
        let action = Action::Take { max_wait: None };
        Self { key, limit, operation: Operation { cost: 1, action, lease: LeaseId::ANONYMOUS } }
    }

    /// Sets the cost. Default: 1. A cost of 0 is a peek.
    #[must_use]
    #[inline]
    pub fn with_cost(mut self, cost: u32) -> Self {
        self.operation.cost = cost;
        self
    }

    /// Sets the action. Default: [`Action::Take`] without a wait.
    #[must_use]
    pub fn with_action(mut self, action: Action) -> Self {
        self.operation.action = action;
        self
    }

    /// Lets the charge pass as well if it becomes due within `wait`.
    #[must_use]
    pub fn with_max_wait(self, wait: Duration) -> Self {
        self.with_action(Action::Take { max_wait: Some(wait) })
    }

    /// Sets the lease to acquire, renew or release. Concurrency limits only.
    #[must_use]
    pub fn with_lease(mut self, lease: LeaseId) -> Self {
        self.operation.lease = lease;
        self
    }

    /// Returns the same charge against another limit.
    #[must_use]
    #[inline]
    pub fn with_limit<'b>(&self, limit: &'b Limit) -> Charge<'b>
    where
        'a: 'b,
    {
        Charge { key: self.key, limit, operation: self.operation }
    }

    /// Returns the key.
    #[inline]
    pub fn key(&self) -> Key<'a> {
        self.key
    }

    /// Returns the limit.
    #[inline]
    pub fn limit(&self) -> &'a Limit {
        self.limit
    }

    /// Returns the cost.
    pub fn cost(&self) -> u32 {
        self.operation.cost
    }

    /// Returns the action.
    pub fn action(&self) -> Action {
        self.operation.action
    }

    /// Returns the lease.
    pub fn lease(&self) -> LeaseId {
        self.operation.lease
    }

    /// Returns an error if the limit's algorithm does not support the action, or if the cost is larger than
    /// [`Limit::MAX_COUNT`].
    #[inline]
    pub fn supported(&self) -> Result<(), StoreError> {
        match self.operation.action {
            // Every algorithm supports that.
            Action::Take { max_wait: None } if self.operation.cost <= Limit::MAX_COUNT => Ok(()),
            _ => self.check_support(),
        }
    }

    fn check_support(&self) -> Result<(), StoreError> {
        if self.operation.cost > Limit::MAX_COUNT {
            let why = format!("the cost is {}; use at most {}", self.operation.cost, Limit::MAX_COUNT);
            return Err(StoreError::unsupported(self.limit.name(), &why));
        }
        match self.limit.refusal(self.operation.action) {
            None => Ok(()),
            Some(why) => Err(StoreError::unsupported(self.limit.name(), why)),
        }
    }

    /// A plain check: takes now or not at all, and there is nothing to release afterwards.
    pub(crate) fn is_check(&self) -> bool {
        self.operation.action.is_plain_take() && self.limit.kind() != AlgorithmKind::Concurrency
    }

    /// Returns whether this charge would take a slot that nobody could release: a take without a lease, on a
    /// concurrency limit.
    #[inline]
    pub fn takes_unreleasable_slot(&self) -> bool {
        self.limit.kind() == AlgorithmKind::Concurrency
            && self.operation.lease == LeaseId::ANONYMOUS
            && self.operation.action.is_take()
            && self.operation.cost > 0
    }

    /// Returns an error if this charge would take a slot that nobody could release.
    #[inline]
    pub fn releasable(&self) -> Result<(), StoreError> {
        if !self.takes_unreleasable_slot() {
            return Ok(());
        }
        Err(StoreError::unsupported(
            self.limit.name(),
            "a slot of a concurrency limit that was taken without a lease could not be released: use `acquire`, whose \
             permit releases it",
        ))
    }

    /// Returns whether this charge is a peek: it takes nothing, whatever the decision.
    pub fn is_peek(&self) -> bool {
        self.operation.cost == 0 && self.operation.action.is_take()
    }

    /// Returns the compensating charge: it reverses what the store debited by `decision` at `decided_at`. `None` if
    /// there is nothing to reverse, or if it cannot be reversed. A limiter that warms up refunds its debt only.
    pub fn compensation(&self, decision: &Decision, decided_at: Time) -> Option<Self> {
        let (debited, start) = decision.debited();
        let granted = self.with_cost(debited);
        match self.operation.action {
            _ if decision.is_denied() || debited == 0 => None,
            Action::Take { .. } | Action::TakeUpTo if self.limit.kind() == AlgorithmKind::Concurrency => {
                (self.operation.lease != LeaseId::ANONYMOUS).then(|| granted.with_action(Action::Release))
            }
            Action::Take { .. } | Action::TakeUpTo => {
                Some(granted.with_action(Action::Refund { at: Some(decided_at + start) }))
            }
            Action::Debit { at } => Some(granted.with_action(Action::Refund { at })),
            Action::Refund { at } => Some(granted.with_action(Action::Debit { at })),
            Action::Reset | Action::Renew | Action::Release => None,
        }
    }

    /// Returns whether both charges share one state: the same limit and the same key.
    pub fn same_state(&self, other: &Charge<'_>) -> bool {
        self.limit.id() == other.limit.id() && self.key == other.key
    }
}

/// Charges that are all debited or none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    charges: &'a [Charge<'a>],
    idempotency_key: Option<IdempotencyKey>,
}

impl<'a> Request<'a> {
    /// Creates a request of these charges.
    #[inline]
    pub fn new(charges: &'a [Charge<'a>]) -> Self {
        Self { charges, idempotency_key: None }
    }

    /// Adds an idempotency key: a repeated request with the same key is answered and not executed again.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = Some(key);
        self
    }

    /// Returns the charges, in order.
    #[inline]
    pub fn charges(&self) -> &'a [Charge<'a>] {
        self.charges
    }

    /// Returns the idempotency key, if the request has one.
    #[inline]
    pub fn idempotency_key(&self) -> Option<IdempotencyKey> {
        self.idempotency_key
    }

    /// Returns an error if the algorithm of one of the charges does not support its action.
    pub fn supported(&self) -> Result<(), StoreError> {
        self.charges.iter().try_for_each(Charge::supported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_never_change() {
        let wait = Some(Duration::from_nanos(7));
        let at = Some(Time::from_nanos(9));
        for (action, code, nanos, take) in [
            (Action::Take { max_wait: wait }, 1, Some(7), true),
            (Action::TakeUpTo, 2, None, true),
            (Action::Debit { at }, 3, Some(9), false),
            (Action::Refund { at }, 4, Some(9), false),
            (Action::Reset, 5, None, false),
            (Action::Renew, 6, None, false),
            (Action::Release, 7, None, false),
        ] {
            assert_eq!((action.code(), action.nanos(), action.is_take()), (code, nanos, take), "{action:?}");
        }
    }
}
