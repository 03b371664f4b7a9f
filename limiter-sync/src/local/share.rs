//! The share of a node: how much of the remaining tokens it spends between two sync rounds.
//!
//! A share is a bucket of its own. It refills at the node's part of the limit's rate, holds its part of the capacity,
//! and restarts in each sync round with its part of the central balance. Which part that is, `demand` and `peers` say.

use tollgate_core::{Limit, Time};

/// The part of the balance that is shared out. Every node sees the balance before the others have reported what they
/// took of it; all of it would be spent twice, followed by a pause.
const CAUTION: f64 = 0.5;
/// While tokens are scarce, the part of what is beyond the reserve, or missing, that is made up for in a round. Nodes
/// with a small part spend what they may some rounds later: with more than this, all would spend too much in turn, and
/// then nothing.
const CORRECTION: f64 = 0.25;
/// The part of the capacity that nodes leave while tokens are scarce, so that a node with little demand finds a token
/// whenever it needs one.
const RESERVE: f64 = 1.0 / 16.0;
/// How many nanoseconds it takes at most to refill the reserve. What nodes leave of a daily quota would be missing.
const RESERVE_REFILLS_IN: f64 = 1e9;

/// The rate and capacity that shares are parts of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenRate {
    /// Nanoseconds per token.
    pub(super) token: f64,
    pub(super) capacity: f64,
}

impl TokenRate {
    #[expect(clippy::cast_precision_loss, reason = "shares are estimates")]
    pub(crate) fn of(limit: &Limit) -> Self {
        let token = crate::nanos(limit.period()) as f64 / f64::from(limit.count().max(1));
        Self { token, capacity: limit.capacity().into() }
    }

    /// Returns how many tokens nodes leave while tokens are scarce.
    pub(super) fn reserve(&self) -> f64 {
        (self.capacity * RESERVE).min(RESERVE_REFILLS_IN / self.token)
    }
}

/// The parts of a limit that belong to a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Part {
    /// What it may spend while the central store answers.
    pub(super) open: f64,
    /// What it may spend once the central store no longer answers: all nodes together have about one limit. A node with
    /// little demand may otherwise spend as much as one with a lot of it.
    pub(super) entitled: f64,
}

impl Part {
    pub(super) const WHOLE: Self = Self { open: 1.0, entitled: 1.0 };
}

/// What a node may spend until the next round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) part: Part,
    /// Tokens do not suffice for all nodes.
    pub(super) scarce: bool,
    /// The central store counts as answering until then.
    pub(super) answered_until: Time,
}

/// The share of a node that is not the only one.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeShare {
    part: Part,
    /// What was left of the share at an instant.
    left: f64,
    at: Time,
    /// From when on only the entitled part is refilled.
    answered_until: Time,
    /// The largest cost that the share did not cover: what it saves for. The share may be smaller than one token.
    wanted: f32,
}

impl NodeShare {
    pub(super) fn new(now: Time) -> Self {
        Self { part: Part::WHOLE, left: 0.0, at: now, answered_until: now, wanted: 0.0 }
    }

    /// Returns how many tokens this node may spend.
    #[inline]
    pub(super) fn budget(&self, rate: TokenRate, now: Time) -> f64 {
        let mut refilled = span(self.at, now.min(self.answered_until.max(self.at))) * self.part.open;
        if now > self.answered_until {
            refilled += span(self.at.max(self.answered_until), now) * self.part.entitled;
        }
        (self.left + refilled / rate.token).min(self.room(rate))
    }

    fn room(&self, rate: TokenRate) -> f64 {
        // While a caller comes for what was saved, the next token is being saved already.
        (self.part.open * rate.capacity).max(2.0 * f64::from(self.wanted))
    }

    /// Returns how many nanoseconds it takes until `cost` may be spent, without further rounds.
    pub(super) fn wait(&self, rate: TokenRate, cost: f64, now: Time) -> f64 {
        (cost - self.budget(rate, now)).max(0.0) * rate.token / self.part.open
    }

    /// Records a denial although there were tokens: they belong to the shares of other nodes.
    pub(super) fn miss(&mut self, cost: f64) {
        self.wanted = self.wanted.max(narrow(cost));
    }

    /// Spends `amount`; a negative amount is a refund.
    #[inline]
    pub(super) fn spend(&mut self, amount: f64, rate: TokenRate, now: Time) {
        self.left = self.budget(rate, now) - amount;
        self.at = self.at.max(now);
    }

    /// Fills the share, because a window starts.
    pub(super) fn fill(&mut self, rate: TokenRate, now: Time) {
        (self.left, self.at) = (self.room(rate), now);
    }

    /// Saves for no cost any more: no caller was denied lately.
    pub(super) fn stop_saving(&mut self) {
        self.wanted = 0.0;
    }

    /// Restarts after a sync round, with a part of the central `balance`, of which this node has spent `pending` since
    /// it sent its deltas.
    ///
    /// It keeps what it saves for a cost that its share does not cover yet. While tokens are scarce, the balance stays at
    /// the reserve, all that is refilled is shared out as it comes, and every node keeps a little of what it did not
    /// spend: as much as its part of the reserve, or two tokens.
    pub(super) fn restart(&mut self, terms: Terms, balance: f64, pending: f64, rate: TokenRate, now: Time) {
        let Terms { part, scarce, answered_until } = terms;
        let (shared, reserve) = if scarce {
            self.miss(1.0);
            let reserve = rate.reserve();
            ((balance - reserve) * CORRECTION, reserve)
        } else {
            (balance * if balance > 0.0 { CAUTION } else { 1.0 }, 0.0)
        };
        let kept = self.budget(rate, now).clamp(0.0, (part.open * reserve).max(2.0 * f64::from(self.wanted)));
        (self.part, self.at, self.answered_until) = (part, now, answered_until);
        self.left = (part.open * shared + kept - pending).min(self.room(rate));
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares are estimates")]
pub(super) fn nanos(nanos: u64) -> f64 {
    nanos as f64
}

#[expect(clippy::cast_possible_truncation, reason = "shares need no more than seven digits")]
pub(super) fn narrow(number: f64) -> f32 {
    number as f32
}

/// Nanoseconds from one instant to another; zero if the other is earlier.
#[inline]
pub(super) fn span(from: Time, to: Time) -> f64 {
    nanos(to.nanos().saturating_sub(from.nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of 100 per second, 40 at once, while the central store answers; then a tenth.
    const PART: Part = Part { open: 0.25, entitled: 0.1 };
    const RATE: TokenRate = TokenRate { token: 10_000_000.0, capacity: 40.0 };

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    fn assert_close(one: f64, other: f64) {
        assert!((one - other).abs() < 1e-6, "{one}, {other}");
    }

    #[test]
    fn a_share_refills_at_its_part_and_slower_without_an_answer() {
        let mut share = NodeShare { part: PART, left: 0.0, at: at(0), answered_until: at(200), wanted: 0.0 };
        assert_close(share.budget(RATE, at(200)), 5.0);
        assert_close(share.budget(RATE, at(300)), 6.0);
        assert_close(share.budget(RATE, at(60_000)), 10.0);
        share.spend(4.0, RATE, at(200));
        assert_close(share.budget(RATE, at(300)), 2.0);
        assert_close(share.wait(RATE, 3.0, at(200)), 2.0 * RATE.token / 0.25);
        share.spend(-100.0, RATE, at(200));
        assert_close(share.budget(RATE, at(200)), 10.0);
    }

    #[test]
    fn a_share_saves_for_a_cost_that_it_does_not_cover() {
        let mut share =
            NodeShare { part: PART, left: 0.0, at: at(0), answered_until: at(60_000), wanted: 0.0 };
        share.miss(25.0);
        assert_close(share.budget(RATE, at(1_000)), 25.0);
        share.stop_saving();
        assert_close(share.budget(RATE, at(1_000)), 10.0);
    }

    #[test]
    fn while_tokens_are_scarce_a_share_keeps_a_little_and_the_balance_stays_at_the_reserve() {
        let restarted = |scarce, balance| {
            let mut share =
                NodeShare { part: PART, left: 10.0, at: at(0), answered_until: at(60_000), wanted: 0.0 };
            share.restart(
                Terms { part: PART, scarce, answered_until: at(60_000) },
                balance,
                0.0,
                RATE,
                at(0),
            );
            share.budget(RATE, at(0))
        };
        assert_close(restarted(false, 20.0), 2.5);
        assert_close(restarted(false, -20.0), -5.0);
        assert_close(restarted(true, RATE.reserve()), 2.0);
        assert_close(restarted(true, RATE.reserve() + 16.0), 3.0);
        assert_close(restarted(true, RATE.reserve() - 16.0), 1.0);
        let slow = TokenRate { token: 4e9, capacity: 1_000.0 };
        assert_close(slow.reserve(), 0.25);
    }
}
