//! Which part of what is left one node spends between two exchanges, learnt from what all of them spent.
//!
//! A share is a bucket of its own: it fills at the node's part of the limit's rate, holds its part of the capacity, and begins
//! anew at each exchange with its part of what the centre has left.

use tollgate_core::{Limit, Time};

/// How much an exchange weighs against those before it.
const MEMORY: f64 = 0.8;
/// What a node may spend beyond its part of what was spent, as a part of all: how those come in that had nothing.
const FLOOR: f64 = 1.0 / 256.0;
/// What others spent is nobody's if it is less than this part of what was spent here.
const NOBODY: f32 = 0.01;
/// How much of what is left counts. Everybody sees it before anybody has told what they took of it, so that all of it would be
/// taken twice, and then nothing for a while.
const CAUTION: f64 = 0.5;

/// The rate that shares are parts of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Nanoseconds that a token takes.
    token: f64,
    capacity: f64,
}

impl Rate {
    #[expect(clippy::cast_precision_loss, reason = "a share of a number, not a count")]
    pub(crate) fn of(limit: &Limit) -> Self {
        let token = crate::terms::nanos(limit.period()) as f64 / f64::from(limit.count().max(1));
        Self { token, capacity: limit.capacity().into() }
    }
}

/// What a node may spend that has seen others, and what it and they spent at the last exchanges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// When there was nothing left to spend, or will be.
    empty_at: Time,
    own: f32,
    others: f32,
    /// Tokens that a die granted because the share of what was left is less than what is asked for.
    luck: f32,
    /// The largest cost that the share did not reach since the last exchange.
    missed: f32,
}

impl Share {
    /// Whether nobody else was seen lately: all of it is ours.
    pub(crate) fn is_whole(&self) -> bool {
        self.others <= self.own * NOBODY
    }

    fn part(&self) -> f64 {
        let (own, others) = (f64::from(self.own), f64::from(self.others));
        (own / (own + others) + FLOOR).min(1.0)
    }

    /// How many tokens this node may spend.
    pub(crate) fn budget(&self, rate: Rate, now: Time) -> f64 {
        let part = self.part();
        let filled = span(self.empty_at, now) / rate.token * part;
        filled.min(part * rate.capacity) + f64::from(self.luck)
    }

    /// How many nanoseconds until so many tokens may be spent, if nothing happens before.
    pub(crate) fn wait(&self, rate: Rate, cost: f64, now: Time) -> f64 {
        (cost - self.budget(rate, now)).max(0.0) * rate.token / self.part()
    }

    /// Somebody was turned away although there were tokens left, only not here.
    pub(crate) fn miss(&mut self, cost: f64) {
        self.missed = self.missed.max(narrow(cost));
    }

    /// Whether that happened since the last exchange: the next one may help.
    pub(crate) fn missed(&self) -> bool {
        self.missed > 0.0
    }

    /// Spent here; given back if it is less than nothing.
    pub(crate) fn spend(&mut self, amount: f64, rate: Rate, now: Time) {
        let lucky = f64::from(self.luck).min(amount).max(0.0);
        self.luck -= narrow(lucky);
        let full = before(now, rate.capacity * rate.token);
        self.empty_at = after(self.empty_at.max(full), (amount - lucky) * rate.token / self.part());
    }

    /// A window begins, and with it everything is there.
    pub(crate) fn refilled(&mut self, rate: Rate, now: Time) {
        self.empty_at = before(now, rate.capacity * rate.token);
    }

    /// An exchange told something. `die` is a random number below 1.
    pub(crate) fn learn(&mut self, news: News, rate: Rate, now: Time, die: f64) {
        let News { own, others, pending, left } = news;
        let (unused, missed) = (self.budget(rate, now), f64::from(self.missed));
        if own + others > 0.0 {
            self.own = narrow(f64::from(self.own) * MEMORY + own);
            self.others = narrow(f64::from(self.others) * MEMORY + others);
        }
        let part = self.part();
        let there = left + pending;
        let budget = part * there * if there > 0.0 { CAUTION } else { 1.0 } - pending;
        self.empty_at = before(now, budget * rate.token / part);
        // Less than is asked for can only be spent now and then: as often as to make it the share in the long run.
        let lucky = missed > 0.0 && unused > 0.0 && unused < missed && die * missed < unused;
        self.luck = if lucky { self.missed } else { 0.0 };
        self.missed = 0.0;
    }
}

/// What an exchange tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// What was booked for this node, and what the others spent.
    pub(crate) own: f64,
    pub(crate) others: f64,
    /// What was spent here since.
    pub(crate) pending: f64,
    /// What is there.
    pub(crate) left: f64,
}

#[expect(clippy::cast_possible_truncation, reason = "shares need no more than seven digits")]
fn narrow(number: f64) -> f32 {
    number as f32
}

/// Nanoseconds from one instant to another, less than none if it is the other way round.
#[expect(clippy::cast_precision_loss, reason = "a share of a number, not a count")]
#[inline]
fn span(from: Time, to: Time) -> f64 {
    to.nanos().cast_signed().wrapping_sub(from.nanos().cast_signed()) as f64
}

#[expect(clippy::cast_possible_truncation, reason = "saturating")]
fn after(time: Time, nanos: f64) -> Time {
    Time::from_nanos(time.nanos().saturating_add_signed(nanos as i64))
}

fn before(time: Time, nanos: f64) -> Time {
    after(time, -nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_790_000_000);

    /// A hundred a second, at most a hundred at once.
    fn rate() -> Rate {
        Rate::of(&Limit::per_second(100).build("api").expect("valid"))
    }

    fn told(own: f64, others: f64, left: f64) -> Share {
        let mut share = Share::default();
        share.learn(News { own, others, pending: 0.0, left }, rate(), NOW, 0.5);
        share
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-3
    }

    #[test]
    fn alone_everything_is_ours() {
        assert!(told(10.0, 0.0, 5.0).is_whole());
    }

    #[test]
    fn a_part_is_what_was_spent_of_all_and_a_little() {
        let mut share = told(25.0, 75.0, 80.0);
        let part = 0.25 + FLOOR;
        assert!(close(share.budget(rate(), NOW), part * 80.0 * CAUTION));
        share.spend(7.0, rate(), NOW);
        assert!(close(share.budget(rate(), NOW), part * 80.0 * CAUTION - 7.0));
        let later = NOW + std::time::Duration::from_millis(100);
        assert!(close(share.budget(rate(), later), part * (80.0 * CAUTION + 10.0) - 7.0), "a part of ten");
        let much_later = NOW + std::time::Duration::from_secs(60);
        assert!(close(share.budget(rate(), much_later), part * 100.0), "and no more than a part of all");
        assert!(told(25.0, 75.0, -50.0).budget(rate(), NOW) < 0.0, "of a debt everyone has a part");
    }

    #[test]
    fn less_than_a_token_is_spent_as_often_as_it_is_due() {
        let mut lucky = 0;
        for die in 0..1_000 {
            let mut share = told(10.0, 90.0, 4.0);
            let due = share.budget(rate(), NOW);
            share.miss(1.0);
            let news = News { own: 0.0, others: 1.0, pending: 0.0, left: 2.0 };
            share.learn(news, rate(), NOW, f64::from(die) / 1_000.0);
            assert_eq!(share.luck > 0.0, f64::from(die) / 1_000.0 < due);
            lucky += u32::from(share.luck > 0.0);
        }
        assert!((200..240).contains(&lucky), "{lucky}");
    }
}
