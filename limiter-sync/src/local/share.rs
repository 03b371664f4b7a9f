//! The share of a node: which part of the remaining tokens it spends between two sync rounds, learned from what all
//! nodes spent.
//!
//! A share is a bucket of its own. It refills at the node's part of the limit's rate, holds its part of the capacity,
//! and restarts in each sync round with its part of the central balance.

use tollgate_core::{Limit, Time};

/// The weight of the rounds before this one.
const DECAY: f64 = 0.8;
/// What a node may spend beyond its part, as a part of the whole: how nodes without a part get one.
const MIN_PART: f64 = 1.0 / 256.0;
/// Other nodes count as absent if they spent less than this part of what this node spent.
const NEGLIGIBLE: f32 = 0.01;
/// The part of the balance that is shared out. Every node sees the balance before the others have reported what they
/// took of it; all of it would be spent twice, followed by a pause.
const CAUTION: f64 = 0.5;

/// The rate and capacity that shares are parts of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenRate {
    /// Nanoseconds per token.
    token: f64,
    capacity: f64,
}

impl TokenRate {
    #[expect(clippy::cast_precision_loss, reason = "shares are estimates")]
    pub(crate) fn of(limit: &Limit) -> Self {
        let token = crate::nanos(limit.period()) as f64 / f64::from(limit.count().max(1));
        Self { token, capacity: limit.capacity().into() }
    }
}

/// The share of a node that is not the only one, and what it and the others spent in the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeShare {
    /// When the share is or was empty.
    empty_at: Time,
    own: f32,
    others: f32,
    /// Tokens granted at random, because the share is smaller than the requested cost.
    bonus: f32,
    /// The largest cost since the last round that the share did not cover.
    missed: f32,
}

impl NodeShare {
    /// Returns whether no other node spent anything lately: the share is the whole limit.
    pub(crate) fn is_whole(&self) -> bool {
        self.others <= self.own * NEGLIGIBLE
    }

    fn part(&self) -> f64 {
        let (own, others) = (f64::from(self.own), f64::from(self.others));
        (own / (own + others) + MIN_PART).min(1.0)
    }

    /// Returns how many tokens this node may spend.
    pub(crate) fn budget(&self, rate: TokenRate, now: Time) -> f64 {
        let part = self.part();
        let filled = span(self.empty_at, now) / rate.token * part;
        filled.min(part * rate.capacity) + f64::from(self.bonus)
    }

    /// Returns how many nanoseconds it takes until `cost` may be spent, without further rounds.
    pub(crate) fn wait(&self, rate: TokenRate, cost: f64, now: Time) -> f64 {
        (cost - self.budget(rate, now)).max(0.0) * rate.token / self.part()
    }

    /// Records a denial although there were tokens: they belong to the shares of other nodes.
    pub(crate) fn miss(&mut self, cost: f64) {
        self.missed = self.missed.max(narrow(cost));
    }

    /// Returns whether a denial was recorded since the last round: the next one may help.
    pub(crate) fn missed(&self) -> bool {
        self.missed > 0.0
    }

    /// Spends `amount`; a negative amount is a refund.
    pub(crate) fn spend(&mut self, amount: f64, rate: TokenRate, now: Time) {
        let bonus = f64::from(self.bonus).min(amount).max(0.0);
        self.bonus -= narrow(bonus);
        let full = before(now, rate.capacity * rate.token);
        self.empty_at = after(self.empty_at.max(full), (amount - bonus) * rate.token / self.part());
    }

    /// Fills the share, because a window starts.
    pub(crate) fn fill(&mut self, rate: TokenRate, now: Time) {
        self.empty_at = before(now, rate.capacity * rate.token);
    }

    /// Learns from a sync round. `random` is a random number below 1.
    pub(crate) fn learn(&mut self, usage: Usage, rate: TokenRate, now: Time, random: f64) {
        let Usage { own, others, pending, remaining } = usage;
        let (unused, missed) = (self.budget(rate, now), f64::from(self.missed));
        if own + others > 0.0 {
            self.own = narrow(f64::from(self.own) * DECAY + own);
            self.others = narrow(f64::from(self.others) * DECAY + others);
        }
        let part = self.part();
        let balance = remaining + pending;
        let budget = part * balance * if balance > 0.0 { CAUTION } else { 1.0 } - pending;
        self.empty_at = before(now, budget * rate.token / part);
        // A share smaller than the requested cost is spent at random, as often as makes it the share in the long run.
        let wins = missed > 0.0 && unused > 0.0 && unused < missed && random * missed < unused;
        self.bonus = if wins { self.missed } else { 0.0 };
        self.missed = 0.0;
    }
}

/// What a sync round reports about a key, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// What this node sent.
    pub(crate) own: f64,
    /// What the other nodes spent.
    pub(crate) others: f64,
    /// What this node has spent since it sent its deltas.
    pub(crate) pending: f64,
    /// What remains, with the pending deltas subtracted.
    pub(crate) remaining: f64,
}

#[expect(clippy::cast_possible_truncation, reason = "shares need no more than seven digits")]
fn narrow(number: f64) -> f32 {
    number as f32
}

/// Nanoseconds from one instant to another; negative if the other is earlier.
#[expect(clippy::cast_precision_loss, reason = "shares are estimates")]
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

    /// 100 per second, with a burst of 100.
    fn rate() -> TokenRate {
        TokenRate::of(&Limit::per_second(100).build("api").expect("valid"))
    }

    fn share_after(own: f64, others: f64, remaining: f64) -> NodeShare {
        let mut share = NodeShare::default();
        share.learn(Usage { own, others, pending: 0.0, remaining }, rate(), NOW, 0.5);
        share
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-3
    }

    #[test]
    fn a_single_node_has_the_whole_limit() {
        assert!(share_after(10.0, 0.0, 5.0).is_whole());
    }

    #[test]
    fn a_part_is_what_the_node_spent_of_the_total_plus_the_minimum() {
        let mut share = share_after(25.0, 75.0, 80.0);
        let part = 0.25 + MIN_PART;
        assert!(close(share.budget(rate(), NOW), part * 80.0 * CAUTION));
        share.spend(7.0, rate(), NOW);
        assert!(close(share.budget(rate(), NOW), part * 80.0 * CAUTION - 7.0));
        let later = NOW + std::time::Duration::from_millis(100);
        assert!(close(share.budget(rate(), later), part * (80.0 * CAUTION + 10.0) - 7.0), "a part of ten");
        let much_later = NOW + std::time::Duration::from_secs(60);
        assert!(close(share.budget(rate(), much_later), part * 100.0), "at most a part of the capacity");
        assert!(share_after(25.0, 75.0, -50.0).budget(rate(), NOW) < 0.0, "every node has a part of a debt");
    }

    #[test]
    fn a_share_below_one_token_is_spent_in_proportion() {
        let mut wins = 0;
        for random in 0..1_000 {
            let mut share = share_after(10.0, 90.0, 4.0);
            let budget = share.budget(rate(), NOW);
            share.miss(1.0);
            let usage = Usage { own: 0.0, others: 1.0, pending: 0.0, remaining: 2.0 };
            share.learn(usage, rate(), NOW, f64::from(random) / 1_000.0);
            assert_eq!(share.bonus > 0.0, f64::from(random) / 1_000.0 < budget);
            wins += u32::from(share.bonus > 0.0);
        }
        assert!((200..240).contains(&wins), "{wins}");
    }
}
