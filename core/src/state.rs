//! The state of one key under one limit, and its snapshots.

use alloc::vec::Vec;

use crate::algorithm::{AlgorithmKind, Body, Tat};
use crate::charge::{Action, Ask, Charge};
use crate::decision::{Decision, Outcome, RawDecision};
use crate::error::{ErrorKind, StoreError};
use crate::limit::Limit;
use crate::time::Time;

/// What a store remembers of one key under one limit. The default is a fresh state, and a state that
/// equals a fresh one again need not be remembered.
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
    body: Body,
    blocked_until: Time,
    /// From when on this equals a fresh state, under the numbers that the limit had. Another limit of the same
    /// name does not bring back what has ended.
    fresh_at: Time,
}

impl State {
    /// The pure function that every store must agree with: decides one charge alone at `now`, and
    /// changes the state accordingly. The charge's key does not matter here.
    #[inline]
    pub fn apply(&mut self, charge: &Charge<'_>, now: Time) -> Decision {
        self.decide(charge.limit, now, &charge.ask)
    }

    /// Whether the state equals a fresh one at `now`: there is no need to remember it.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.fresh_at <= now
    }

    /// From when on the state equals a fresh one, if nobody comes.
    pub fn fresh_at(&self) -> Time {
        self.fresh_at
    }

    /// The state in raw words.
    pub fn snapshot(&self, limit: &Limit) -> Snapshot {
        let mut words = limit.algorithm().words(&mut self.body.clone());
        words.push(self.blocked_until.nanos());
        Snapshot { version: Snapshot::VERSION, kind: limit.kind(), words }
    }

    /// The state that a snapshot holds. An error if another version or algorithm made it.
    pub fn from_snapshot(limit: &Limit, snapshot: &Snapshot) -> Result<Self, StoreError> {
        let corrupt = |why| Err(StoreError::new(ErrorKind::Corrupt, why));
        if snapshot.version != Snapshot::VERSION {
            return corrupt("the snapshot has a version that this program does not know");
        }
        if snapshot.kind != limit.kind() {
            return corrupt("the snapshot was made by another algorithm");
        }
        let Some((blocked_until, words)) = snapshot.words.split_last() else {
            return corrupt("the snapshot is empty");
        };
        match limit.algorithm().read(words) {
            Some(body) => {
                let blocked_until = Time::from_nanos(*blocked_until);
                let mut state = Self { body, blocked_until, fresh_at: Time::EPOCH };
                state.note_end(limit);
                Ok(state)
            }
            None => corrupt("the snapshot's words make no state of this algorithm"),
        }
    }

    /// The state that a store wrote down as its [`snapshot`](Self::snapshot) and [`fresh_at`](Self::fresh_at). A snapshot
    /// alone ends when the limit's numbers of now say so; what was written down ends when those of then said.
    pub fn from_stored(limit: &Limit, snapshot: &Snapshot, fresh_at: Time) -> Result<Self, StoreError> {
        Ok(Self { fresh_at, ..Self::from_snapshot(limit, snapshot)? })
    }

    /// The state of a flow, for stores that keep it in a word.
    pub fn from_flow(full_at: Tat) -> Self {
        Self { body: full_at.into(), blocked_until: Time::EPOCH, fresh_at: full_at.at }
    }

    /// The word that [`from_flow`](Self::from_flow) takes; `None` for any other state.
    pub fn as_flow(&self) -> Option<Tat> {
        match self.body {
            Body::Fresh => Some(Tat::default()),
            Body::Flow(full_at) => Some(full_at),
            _ => None,
        }
    }

    /// Decides one charge alone, and lets a denial have its consequences.
    #[inline]
    pub(crate) fn decide(&mut self, limit: &Limit, now: Time, ask: &Ask) -> Decision {
        let decision = self.answer(limit, now, ask);
        if decision.is_denied() { self.denied(limit, now, ask, decision) } else { decision }
    }

    /// Decides one charge; a denial has no consequences yet.
    #[inline]
    pub(crate) fn answer(&mut self, limit: &Limit, now: Time, ask: &Ask) -> Decision {
        if ask.action.is_take() && ask.cost == 0 {
            return self.look(limit, now, ask);
        }
        if ask.cost == 0 && matches!(ask.action, Action::Debit { .. }) {
            // A debit of nothing changes nothing, and is never refused as a look may be.
            return self.clone().change(limit, now, ask);
        }
        self.change(limit, now, ask)
    }

    #[inline]
    fn change(&mut self, limit: &Limit, now: Time, ask: &Ask) -> Decision {
        if self.has_ended(now) {
            *self = Self::default();
        }
        if ask.action.is_take() && self.blocked_until > now {
            // What the same charge would be told if there were no block decides how long it waits.
            let alone = limit.algorithm().decide(&mut self.body.clone(), now, ask).raw();
            let seen = self.look(limit, now, ask).raw();
            return match alone.outcome {
                outcome @ (Outcome::NeverFits | Outcome::LeaseLost | Outcome::DenyListed) => {
                    RawDecision { outcome, wait: 0, ..seen }
                }
                Outcome::Denied => RawDecision { wait: seen.wait.max(alone.wait), ..seen },
                Outcome::Allowed => RawDecision { wait: self.blocked_until.nanos() - now.nanos(), ..seen },
            }
            .into();
        }
        if ask.action == Action::Reset {
            self.blocked_until = Time::EPOCH;
        }
        let decision = limit.algorithm().decide(&mut self.body, now, ask);
        if self.blocked_until <= now {
            self.fresh_at = now + decision.reset_after();
            return decision;
        }
        // A block that goes on is a part of the state.
        self.note_end(limit);
        let block = self.blocked_until.nanos() - now.nanos();
        let raw = decision.raw();
        RawDecision { reset: raw.reset.max(block), ..raw }.into()
    }

    /// Answers without changing anything, not even to the numbers of another limit.
    fn look(&self, limit: &Limit, now: Time, ask: &Ask) -> Decision {
        let mut body = if self.has_ended(now) { Body::Fresh } else { self.body.clone() };
        let look = Ask { cost: 0, ..*ask };
        let seen = limit.algorithm().decide(&mut body, now, &look);
        if self.blocked_until > now { self.blocked(&seen, now) } else { seen }
    }

    /// Whether to forget what is there. The instant of a flow says by itself that it is past, under any numbers; to
    /// forget it would only make a difference to a clock that is set back, and there the wrong one.
    fn has_ended(&self, now: Time) -> bool {
        self.fresh_at <= now && !matches!(self.body, Body::Flow(_))
    }

    fn note_end(&mut self, limit: &Limit) {
        self.fresh_at = limit.algorithm().fresh_at(&mut self.body).max(self.blocked_until);
    }

    /// A denial that this limit itself caused: it may count, and it may block. Says what its caller is told.
    pub(crate) fn denied(&mut self, limit: &Limit, now: Time, ask: &Ask, decision: Decision) -> Decision {
        let took = ask.cost > 0 && ask.action.is_take();
        if !took || decision.outcome() != Outcome::Denied || self.blocked_until > now {
            return decision;
        }
        let decision = limit.algorithm().denied(&mut self.body, now, ask).unwrap_or(decision);
        if limit.block() > 0 {
            self.blocked_until = now.after(limit.block());
        }
        self.note_end(limit);
        if limit.block() > 0 { self.blocked(&decision, now) } else { decision }
    }

    /// What the algorithm says, while the block lasts.
    fn blocked(&self, decision: &Decision, now: Time) -> Decision {
        let seen = decision.raw();
        let block = self.blocked_until.nanos().saturating_sub(now.nanos());
        let wait = if seen.outcome == Outcome::Denied { seen.wait.max(block) } else { block };
        let (left, reset) = (seen.left.min(0), seen.reset.max(block));
        RawDecision { outcome: Outcome::Denied, granted: 0, left, wait, reset, ..seen }.into()
    }
}

/// A state in raw words, to export from one store and merge into another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    version: u8,
    kind: AlgorithmKind,
    words: Vec<u64>,
}

impl Snapshot {
    /// The version that this program writes.
    pub const VERSION: u8 = 1;

    /// A snapshot from its parts; whether they make sense shows when it is merged.
    pub fn from_parts(version: u8, kind: AlgorithmKind, words: Vec<u64>) -> Self {
        Self { version, kind, words }
    }

    /// Which version wrote it.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Which algorithm made it.
    pub fn kind(&self) -> AlgorithmKind {
        self.kind
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}
