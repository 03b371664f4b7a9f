//! Theoretical arrival times (TATs): the word is the instant and two bits.
//!
//! Words do not recur between owners. A takeover happens strictly after the old TAT, every new TAT lies ahead of the
//! takeover, and TATs only move forward, except for refunds and resets. Those never write a TAT before `horizon`, the
//! time of the latest takeover of any slot. So the next owner of a slot writes larger words than the previous one. (A
//! word that the previous owner had before a refund can recur, to the nanosecond, if its reader is suspended during
//! the refund, the takeover, and all of that time.)

use tollgate_core::store::{State, Tat};
use tollgate_core::{Charge, Clock, Decision, Time};

use super::{Content, Form, LOCKED, MAX_ATTEMPTS, TatTable};
use crate::key_hash::{DIGEST_MASK, KeyHash, with_digest};
use crate::sync::Ordering;

/// The other bit below the TAT.
const OVERDRAWN: u64 = 2;

#[inline]
fn at(word: u64) -> Time {
    Time::from_nanos(word >> 2)
}

/// The state of a flow. See the [module's documentation](self).
#[derive(Debug, Default)]
pub(crate) struct TatForm;

impl Form<0> for TatForm {
    type State = Tat;

    const UNLOCKED: u64 = u64::MAX;

    #[inline]
    fn decode(&self, content: &Content<0>) -> Tat {
        let Content { tag, word, .. } = *content;
        Tat { at: at(word), overdrawn: word & OVERDRAWN != 0, digest: (tag & DIGEST_MASK) as u16 }
    }

    #[inline]
    fn encode(
        &self,
        state: Tat,
        tag: u64,
        before: &Content<0>,
        horizon: impl FnOnce() -> Time,
    ) -> Option<Content<0>> {
        let overdrawn = if state.overdrawn { OVERDRAWN } else { 0 };
        let pack = |at: Time| at.nanos() << 2 | overdrawn;
        let next = pack(state.at);
        let word = if next >= before.word { next } else { pack(state.at.max(horizon())) };
        Some(Content { tag: with_digest(tag, state.digest), word, cold: [] })
    }

    fn fresh_at(state: Tat) -> Time {
        state.at
    }

    fn free_at(&self, owner: &Content<0>) -> Time {
        at(owner.word)
    }

    fn to_core(state: Tat) -> State {
        State::from_flow(state)
    }

    fn from_core(state: &State) -> Option<Tat> {
        state.as_flow()
    }

    #[inline]
    fn apply(state: Tat, charge: &Charge<'_>, now: Time) -> (Decision, Option<Tat>) {
        let Some(flow) = charge.limit().as_flow() else { unreachable!("only flows are in this table") };
        let (decision, next) = flow.apply(state, now, charge);
        (decision, Some(next.unwrap_or(state)))
    }

    /// A bucket that spilled stays in its shard until it is full: nearly every take changes its TAT.
    fn may_return(_: &State, _: &State) -> bool {
        false
    }
}

impl TatTable {
    /// Replaces the TAT of the key by what `step` returns for the TAT and the current time. `None` leaves it
    /// unchanged and writes nothing. Only for steps that move the TAT forward and do not overdraw.
    ///
    /// Returns `None` if the key has no slot, or if the slot is locked or contended; [`update`](Self::update) finds
    /// out which.
    #[inline]
    pub(crate) fn try_advance<R>(
        &self,
        hash: KeyHash,
        clock: &impl Clock,
        step: impl Fn(Time, Time) -> (R, Option<Time>),
    ) -> Option<R> {
        // The clock is read before the word: all time between reading a word and exchanging it lets other threads
        // win, and a cache line that moves between cores costs more than a slightly older time.
        let now = clock.now();
        let slot = self.find(hash)?;
        let mut word = slot.word.load(Ordering::Acquire);
        if slot.tag.load(Ordering::Relaxed) != hash.tag || word & LOCKED != 0 {
            return None;
        }
        for _ in 0..MAX_ATTEMPTS {
            let (answer, next) = step(at(word), now);
            let Some(next) = next else { return Some(answer) };
            let next = next.nanos() << 2;
            match slot.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(answer),
                // Another thread won. This core owns the cache line now: retry before another core takes it.
                Err(changed) => word = changed,
            }
            if slot.tag.load(Ordering::Relaxed) != hash.tag || word & LOCKED != 0 {
                return None;
            }
        }
        None
    }
}
