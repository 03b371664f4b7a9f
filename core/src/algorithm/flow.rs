//! What token bucket, leaky buckets, GCRA and the smooth bursty limiter have in common: a continuous
//! flow, whose whole state is the instant at which it will be full again.
//!
//! That instant is GCRA's theoretical arrival time. A debit moves it ahead by the cost's time; what
//! is used is its distance to now, what is left is the rest of the capacity. Once it is past, the state
//! says nothing that a missing state does not say.

use alloc::vec;
use alloc::vec::Vec;

use super::{ahead, signed};
use crate::charge::{Action, Ask, Charge};
use crate::decision::{Decision, Outcome, RawDecision, Source};
use crate::rate::Rate;
use crate::time::{Time, nanos};

/// The state: when the flow will be full again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_structs, reason = "stores keep exactly this in their words")]
pub struct Tat {
    /// The instant; in the past, the state is as good as none.
    pub at: Time,
    /// Unconditional debits or reservations went past the capacity.
    pub overdrawn: bool,
    /// A short digest of the numbers that it was written under ([`Flow::digest`]). Under other numbers an
    /// instant that lies further ahead than the capacity reaches is clamped, unless it is overdrawn: whoever
    /// was out of tokens stays so, but no longer than the new limit takes to fill.
    pub digest: u16,
}

/// Who passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Whoever fits into the capacity.
    Fits,
    /// Whoever fits, but everyone starts in turn.
    InTurn,
    /// Whoever comes when the last one is paid for.
    Paid,
}

/// A continuous flow: a pace and a capacity.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pace: Rate,
    /// Units that fit.
    room: u64,
    capacity: u32,
    admission: Admission,
    digest: u16,
    /// A bucket whose unit is a nanosecond.
    plain: bool,
}

/// A take from a plain bucket, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct PlainTake {
    now: u64,
    /// When it would be full again without this take, and with it.
    used_at: u64,
    end: u64,
    /// How far ahead that may be.
    full: u64,
}

impl PlainTake {
    /// When the flow will be full again, if the take passes. A denial changes nothing.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        (self.end <= self.full).then_some(Time::from_nanos(self.end))
    }

    /// What the caller is told.
    #[inline]
    pub fn answer(&self, flow: &Flow, cost: u32) -> Decision {
        let (outcome, granted, used, wait) = if self.end <= self.full {
            (Outcome::Allowed, cost, self.end, 0)
        } else {
            (Outcome::Denied, 0, self.used_at, self.end - self.full)
        };
        RawDecision {
            outcome,
            source: Source::Store,
            granted,
            limit: flow.capacity,
            left: self.full.cast_signed() - used.cast_signed(),
            unit: flow.pace.token(),
            wait,
            reset: used - self.now,
        }
        .into()
    }
}

/// A state at an instant, on the flow's own scale.
#[derive(Clone, Copy)]
struct View {
    now: Time,
    /// The unit that now lies in.
    present: u64,
    /// The unit up to which there is room.
    full: u64,
    /// The unit up to which the flow is used.
    used: u64,
    /// The instant of `used`.
    used_at: u64,
    /// Other numbers had put it further ahead.
    clamped: bool,
}

impl Flow {
    pub(super) fn new(pace: Rate, capacity: u32, admission: Admission) -> Self {
        let numbers = [pace.count(), pace.period(), capacity.into(), admission as u64];
        let digest = numbers.iter().fold(0, |digest: u64, number| {
            (digest.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        // Zero is for states that nobody has written yet.
        let digest = (digest >> 48) as u16;
        let plain = admission == Admission::Fits && pace.is_whole();
        let room = pace.tokens(u64::from(capacity));
        Self { pace, room, capacity, admission, digest: digest.max(1), plain }
    }

    /// A short digest of the numbers, never zero: what [`Tat::numbers`] is under them.
    #[inline]
    pub fn digest(&self) -> u16 {
        self.digest
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// How much passes per period.
    pub fn count(&self) -> u64 {
        self.pace.count()
    }

    /// The period in nanoseconds.
    pub fn period(&self) -> u64 {
        self.pace.period()
    }

    /// Answers any charge; `None` beside the decision if nothing changes. The charge's key and limit do not
    /// matter here.
    pub fn apply(&self, state: Tat, now: Time, charge: &Charge<'_>) -> (Decision, Option<Tat>) {
        self.decide(state, now, &charge.ask)
    }

    /// Whether a charge is the kind that nearly all are: a take without a wait, of a cost that fits, from a
    /// bucket whose unit is a nanosecond. For those, and for states under the same numbers,
    /// [`take`](Self::take) and [`answer`](PlainTake::answer) say together what [`apply`](Self::apply) says.
    #[inline]
    pub fn is_plain(&self, charge: &Charge<'_>) -> bool {
        self.plain
            && matches!(charge.ask.action, Action::Take { max_wait: None })
            && charge.ask.cost.wrapping_sub(1) < self.capacity
    }

    /// Takes from a plain bucket. What the caller is told is worked out later: the less there is to do between
    /// reading a state and exchanging it, the better.
    #[inline]
    pub fn take(&self, at: Time, now: Time, cost: u32) -> PlainTake {
        let used_at = at.max(now).nanos();
        // Far from overflow: an instant and two fill times are less than half of a word.
        let end = (used_at + self.pace.token() * u64::from(cost)).min(Time::MAX.nanos());
        PlainTake { now: now.nanos(), used_at, end, full: now.nanos() + self.room }
    }

    #[inline(never)]
    pub(super) fn decide(&self, state: Tat, now: Time, ask: &Ask) -> (Decision, Option<Tat>) {
        let view = self.view(state, now);
        match ask.action {
            Action::Take { max_wait } => self.take_in(view, ask.cost, max_wait.map(nanos)),
            Action::TakeUpTo => self.take_up_to(view, ask.cost),
            Action::Debit { at } => self.debit(view, state.at, ask.cost, at),
            Action::Refund { at } => self.refund(view, ask.cost, at),
            Action::Reset => {
                let fresh = View { used: view.present, used_at: now.nanos(), ..view };
                (self.answer(fresh, Outcome::Allowed, 0, 0), Some(Tat::default()))
            }
            Action::Renew | Action::Release => self.take_in(view, 0, None),
        }
    }

    /// A state under these numbers.
    #[inline]
    pub fn state(&self, nanos: u64, overdrawn: bool) -> Tat {
        Tat { at: Time::from_nanos(nanos), overdrawn, digest: self.digest }
    }

    #[inline]
    fn view(&self, state: Tat, now: Time) -> View {
        let present = self.pace.units(now.nanos());
        let full = present.saturating_add(self.room);
        let mut used_at = state.at.nanos();
        if used_at <= now.nanos() {
            return View { now, present, full, used: present, used_at: now.nanos(), clamped: false };
        }
        let mut clamped = false;
        if state.digest != self.digest && !state.overdrawn {
            let full_at = self.pace.instant(full);
            clamped = used_at > full_at;
            used_at = used_at.min(full_at);
        }
        View { now, present, full, used: self.pace.units(used_at), used_at, clamped }
    }

    #[inline]
    fn answer(&self, view: View, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        RawDecision {
            outcome,
            source: Source::Store,
            granted,
            limit: self.capacity,
            left: signed(view.full).saturating_sub(signed(view.used)),
            unit: self.pace.token(),
            wait,
            reset: ahead(view.used_at, view.now),
        }
        .into()
    }

    #[inline]
    fn take_in(&self, view: View, cost: u32, max_wait: Option<u64>) -> (Decision, Option<Tat>) {
        let asked = cost.max(1);
        if asked > self.capacity && self.admission != Admission::Paid {
            return (self.answer(view, Outcome::NeverFits, 0, 0), None);
        }
        let end = view.used.saturating_add(self.pace.tokens(u64::from(asked)));
        let (start, lack) = self.start(view, end);
        let patience = match self.admission {
            Admission::InTurn => max_wait.unwrap_or(u64::MAX),
            Admission::Fits | Admission::Paid => max_wait.unwrap_or(0),
        };
        if lack > 0 || start > patience {
            let wait = lack.max(start.saturating_sub(patience));
            // A denial writes nothing, except that the clock of a clamped state starts now.
            let clamped = (view.clamped && cost > 0).then(|| self.state(view.used_at, false));
            return (self.answer(view, Outcome::Denied, 0, wait), clamped);
        }
        if cost == 0 {
            return (self.answer(view, Outcome::Allowed, 0, start), None);
        }
        self.commit(view, end, cost, start)
    }

    /// How long until a charge that ends at `end` starts, and how long until it is let in at all.
    #[inline]
    fn start(&self, view: View, end: u64) -> (u64, u64) {
        let until = |unit: u64| ahead(self.pace.instant(unit), view.now);
        match self.admission {
            Admission::Fits if end <= view.full => (0, 0),
            Admission::Fits => (until(end - self.room), 0),
            Admission::InTurn => {
                let lack = if end <= view.full { 0 } else { until(end - self.room) };
                (ahead(view.used_at, view.now), lack)
            }
            Admission::Paid if view.used <= view.full => (0, 0),
            Admission::Paid => (until(view.used - self.room), 0),
        }
    }

    #[inline]
    fn commit(&self, view: View, end: u64, granted: u32, start: u64) -> (Decision, Option<Tat>) {
        // No state lies beyond the end of time, and the answer is that of the state.
        let used_at = self.pace.instant(end).min(Time::MAX.nanos());
        let end = if used_at == Time::MAX.nanos() { self.pace.units(used_at) } else { end };
        let state = self.state(used_at, end > view.full);
        let used = end.max(view.present);
        (self.answer(View { used, used_at, ..view }, Outcome::Allowed, granted, start), Some(state))
    }

    fn take_up_to(&self, view: View, most: u32) -> (Decision, Option<Tat>) {
        let there = match self.admission {
            Admission::Paid if view.used <= view.full => u64::from(most),
            Admission::Paid => 0,
            Admission::Fits | Admission::InTurn => view.full.saturating_sub(view.used) / self.pace.token(),
        };
        // Nothing there: answer as for one, which says how long it will be.
        let part = u32::try_from(there).unwrap_or(u32::MAX).min(most);
        let (decision, state) = self.take_in(view, part.max(u32::from(most > 0)), None);
        (decision, state)
    }

    fn debit(&self, view: View, full_at: Time, cost: u32, at: Option<Time>) -> (Decision, Option<Tat>) {
        // A debit that belongs to the past has been partly refilled since: from then on, or from when the bucket would have
        // been full if that was later. So debits of the past add up, as far back as states are remembered.
        let booked = at.map_or(view.now, |at| at.min(view.now)).max(full_at.min(view.now));
        let from = if view.used > view.present { view.used } else { self.pace.units(booked.nanos()) };
        let end = from.saturating_add(self.pace.tokens(u64::from(cost)));
        let (decision, state) = self.commit(view, end, cost, 0);
        (decision, state.filter(|_| cost > 0))
    }

    fn refund(&self, view: View, cost: u32, at: Option<Time>) -> (Decision, Option<Tat>) {
        let worth = self.pace.tokens(u64::from(cost));
        let give = match at {
            None => worth,
            Some(at) if at > view.now => {
                // A reservation that has not started: what queued behind it keeps its place.
                let start = self.pace.units(at.nanos());
                let behind = match self.admission {
                    Admission::Fits => start.saturating_add(self.room),
                    Admission::InTurn => start.saturating_add(worth),
                    Admission::Paid => start.saturating_add(self.room).saturating_add(worth),
                };
                worth.saturating_sub(view.used.saturating_sub(behind))
            }
            // What was debited then has been refilled once the whole capacity has.
            Some(at) => {
                worth.min(self.pace.units(at.nanos()).saturating_add(self.room).saturating_sub(view.present))
            }
        };
        let end = view.used.saturating_sub(give).max(view.present);
        let given = u32::try_from((view.used - end) / self.pace.token()).unwrap_or(u32::MAX);
        let (decision, state) = self.commit(view, end, given, 0);
        (decision, state.filter(|_| end != view.used || view.clamped))
    }

    /// From when on the state equals a fresh one.
    pub(super) fn fresh_at(state: &Tat) -> Time {
        state.at
    }

    pub(super) fn words(state: &Tat) -> Vec<u64> {
        vec![state.at.nanos(), u64::from(state.overdrawn), state.digest.into()]
    }

    pub(super) fn from_words(words: &[u64]) -> Option<Tat> {
        match *words {
            [at, overdrawn @ (0 | 1), digest] => Some(Tat {
                at: Time::from_nanos(at),
                overdrawn: overdrawn == 1,
                digest: u16::try_from(digest).ok()?,
            }),
            _ => None,
        }
    }
}

/// An algorithm that is a flow with its own admission and capacity.
macro_rules! flow_algorithm {
    ($name:ident) => {
        impl $name {
            #[inline]
            pub(super) fn flow(&self) -> &$crate::algorithm::Flow {
                &self.flow
            }
        }

        impl $crate::algorithm::Rules for $name {
            type State = $crate::algorithm::Tat;

            fn capacity(&self) -> u32 {
                self.flow.capacity()
            }

            fn decide(
                &self,
                state: &mut Self::State,
                now: $crate::Time,
                ask: &$crate::charge::Ask,
            ) -> $crate::Decision {
                let (decision, next) = self.flow.decide(*state, now, ask);
                *state = next.unwrap_or(*state);
                decision
            }

            fn fresh_at(&self, state: &Self::State) -> $crate::Time {
                $crate::algorithm::Flow::fresh_at(state)
            }

            fn words(state: &Self::State) -> alloc::vec::Vec<u64> {
                $crate::algorithm::Flow::words(state)
            }

            fn from_words(words: &[u64]) -> Option<Self::State> {
                $crate::algorithm::Flow::from_words(words)
            }
        }
    };
}

pub(super) use flow_algorithm;
