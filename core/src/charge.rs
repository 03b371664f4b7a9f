//! Questions: charges, and the requests they form.

use alloc::format;
use core::time::Duration;

use crate::algorithm::AlgorithmKind;
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::{Limit, MAX_COUNT};
use crate::time::Time;

/// What a charge does to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Debit the cost if there is room for all of it. Without a wait it passes now or not at all
    /// (a queue always says when to start); with one it also passes if it becomes due within that
    /// time, is debited at once, and the decision says when to start. A cost of 0 only looks, and
    /// answers as a cost of 1 would be answered.
    Take {
        /// How long the caller would wait for its start.
        max_wait: Option<Duration>,
    },
    /// Debit as much as there is, at most the cost, in one step.
    TakeUpTo,
    /// Debit the cost whatever there is; the balance may go below zero and is repaid by time.
    Debit {
        /// The instant it belongs to, if not now.
        at: Option<Time>,
    },
    /// Give the cost back.
    Refund {
        /// The instant the debit belongs to, if not now: what has been refilled since, or has left
        /// its window, is not given back again. An instant ahead names a reservation that has
        /// not started; it gives back only what no later reservation queued behind.
        at: Option<Time>,
    },
    /// Forget everything about this key: as good as new.
    Forget,
    /// Keep a lease for another term.
    Renew,
    /// End a lease.
    Release,
}

/// The id of a lease on a place in a concurrency limit. Random, so that nobody ends another's lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId {
    // Two words instead of one of 128 bits, whose alignment would make every charge larger.
    high: u64,
    low: u64,
}

impl LeaseId {
    /// A place that nobody can give back early; it frees itself when the lease ends.
    pub const ANONYMOUS: Self = Self::new(0);

    /// An id from random bits.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    pub const fn new(random: u128) -> Self {
        Self { high: (random >> 64) as u64, low: random as u64 }
    }

    /// The bits.
    pub const fn get(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }
}

/// Names one mutating call, so that a call that may have been executed can be repeated without being
/// executed twice. Random, or otherwise unique within the time a store remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u128);

impl OperationId {
    /// An id from random bits.
    pub const fn new(random: u128) -> Self {
        Self(random)
    }

    /// The bits.
    pub const fn get(self) -> u128 {
        self.0
    }

    /// The id of one part of an operation that has several.
    #[must_use]
    pub const fn part(self, index: u32) -> Self {
        Self(self.0 ^ (index as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }
}

/// A key, a limit and a cost: what is asked of one limit.
///
/// ```
/// use tollgate_core::Limit;
///
/// let api = Limit::per_second(50).build("api")?;
/// let charge = api.charge("user:42").cost(3);
/// # let _ = charge;
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge<'a> {
    pub(crate) key: Key<'a>,
    pub(crate) limit: &'a Limit,
    pub(crate) ask: Ask,
}

/// What a charge asks of its limit, apart from whom it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) cost: u32,
    pub(crate) action: Action,
    pub(crate) lease: LeaseId,
}

impl<'a> Charge<'a> {
    #[inline]
    pub(crate) fn new(limit: &'a Limit, key: Key<'a>) -> Self {
        let action = Action::Take { max_wait: None };
        Self { key, limit, ask: Ask { cost: 1, action, lease: LeaseId::ANONYMOUS } }
    }

    /// How much it costs; 1 unless said. A cost of 0 only looks.
    #[must_use]
    #[inline]
    pub fn cost(mut self, cost: u32) -> Self {
        self.ask.cost = cost;
        self
    }

    /// What it does; [`Action::Take`] unless said.
    #[must_use]
    pub fn action(mut self, action: Action) -> Self {
        self.ask.action = action;
        self
    }

    /// Passes as well if it becomes due within `wait`.
    #[must_use]
    pub fn waiting_up_to(self, wait: Duration) -> Self {
        self.action(Action::Take { max_wait: Some(wait) })
    }

    /// The lease it acquires, keeps or ends; only concurrency limits look at it.
    #[must_use]
    pub fn lease(mut self, lease: LeaseId) -> Self {
        self.ask.lease = lease;
        self
    }

    /// The same, asked of another limit.
    #[must_use]
    #[inline]
    pub fn against<'b>(&self, limit: &'b Limit) -> Charge<'b>
    where
        'a: 'b,
    {
        Charge { key: self.key, limit, ask: self.ask }
    }

    /// Whom it is counted for.
    #[inline]
    pub fn key(&self) -> Key<'a> {
        self.key
    }

    /// The limit.
    #[inline]
    pub fn limit(&self) -> &'a Limit {
        self.limit
    }

    /// The cost.
    pub fn get_cost(&self) -> u32 {
        self.ask.cost
    }

    /// What it does.
    pub fn get_action(&self) -> Action {
        self.ask.action
    }

    /// Its lease.
    pub fn get_lease(&self) -> LeaseId {
        self.ask.lease
    }

    /// An error if this limit's algorithm cannot do that, or if the cost is beyond what limits can count.
    #[inline]
    pub fn supported(&self) -> Result<(), StoreError> {
        match self.ask.action {
            // Every algorithm can do that.
            Action::Take { max_wait: None } if self.ask.cost <= MAX_COUNT => Ok(()),
            _ => self.check_support(),
        }
    }

    fn check_support(&self) -> Result<(), StoreError> {
        if self.ask.cost > MAX_COUNT {
            let why = format!("the cost is {}; use at most {MAX_COUNT}", self.ask.cost);
            return Err(StoreError::unsupported(self.limit.name(), &why));
        }
        match self.limit.refusal(self.ask.action) {
            None => Ok(()),
            Some(why) => Err(StoreError::unsupported(self.limit.name(), why)),
        }
    }

    /// A plain check: takes now or not at all, and nothing has to be given back afterwards.
    pub(crate) fn is_check(&self) -> bool {
        matches!(self.ask.action, Action::Take { max_wait: None })
            && self.limit.kind() != AlgorithmKind::Concurrency
    }

    /// It only looks: it can change nothing, whatever the answer.
    pub fn only_looks(&self) -> bool {
        self.ask.cost == 0 && matches!(self.ask.action, Action::Take { .. } | Action::TakeUpTo)
    }

    /// The charge that gives back what this one was granted, as decided at `decided_at`; `None` if there is
    /// nothing to give back, or no way. A limiter that warms up gives back its debt only.
    pub fn undo(&self, decision: &Decision, decided_at: Time) -> Option<Self> {
        let given = self.cost(decision.granted());
        match self.ask.action {
            _ if decision.is_denied() || decision.granted() == 0 => None,
            Action::Take { .. } | Action::TakeUpTo if self.limit.kind() == AlgorithmKind::Concurrency => {
                (self.ask.lease != LeaseId::ANONYMOUS).then(|| given.action(Action::Release))
            }
            Action::Take { .. } | Action::TakeUpTo => {
                Some(given.action(Action::Refund { at: Some(decided_at + decision.start_after()) }))
            }
            Action::Debit { at } => Some(given.action(Action::Refund { at })),
            Action::Refund { at } => Some(given.action(Action::Debit { at })),
            Action::Forget | Action::Renew | Action::Release => None,
        }
    }

    /// Both name the same state: the same limit and the same key.
    pub fn same_state(&self, other: &Charge<'_>) -> bool {
        self.limit.id() == other.limit.id() && self.key == other.key
    }
}

/// Charges that stand or fall together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    charges: &'a [Charge<'a>],
    id: Option<OperationId>,
}

impl<'a> Request<'a> {
    /// A request of these charges.
    #[inline]
    pub fn new(charges: &'a [Charge<'a>]) -> Self {
        Self { charges, id: None }
    }

    /// Names the call, so that a repetition is answered and not executed again.
    #[must_use]
    pub fn with_id(mut self, id: OperationId) -> Self {
        self.id = Some(id);
        self
    }

    /// The charges, in order.
    #[inline]
    pub fn charges(&self) -> &'a [Charge<'a>] {
        self.charges
    }

    /// The operation id, if the call has one.
    #[inline]
    pub fn id(&self) -> Option<OperationId> {
        self.id
    }

    /// An error if one of the charges asks its limit for what its algorithm cannot do.
    pub fn supported(&self) -> Result<(), StoreError> {
        self.charges.iter().try_for_each(Charge::supported)
    }
}
