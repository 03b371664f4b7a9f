//! A copy of a key's state, by which checks are decided here: what the centre had at the last exchange, and what was granted
//! since.

use tollgate_core::store::{Flow, PlainTake, RawDecision, State, Tat};
use tollgate_core::{Action, Charge, Decision, Outcome, Source, Time};

use crate::owed::{Booking, Entry, Owed};
use crate::share::{News, Share};
use crate::terms::{Tracked, WhenStale};

/// After how many intervals what was not told yet is late: the centre did not answer, or everybody would tell so late.
const LATE: u64 = 4;

/// A state in little space: that of a bucket is a word and a half, and nearly all are buckets.
#[derive(Clone, Debug)]
enum Kept {
    Bucket(Tat),
    Other(Box<State>),
}

impl Default for Kept {
    fn default() -> Self {
        Self::Bucket(Tat::default())
    }
}

impl From<State> for Kept {
    fn from(state: State) -> Self {
        match state.as_flow() {
            Some(full) => Self::Bucket(full),
            None => Self::Other(Box::new(state)),
        }
    }
}

/// What is known here of a key. Small, because a decision touches nothing else if nobody else is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mirror {
    kept: Kept,
    owed: Owed,
    company: Option<Box<Company>>,
}

/// What a node has to know that shares a key with others.
#[derive(Clone, Copy, Debug, Default)]
struct Company {
    share: Share,
    /// When the first of the takes was that wait to be told.
    begin: Time,
}

impl Mirror {
    pub(crate) fn from_centre(state: State) -> Self {
        Self { kept: state.into(), ..Self::default() }
    }

    pub(crate) fn state(&self) -> State {
        match &self.kept {
            Kept::Bucket(full) => State::from_flow(*full),
            Kept::Other(state) => State::clone(state),
        }
    }

    /// From when on the state equals a fresh one.
    pub(crate) fn fresh_at(&self) -> Time {
        match &self.kept {
            Kept::Bucket(full) => full.at,
            Kept::Other(state) => state.fresh_at(),
        }
    }

    fn apply(&mut self, charge: &Charge<'_>, now: Time) -> Decision {
        match &mut self.kept {
            Kept::Bucket(full) => {
                let mut state = State::from_flow(*full);
                let decision = state.apply(charge, now);
                self.kept = state.into();
                decision
            }
            Kept::Other(state) => state.apply(charge, now),
        }
    }

    /// Whether something is to be booked at the centre.
    pub(crate) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Whether an exchange is worth something: there is something to book, or somebody was turned away for want of a share.
    pub(crate) fn wants_exchange(&self) -> bool {
        self.owes() || self.company.as_ref().is_some_and(|company| company.share.missed())
    }

    /// What is to be booked, from now on on its way, and whether it took long to come to that.
    pub(crate) fn hand_out(&mut self, tracked: &Tracked, now: Time) -> (Owed, bool) {
        let mut owed = std::mem::take(&mut self.owed);
        let Some(company) = &self.company else { return (owed, false) };
        let waited = now.nanos().saturating_sub(company.begin.nanos());
        let late = matches!(tracked.booking, Booking::Drip { .. })
            && owed.is_taking()
            && waited > tracked.interval.saturating_mul(LATE);
        if late {
            // Others have taken from it meanwhile, too. If all of them told that it was just now, what came in meanwhile would be
            // missing once for each.
            owed.begun(company.begin);
        }
        (owed, late)
    }

    /// Decides a charge that stands alone.
    #[inline]
    pub(crate) fn decide(&mut self, charge: &Charge<'_>, tracked: &Tracked, now: Time) -> Decision {
        match self.within_share(charge, tracked, now) {
            Ok(charge) => {
                let decision = self.apply(&charge, now);
                self.note(&charge, &decision, tracked, now);
                decision
            }
            Err(denial) => denial,
        }
    }

    /// Takes from a plain bucket, if this node's share has room for it or nobody has: what nearly every call does.
    #[inline]
    pub(crate) fn take(&mut self, flow: &Flow, cost: u32, tracked: &Tracked, now: Time) -> Option<PlainTake> {
        let Kept::Bucket(full) = &mut self.kept else { return None };
        if full.digest != flow.digest() && full.at != Time::EPOCH {
            return None;
        }
        let take = flow.take(full.at, now, cost);
        let Some(next) = take.next() else { return Some(take) };
        if let Some(company) = &mut self.company {
            if company.share.budget(tracked.rate, now) < f64::from(cost) {
                return None;
            }
            company.spend(cost.into(), &self.owed, tracked, now);
        }
        *full = flow.state(next.nanos(), false);
        self.owed.take(tracked.booking, cost, now);
        Some(take)
    }

    /// The part of a charge that this node's share has room for, or what its caller is told.
    pub(crate) fn within_share<'a>(
        &mut self,
        charge: &Charge<'a>,
        tracked: &Tracked,
        now: Time,
    ) -> Result<Charge<'a>, Decision> {
        let cost = charge.cost();
        if self.company.is_none() || !takes(charge) || cost == 0 {
            return Ok(*charge);
        }
        let begins = !matches!(tracked.booking, Booking::Drip { .. }) && self.fresh_at() <= now;
        let there = self.look(charge, now);
        let left = tokens(&there);
        let Some(Company { share, .. }) = self.company.as_deref_mut() else { return Ok(*charge) };
        if begins {
            share.refilled(tracked.rate, now);
        }
        let budget = share.budget(tracked.rate, now);
        let up_to = matches!(charge.action(), Action::TakeUpTo);
        let (least, wanted) =
            if up_to { (1.0, left.min(cost.into())) } else { (f64::from(cost), f64::from(cost)) };
        if budget >= wanted || left < least {
            // What is not even there is denied by the mirror itself, with the wait that cures it.
            return Ok(*charge);
        }
        share.miss(wanted);
        if up_to && budget >= 1.0 {
            return Ok(charge.with_cost(whole(budget)));
        }
        // There is something, only not for this node: until its share has come in, or the next exchange tells more.
        let wait = nanos(share.wait(tracked.rate, f64::from(cost), now));
        let wait = (tracked.interval / 2).min(wait).max(1);
        Err(RawDecision { outcome: Outcome::Denied, granted: 0, wait, ..there.raw() }.into())
    }

    /// What is there; changes nothing.
    fn look(&mut self, charge: &Charge<'_>, now: Time) -> Decision {
        self.apply(&charge.with_cost(0).with_action(Action::Take { max_wait: None }), now)
    }

    /// Remembers what a decision granted.
    #[inline]
    pub(crate) fn note(&mut self, charge: &Charge<'_>, decision: &Decision, tracked: &Tracked, now: Time) {
        let granted = decision.granted();
        // A refund that is worth nothing here may be worth something to others.
        let books = matches!(charge.action(), Action::Debit { .. } | Action::Refund { .. });
        let nothing = if books { charge.cost() == 0 } else { granted == 0 };
        if nothing || decision.is_denied() {
            return;
        }
        let back = matches!(charge.action(), Action::Refund { .. });
        if let Some(company) = &mut self.company {
            let amount = if back { -f64::from(granted) } else { f64::from(granted) };
            company.spend(amount, &self.owed, tracked, now);
        }
        match charge.action() {
            // As it was asked for: how much of a refund is worth something is for the centre to say.
            action @ (Action::Debit { .. } | Action::Refund { .. }) => {
                self.owed.book(tracked.booking, charge.cost(), granted, given(action, now));
            }
            _ => self.owed.take(tracked.booking, granted, now),
        }
    }

    /// What the request of several charges made of the state.
    pub(crate) fn set_state(&mut self, state: State) {
        self.kept = state.into();
    }

    /// Decides while the centre is silent.
    pub(crate) fn decide_stale(&mut self, charge: &Charge<'_>, tracked: &Tracked, now: Time) -> Decision {
        let decision = match tracked.when_stale {
            WhenStale::GoOn => self.decide(charge, tracked, now),
            _ if !takes(charge) => self.decide(charge, tracked, now),
            WhenStale::Deny => return deny(charge, tracked),
            WhenStale::Shrink { .. } => {
                let Some(shrunk) = &tracked.shrunk else { return deny(charge, tracked) };
                let before = self.kept.clone();
                let decision = self.apply(&charge.with_limit(shrunk), now);
                if decision.is_denied() {
                    // A look under other numbers, which must not change what is there under the limit's own.
                    self.kept = before;
                }
                self.note(charge, &decision, tracked, now);
                decision
            }
        };
        decision.raw().with_source(Source::Fallback).into()
    }

    /// The centre has booked what was handed out, and this is what it has now. Says how far below zero that is, in tokens.
    pub(crate) fn told(&mut self, told: Told, tracked: &Tracked, now: Time, die: f64) -> f64 {
        let look = tracked.limit.charge("");
        let before = tokens(&self.look(&look, now));
        let here = std::mem::replace(&mut self.kept, told.centre.into());
        let here = Self { kept: here, ..Self::default() };
        let drips = matches!(tracked.booking, Booking::Drip { .. });
        let forgotten = drips && self.fresh_at() <= now;
        let debt = -tokens(&self.look(&look, now));
        // A bucket that is full says no more when it was used last. That was now, at the latest.
        self.replay(&look, now, if forgotten { at_once } else { |action| action });
        // Or as late as is known here. What was told late counts at the centre as if it had been spread over time, but here it is
        // known when it was.
        let known_better = (forgotten && self.owes() && here.fresh_at() < self.fresh_at())
            || (told.late && here.fresh_at() > self.fresh_at());
        if known_better {
            self.kept = here.kept;
        }
        let left = tokens(&self.look(&look, now));
        let news = News {
            own: signed(told.sent.max(0)),
            // Less than a token is nobody's.
            others: if before - left < 0.5 || !told.by_its_clock { 0.0 } else { before - left },
            pending: signed(self.owed.sum().max(0)),
            left,
        };
        // What waits to be told now began no earlier than that, as far as is known.
        let met = || Box::new(Company { begin: now, ..Company::default() });
        let mut company = self.company.take().unwrap_or_else(met);
        company.share.learn(news, tracked.rate, now, die);
        self.company = (!company.share.is_whole()).then_some(company);
        debt.max(0.0)
    }

    /// What is owed, on top of what the centre had.
    fn replay(&mut self, charge: &Charge<'_>, now: Time, belongs: fn(Action) -> Action) {
        let owed = std::mem::take(&mut self.owed);
        for (part, action) in owed.entries().flat_map(Entry::charges) {
            let _ = self.apply(&charge.with_cost(part).with_action(belongs(action)), now);
        }
        self.owed = owed;
    }

    /// The centre granted this itself, so nothing is owed for it.
    pub(crate) fn granted_by_centre(&mut self, charge: &Charge<'_>, decision: &Decision, now: Time) {
        let action = match charge.action() {
            Action::Reset => {
                // What was granted here meanwhile is still to be told.
                (self.kept, self.company) = (Kept::default(), None);
                return self.replay(charge, now, |action| action);
            }
            action @ (Action::Debit { .. } | Action::Refund { .. }) => action,
            _ => Action::Debit { at: None },
        };
        if decision.is_allowed() && decision.granted() > 0 {
            let _ = self.apply(&charge.with_cost(decision.granted()).with_action(action), now);
        }
    }
}

impl Company {
    /// Something is spent, beside what is owed already.
    fn spend(&mut self, amount: f64, owed: &Owed, tracked: &Tracked, now: Time) {
        if !owed.is_taking() {
            self.begin = now;
        }
        self.share.spend(amount, tracked.rate, now);
    }
}

/// What an exchange brought back.
#[derive(Debug)]
pub(crate) struct Told {
    /// What the centre has.
    pub(crate) centre: State,
    /// What was booked, all in all.
    pub(crate) sent: i64,
    /// It took long to come to that.
    pub(crate) late: bool,
    /// What was known here goes by the centre's clock. Otherwise it cannot be compared.
    pub(crate) by_its_clock: bool,
}

/// Whether a charge asks for something, rather than saying what is so.
pub(crate) fn takes(charge: &Charge<'_>) -> bool {
    matches!(charge.action(), Action::Take { .. } | Action::TakeUpTo)
}

/// Nothing passes while the centre is silent.
pub(crate) fn deny(charge: &Charge<'_>, tracked: &Tracked) -> Decision {
    RawDecision::deny(charge, std::time::Duration::from_nanos(tracked.interval), Source::Policy).into()
}

/// The same, whatever instant it belongs to.
fn at_once(action: Action) -> Action {
    match action {
        Action::Debit { .. } => Action::Debit { at: None },
        other => other,
    }
}

/// A debit or refund of now belongs to now, however late it is booked.
fn given(action: Action, now: Time) -> Action {
    match action {
        Action::Debit { at } => Action::Debit { at: at.or(Some(now)) },
        Action::Refund { at } => Action::Refund { at: at.or(Some(now)) },
        other => other,
    }
}

/// How many tokens are left; less than none is debt.
#[expect(clippy::cast_precision_loss, reason = "a share of a number, not a count")]
fn tokens(decision: &Decision) -> f64 {
    let raw = decision.raw();
    raw.left as f64 / raw.unit as f64
}

#[expect(clippy::cast_precision_loss, reason = "a share of a number, not a count")]
fn signed(amount: i64) -> f64 {
    amount as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least one, and saturating")]
fn whole(tokens: f64) -> u32 {
    tokens as u32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn nanos(span: f64) -> u64 {
    span as u64
}
