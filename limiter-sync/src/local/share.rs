//! The share of a node: how much of the remaining tokens it spends between two sync rounds.
//!
//! A share is a bucket of its own. It refills at the node's part of the limit's rate, holds its part of the capacity,
//! and restarts in each sync round with its part of the central balance. Which part that is, `demand` and `peers` say.

use tollgate_core::{Limit, Time};

/// The part of the balance that is shared out. Every node sees the balance before the others have reported what they
/// took of it; all of it would be spent twice, followed by a pause.
const CAUTION: f64 = 0.5;

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
        (self.part.open * rate.capacity).max(self.wanted.into())
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
    /// it sent its deltas. The central store counts as answering until `answered_until`.
    pub(super) fn restart(
        &mut self,
        part: Part,
        balance: f64,
        pending: f64,
        rate: TokenRate,
        now: Time,
        answered_until: Time,
    ) {
        // What was saved for a cost that the share does not cover yet is kept.
        let saved = self.budget(rate, now).clamp(0.0, self.wanted.into());
        (self.part, self.at, self.answered_until) = (part, now, answered_until);
        let share = part.open * balance * if balance > 0.0 { CAUTION } else { 1.0 };
        self.left = (share + saved - pending).min(self.room(rate));
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
}
