//! Tokens that were taken from the centre ahead of need, by which checks are decided here.

use std::sync::Arc;

use tokio::sync::Notify;
use tollgate_core::store::{RawDecision, State};
use tollgate_core::{Action, Charge, Decision, Outcome, Source, Time};

use crate::mirror::takes;
use crate::owed::Booking;
use crate::terms::{Tracked, nanos};

/// How much the last interval weighs in what the next one is expected to need.
const NEWS: f64 = 0.5;
/// How much more than expected is taken.
const MARGIN: f64 = 1.25;

/// What is leased for a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    tokens: u32,
    /// Tokens that nobody here may use: they go back with the next exchange.
    surplus: u32,
    /// When the last of them were taken, by the clock that decides.
    taken_at: Time,
    /// Until when the centre does not have so many more, as far as is known.
    empty_until: Time,
    empty_of: u32,
    /// What the centre had left when it was asked last, and when it will be as good as unused.
    left: u32,
    reset_at: Time,
    /// What was asked for since the last exchange, passed or not, and what an interval needs.
    asked: u64,
    need: f64,
    /// Somebody asks the centre for more; who waits for it is woken.
    filling: Option<Arc<Notify>>,
}

/// What a pool makes of a charge.
#[derive(Debug)]
pub(crate) enum Drawn {
    /// Decided.
    Decided(Decision),
    /// The centre has to be asked first.
    Lacking,
}

/// What an exchange does for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upkeep {
    /// Takes so many more.
    Take(u32),
    /// Gives so many back.
    Return(u32),
    /// Nothing, but somebody used it.
    Wait,
    /// Nothing: nobody uses it any more.
    Rest,
}

impl Pool {
    /// Whether this charge can be decided by tokens in hand, or by getting some. What books or reserves is the centre's, and so is
    /// what only looks while there is nothing to see.
    pub(crate) fn decides(&self, charge: &Charge<'_>) -> bool {
        takes(charge) && (charge.cost() > 0 || self.tokens > 0)
    }

    /// Whether the centre has lent something, or is being asked to.
    pub(crate) fn owes(&self) -> bool {
        self.tokens > 0 || self.surplus > 0 || self.filling.is_some()
    }

    /// As good as a pool that nobody has used.
    pub(crate) fn is_idle(&self, now: Time) -> bool {
        self.rests() && self.empty_until <= now
    }

    /// Decides a charge by what is there.
    pub(crate) fn draw(&mut self, charge: &Charge<'_>, now: Time) -> Drawn {
        let cost = charge.cost();
        if cost > charge.limit().capacity() && !matches!(charge.action(), Action::TakeUpTo) {
            // The pure function says so without looking at the state.
            return Drawn::Decided(State::default().apply(charge, now));
        }
        self.asked = self.asked.saturating_add(cost.into());
        self.redraw(charge, now)
    }

    /// Decides a charge that was counted before.
    pub(crate) fn redraw(&mut self, charge: &Charge<'_>, now: Time) -> Drawn {
        let cost = charge.cost();
        let part = if matches!(charge.action(), Action::TakeUpTo) { self.tokens.min(cost) } else { cost };
        if self.tokens >= part.max(1) {
            self.tokens -= part;
            return Drawn::Decided(self.answer(charge, Outcome::Allowed, part, 0, now));
        }
        if now >= self.empty_until || part.max(1) - self.tokens < self.empty_of {
            return Drawn::Lacking;
        }
        let wait = self.empty_until.nanos() - now.nanos();
        Drawn::Decided(self.answer(charge, Outcome::Denied, 0, wait, now))
    }

    /// Gives back what a request drew that another of its charges stopped.
    pub(crate) fn put_back(&mut self, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// No more than so many are for use from now on: the limit has become smaller.
    pub(crate) fn keep_at_most(&mut self, most: u32) {
        let over = self.tokens.saturating_sub(most);
        self.tokens -= over;
        self.not_returned(over);
    }

    /// What should have gone back is still here.
    pub(crate) fn not_returned(&mut self, tokens: u32) {
        self.surplus = self.surplus.saturating_add(tokens);
    }

    fn answer(&self, charge: &Charge<'_>, outcome: Outcome, granted: u32, wait: u64, now: Time) -> Decision {
        let limit = charge.limit().capacity();
        let left = i64::from(self.tokens.saturating_add(self.left).min(limit));
        let reset = self.reset_at.nanos().saturating_sub(now.nanos());
        RawDecision { outcome, source: Source::Store, granted, limit, left, unit: 1, wait, reset }.into()
    }

    /// Somebody else is asking the centre: whom to wait for.
    pub(crate) fn filling(&self) -> Option<Arc<Notify>> {
        self.filling.clone()
    }

    /// Begins to ask the centre for what a charge lacks. One token or more will do for most; what needs several needs all
    /// of them.
    pub(crate) fn begin<'a>(&mut self, charge: &Charge<'a>, tracked: &Tracked) -> Charge<'a> {
        self.filling = Some(Arc::default());
        let lack = charge.cost().saturating_sub(self.tokens).max(1);
        if lack > 1 && !matches!(charge.action(), Action::TakeUpTo) {
            return charge.with_cost(lack);
        }
        // Whoever came since the last exchange will come again before the next.
        let asked = u32::try_from(self.asked).unwrap_or(u32::MAX);
        let block = self.wanted().max(asked).min(tracked.most_leased.saturating_sub(self.tokens));
        charge.with_cost(block.max(lack)).with_action(Action::TakeUpTo)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating"
    )]
    fn wanted(&self) -> u32 {
        (self.need * MARGIN).ceil() as u32
    }

    /// The centre has answered.
    pub(crate) fn filled(
        &mut self,
        wanted: &Charge<'_>,
        decision: &Decision,
        decided_at: Time,
        tracked: &Tracked,
    ) {
        let (asked, whole) = (wanted.cost(), !matches!(wanted.action(), Action::TakeUpTo));
        let granted = if decision.is_allowed() { decision.granted() } else { 0 };
        self.tokens = self.tokens.saturating_add(granted);
        self.left = decision.remaining();
        self.reset_at = decided_at + decision.reset_after();
        if granted > 0 {
            self.taken_at = decided_at;
        }
        if granted < asked {
            // It has no more of them. Asking again for every token that drips would ask all the time; a quarter of an interval, or
            // of what it takes to fill the limit, loses none.
            let fill = nanos(tracked.limit.period()) / u64::from(tracked.limit.count().max(1))
                * u64::from(tracked.limit.capacity());
            let pause = (tracked.interval.min(fill) / 4).max(1);
            let wait = decision.retry_after().map_or(0, nanos).max(pause);
            self.empty_until = Time::from_nanos(decided_at.nanos().saturating_add(wait));
            self.empty_of = if whole { asked } else { 1 };
        }
        self.end();
    }

    /// Nobody asks any more, whatever became of it.
    pub(crate) fn end(&mut self) {
        if let Some(filling) = self.filling.take() {
            filling.notify_waiters();
        }
    }

    /// The centre could not be asked: nothing more passes until it can be asked again.
    pub(crate) fn unreachable(&mut self, tracked: &Tracked, now: Time) {
        self.empty_until = Time::from_nanos(now.nanos().saturating_add(tracked.interval));
        self.empty_of = 1;
        self.end();
    }

    /// What an exchange has to do, and begins with it.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn upkeep(&mut self, tracked: &Tracked, now: Time) -> Upkeep {
        self.need = self.need * (1.0 - NEWS) + self.asked as f64 * NEWS;
        let used = std::mem::take(&mut self.asked) > 0;
        if self.filling.is_some() {
            return Upkeep::Wait;
        }
        let target = if self.need < 0.5 { 0 } else { self.wanted().min(tracked.most_leased) };
        if self.tokens > target.saturating_mul(2) {
            self.keep_at_most(target);
        }
        if self.surplus > 0 {
            return Upkeep::Return(std::mem::take(&mut self.surplus));
        }
        if self.tokens < target && now >= self.empty_until {
            self.filling = Some(Arc::default());
            return Upkeep::Take(target - self.tokens);
        }
        if used || target > 0 { Upkeep::Wait } else { Upkeep::Rest }
    }

    /// Gives back everything that is leased.
    pub(crate) fn hand_back(&mut self) -> Upkeep {
        (self.asked, self.need) = (0, 0.0);
        self.keep_at_most(0);
        match std::mem::take(&mut self.surplus) {
            0 => Upkeep::Rest,
            tokens => Upkeep::Return(tokens),
        }
    }

    /// Nobody uses it any more.
    pub(crate) fn rests(&self) -> bool {
        !self.owes() && self.asked == 0 && self.need < 0.5
    }

    /// What gives tokens back to the centre.
    pub(crate) fn returning(&self, tracked: &Tracked) -> Action {
        // A window that is over takes nothing back; a bucket never holds more than it can.
        let at = matches!(tracked.booking, Booking::Slots { .. }).then_some(self.taken_at);
        Action::Refund { at }
    }
}
