//! The state of one key under one limit, and its snapshots.

use alloc::vec::Vec;

use crate::algorithm::{AlgorithmKind, AlgorithmState, Tat, Windows};
use crate::charge::{Action, Charge, Operation};
use crate::decision::{Decision, Outcome, RawDecision};
use crate::error::{ErrorKind, StoreError};
use crate::limit::Limit;
use crate::time::Time;

/// The state of one key under one limit.
///
/// The default is a fresh state. A store may drop a state that equals a fresh one again ([`is_fresh`](Self::is_fresh)).
///
/// ```
/// use tollgate_core::store::State;
/// use tollgate_core::{Limit, Time};
///
/// let limit = Limit::per_second(10).build("api")?;
/// let (mut state, now) = (State::default(), Time::from_secs(1_790_000_000));
/// let decision = state.apply(&limit.charge("user:42").with_cost(4), now);
/// assert_eq!(decision.remaining(), 6);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    algorithm: AlgorithmState,
    blocked_until: Time,
    /// From when on this equals a fresh state, under the parameters with which it was written. A limit of the same name
    /// with other parameters does not revive an expired state.
    fresh_at: Time,
}

impl State {
    /// Decides one charge at `now`, and changes the state accordingly. The charge's key is ignored.
    ///
    /// This is the pure function that every store must agree with.
    #[inline]
    pub fn apply(&mut self, charge: &Charge<'_>, now: Time) -> Decision {
        self.decide(charge.limit, now, &charge.operation)
    }

    /// Returns whether the state equals a fresh one at `now`, so that it can be dropped.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.fresh_at <= now
    }

    /// Returns the instant from which on the state equals a fresh one, if no other charge comes.
    pub fn fresh_at(&self) -> Time {
        self.fresh_at
    }

    /// Returns the state as raw words.
    pub fn snapshot(&self, limit: &Limit) -> Snapshot {
        let mut words = limit.algorithm().to_words(&mut self.algorithm.clone());
        words.push(self.blocked_until.nanos());
        Snapshot { version: Snapshot::VERSION, kind: limit.kind(), words }
    }

    /// Creates a state from a snapshot. An error if the snapshot has another version or is of another algorithm.
    pub fn from_snapshot(limit: &Limit, snapshot: &Snapshot) -> Result<Self, StoreError> {
        let corrupt = |why| Err(StoreError::new(ErrorKind::Corrupt, why));
        if snapshot.version != Snapshot::VERSION {
            return corrupt("the snapshot has an unknown version");
        }
        if snapshot.kind != limit.kind() {
            return corrupt("the snapshot is of another algorithm");
        }
        let Some((blocked_until, words)) = snapshot.words.split_last() else {
            return corrupt("the snapshot is empty");
        };
        let Some(algorithm) = limit.algorithm().state_from_words(words) else {
            return corrupt("the words of the snapshot are not a state of this algorithm");
        };
        let blocked_until = Time::from_nanos(*blocked_until);
        let mut state = Self { algorithm, blocked_until, fresh_at: Time::EPOCH };
        state.update_fresh_at(limit);
        Ok(state)
    }

    /// Creates a state from its stored [`snapshot`](Self::snapshot) and [`fresh_at`](Self::fresh_at).
    ///
    /// [`from_snapshot`](Self::from_snapshot) computes `fresh_at` from the current parameters of the limit. This method
    /// keeps the one that followed from the parameters with which the state was written.
    pub fn from_stored(limit: &Limit, snapshot: &Snapshot, fresh_at: Time) -> Result<Self, StoreError> {
        Ok(Self { fresh_at, ..Self::from_snapshot(limit, snapshot)? })
    }

    /// Creates the state of a [`Flow`](crate::store::Flow), for stores that keep it in one word.
    pub fn from_flow(tat: Tat) -> Self {
        Self { algorithm: AlgorithmState::Flow(tat), blocked_until: Time::EPOCH, fresh_at: tat.at }
    }

    /// Returns the state of a [`Flow`](crate::store::Flow), as [`from_flow`](Self::from_flow) takes it. `None` for any
    /// other state.
    pub fn as_flow(&self) -> Option<Tat> {
        if let AlgorithmState::Flow(tat) = self.algorithm {
            Some(tat)
        } else {
            (self.algorithm == AlgorithmState::Fresh).then(Tat::default)
        }
    }

    /// Creates the state of a fixed or sliding window, for stores that keep it in words of their own.
    #[inline]
    pub fn from_windows(windows: Windows) -> Self {
        Self { algorithm: windows.to_state(), blocked_until: Time::EPOCH, fresh_at: windows.fresh_at() }
    }

    /// Returns the state of a fixed or sliding window, as [`from_windows`](Self::from_windows) takes it. `None` for any
    /// other state, and for the few that `from_windows` would not lead back to.
    #[inline]
    pub fn as_windows(&self) -> Option<Windows> {
        if self.blocked_until > Time::EPOCH {
            return None;
        }
        Windows::of_state(&self.algorithm, self.fresh_at)
    }

    /// Decides one operation, including the consequences of a denial.
    #[inline]
    pub(crate) fn decide(&mut self, limit: &Limit, now: Time, operation: &Operation) -> Decision {
        let decision = self.evaluate(limit, now, operation);
        if decision.is_denied() { self.record_denial(limit, now, operation, decision) } else { decision }
    }

    /// Decides one operation, without the consequences of a denial: [`record_denial`](Self::record_denial) adds them.
    #[inline]
    pub(crate) fn evaluate(&mut self, limit: &Limit, now: Time, operation: &Operation) -> Decision {
        if operation.cost == 0 && operation.action.is_take() {
            let (decision, algorithm) = self.peek(limit, now, operation);
            // The only change that a peek makes: the TAT of a limit that became faster starts to count down.
            if let AlgorithmState::Flow(tat) = algorithm
                && decision.is_denied()
                && self.as_flow() != Some(tat)
            {
                self.algorithm = algorithm;
                self.update_fresh_at(limit);
            }
            return decision;
        }
        if operation.cost == 0 && matches!(operation.action, Action::Debit { .. }) {
            // A debit of nothing changes nothing. It is never denied, as a peek may be.
            return self.clone().execute(limit, now, operation);
        }
        self.execute(limit, now, operation)
    }

    #[inline]
    fn execute(&mut self, limit: &Limit, now: Time, operation: &Operation) -> Decision {
        if self.has_expired(now) {
            *self = Self::default();
        }
        if operation.action.is_take() && self.blocked_until > now {
            return self.deny_while_blocked(limit, now, operation);
        }
        if operation.action == Action::Reset {
            self.blocked_until = Time::EPOCH;
        }
        let decision = limit.algorithm().decide(&mut self.algorithm, now, operation);
        if self.blocked_until <= now {
            // The decision of a flow may be on a clamped TAT, which is not the stored one.
            let reset_at = now + decision.reset_after();
            self.fresh_at = if let AlgorithmState::Flow(tat) = self.algorithm { tat.at } else { reset_at };
            return decision;
        }
        // The state is not fresh before the block ends.
        self.update_fresh_at(limit);
        let block = self.blocked_until.nanos() - now.nanos();
        let raw = decision.raw();
        RawDecision { reset: raw.reset.max(block), ..raw }.into()
    }

    /// Denies a take during the block time. What the algorithm alone would decide determines when a retry can succeed.
    fn deny_while_blocked(&mut self, limit: &Limit, now: Time, operation: &Operation) -> Decision {
        let unblocked = limit.algorithm().decide(&mut self.algorithm.clone(), now, operation).raw();
        let (peeked, mut algorithm) = self.peek(limit, now, operation);
        // Nothing is debited, but the state is that of the current parameters, as after any other denial: a TAT that is
        // clamped starts to count down. To refund nothing does that also where the algorithm alone would allow the take.
        if matches!(algorithm, AlgorithmState::Flow(_)) {
            let nothing = Operation { cost: 0, action: Action::Refund { at: None }, ..*operation };
            let _ = limit.algorithm().decide(&mut algorithm, now, &nothing);
        }
        self.algorithm = algorithm;
        self.update_fresh_at(limit);
        let peeked = peeked.raw();
        match unblocked.outcome {
            outcome @ (Outcome::NeverFits | Outcome::LeaseLost | Outcome::DenyListed) => {
                RawDecision { outcome, wait: 0, ..peeked }
            }
            Outcome::Denied => RawDecision { wait: peeked.wait.max(unblocked.wait), ..peeked },
            Outcome::Allowed => RawDecision { wait: self.blocked_until.nanos() - now.nanos(), ..peeked },
        }
        .into()
    }

    /// Decides without changing the state. It is not converted to the parameters of a changed limit either. Returns the
    /// algorithm's state as it would be then, too.
    fn peek(&self, limit: &Limit, now: Time, operation: &Operation) -> (Decision, AlgorithmState) {
        let mut algorithm =
            if self.has_expired(now) { AlgorithmState::Fresh } else { self.algorithm.clone() };
        let peek = Operation { cost: 0, ..*operation };
        let decision = limit.algorithm().decide(&mut algorithm, now, &peek);
        let decision = if self.blocked_until > now { self.blocked(&decision, now) } else { decision };
        (decision, algorithm)
    }

    /// Returns whether the state is to be replaced by a fresh one.
    ///
    /// Never for a flow: a TAT in the past means a fresh state under any parameters. Dropping it would make a
    /// difference only to a clock that is set back, which would see too many tokens then.
    fn has_expired(&self, now: Time) -> bool {
        self.fresh_at <= now && !matches!(self.algorithm, AlgorithmState::Flow(_))
    }

    fn update_fresh_at(&mut self, limit: &Limit) {
        self.fresh_at = limit.algorithm().fresh_at(&mut self.algorithm).max(self.blocked_until);
    }

    /// Records a denial that this limit itself caused: it may count, and it may start a block time. Returns the
    /// decision for the caller.
    pub(crate) fn record_denial(
        &mut self,
        limit: &Limit,
        now: Time,
        operation: &Operation,
        decision: Decision,
    ) -> Decision {
        let is_mutating_take = operation.cost > 0 && operation.action.is_take();
        if !is_mutating_take || decision.outcome() != Outcome::Denied || self.blocked_until > now {
            return decision;
        }
        let counted = limit.algorithm().count_denial(&mut self.algorithm, now, operation);
        let decision = counted.unwrap_or(decision);
        if limit.block() > 0 {
            self.blocked_until = now.after(limit.block());
        }
        self.update_fresh_at(limit);
        if limit.block() > 0 { self.blocked(&decision, now) } else { decision }
    }

    /// Returns the algorithm's decision as a denial until the end of the block time.
    fn blocked(&self, decision: &Decision, now: Time) -> Decision {
        let raw = decision.raw();
        let block = self.blocked_until.nanos().saturating_sub(now.nanos());
        let wait = if raw.outcome == Outcome::Denied { raw.wait.max(block) } else { block };
        let (left, reset) = (raw.left.min(0), raw.reset.max(block));
        RawDecision { outcome: Outcome::Denied, granted: 0, left, wait, reset, ..raw }.into()
    }
}

/// A state as raw words, to store it or to send it to another store.
///
/// The format is stable: a version, the code of the algorithm, and words whose number and meaning depend on the
/// algorithm. [`State::from_snapshot`] validates them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    version: u8,
    kind: AlgorithmKind,
    words: Vec<u64>,
}

impl Snapshot {
    /// The version that this crate writes.
    pub const VERSION: u8 = 1;

    /// Creates a snapshot from its parts, without validation.
    pub fn from_parts(version: u8, kind: AlgorithmKind, words: Vec<u64>) -> Self {
        Self { version, kind, words }
    }

    /// Returns the version of the format.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Returns the algorithm.
    pub fn kind(&self) -> AlgorithmKind {
        self.kind
    }

    /// Returns the words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}
