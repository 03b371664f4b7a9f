//! What a replica keeps if other nodes use its key, too: this node's share, and what is needed to compute it.

use tollgate_core::{Limit, Time};

use super::advance::Advance;
use super::demand::{Demand, DemandReport};
use super::pending::PendingDeltas;
use super::share::{NodeShare, Part, Terms, nanos, narrow};
use super::usage::{self, LastAnswer, LateGrants, Usage};
use crate::config::LimitConfig;

/// The weight of the rounds before this one.
const DECAY: f64 = 0.8;
/// What a node may spend beyond its part, as a part of the whole: how nodes without a part get one.
const MIN_PART: f64 = 1.0 / 256.0;
/// Other nodes count as absent if they spent less than this part of what this node spent.
const NEGLIGIBLE: f32 = 0.01;
/// How much more than its demand a satisfied node may spend without an answer from the central store.
const MARGIN: f64 = 1.25;
/// How much more than the fair part nodes may spend: some of what is refilled would be lost otherwise, because nodes
/// spend a little less than they may, and a small bucket is full soon. The balance shows if it is too much.
const SLACK: f64 = 1.0 / 64.0;
/// Tokens are scarce if less than this part of the capacity is left.
const SCARCE: f64 = 1.0 / 8.0;
/// After how many intervals pending deltas are late: the central store did not answer. At least so many nanoseconds:
/// with short intervals, it is the calls that take the time.
const LATE_AFTER: u64 = 4;
const MIN_LATE_AFTER: u64 = 250_000_000;
/// How long a node keeps its part after an outage, in intervals: other nodes are back about then.
const RECOVERY: u64 = 10;
const MIN_RECOVERY: u64 = 1_000_000_000;

/// What a replica keeps if other nodes use its key, too.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) share: NodeShare,
    pub(super) demand: Demand,
    pub(super) advance: Advance,
    /// What this node and the others spent in the last rounds.
    own: f32,
    others: f32,
    /// The other nodes spend next to nothing: this one has the whole limit.
    alone: bool,
    /// When they last spent something, as far as is known.
    shared_at: Time,
    /// When the first of the pending deltas was granted.
    pending_since: Time,
    /// The central store did not answer while they became pending: a call before them failed. Without that, they are
    /// not late, however long sync rounds take: nodes would forgive each other what they spend too much in each round.
    after_outage: bool,
    /// What was known at the last round whose deltas were not late; `None` before the first.
    last: Option<LastAnswer>,
    recovery: Recovery,
    /// What was debited and is to be added to the usage record.
    unreported: u64,
    /// What the next round debits to repay late grants, which the usage record contains already.
    owed: LateGrants,
}

/// The time after an outage until the other nodes are back, too.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    until: Time,
    /// This node's part until then: what it spent of what all nodes spent before.
    part: f64,
    /// The most of the balance that it shares in until then: as it was before. What has become free since belongs to
    /// the others, too.
    balance: f64,
}

/// What a sync round reports about a key, in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    /// What this node sent.
    pub(super) own: f64,
    /// What the other nodes spent.
    pub(super) others: f64,
    /// What this node has spent since it sent its deltas.
    pub(super) pending: f64,
    /// What remains, with the pending deltas subtracted.
    pub(super) remaining: f64,
}

impl Peers {
    /// Creates the state of a node that learns of others. The pending deltas are not older than `pending_since`, and the
    /// usage record does not contain the deltas of `sent` tokens before them.
    pub(super) fn new(pending_since: Time, sent: u64, now: Time) -> Self {
        Self {
            share: NodeShare::new(now),
            demand: Demand::new(pending_since),
            advance: Advance::default(),
            unreported: sent,
            own: 0.0,
            others: 0.0,
            alone: false,
            shared_at: Time::EPOCH,
            pending_since,
            after_outage: false,
            last: None,
            recovery: Recovery { until: Time::EPOCH, part: 1.0, balance: 0.0 },
            owed: LateGrants::default(),
        }
    }

    /// Returns whether the other nodes spend next to nothing, so that this one has the whole limit.
    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Returns whether nothing of this is needed any more: the other nodes have spent nothing for so long that the usage
    /// record does not contain it.
    pub(super) fn is_unused(&self, now: Time) -> bool {
        self.alone
            && self.owed.amount == 0
            && self.advance.is_unused()
            && now.since(self.shared_at) > usage::WINDOW
    }

    /// Spends from the share. `pending` are the deltas before this one.
    #[inline]
    pub(super) fn spend(&mut self, amount: f64, pending: &PendingDeltas, config: &LimitConfig, now: Time) {
        if pending.is_empty() {
            self.pending_since = now;
        }
        self.demand.count(amount.max(0.0));
        self.share.spend(amount, config.rate, now);
    }

    /// Returns how much this node may spend: its share, and the tokens that it has taken in advance.
    #[inline]
    pub(super) fn budget(&mut self, config: &LimitConfig, now: Time) -> f64 {
        self.share.budget(config.rate, now) + f64::from(self.advance.tokens(config.refill, now))
    }

    /// Covers pending takes by tokens taken in advance, instead of by the share.
    #[inline]
    pub(super) fn cover(&mut self, pending: &mut PendingDeltas, config: &LimitConfig, now: Time) {
        let covered = self.advance.cover(pending, config.refill, now);
        if covered > 0 {
            self.share.spend(-f64::from(covered), config.rate, now);
        }
    }

    /// Returns whether a sync round is useful because of callers that were denied.
    pub(super) fn needs_sync(&self, config: &LimitConfig, now: Time) -> bool {
        config
            .records
            .as_ref()
            .is_some_and(|records| self.demand.is_due(config.rate, now, records.demand_window))
    }

    /// Returns whether this node keeps reporting its demand, although no check has come.
    pub(super) fn is_hungry(&self, config: &LimitConfig, now: Time) -> bool {
        let window = config.records.as_ref().map(|records| records.demand_window);
        window.is_some_and(|window| self.demand.is_unmet(config.rate, now, window))
    }

    /// Notes that the central store answered a call that had failed before. What is pending by now was granted in the
    /// meantime.
    pub(super) fn end_outage(&mut self) {
        self.after_outage = true;
    }

    /// Returns whether pending deltas have waited unusually long.
    fn have_waited(&self, pending: &PendingDeltas, config: &LimitConfig, now: Time) -> bool {
        let waited = now.nanos().saturating_sub(self.pending_since.nanos());
        config.refill.is_bucket() && !pending.is_empty() && waited > late_after(config)
    }

    /// Returns whether pending deltas have waited long because the central store did not answer.
    fn is_late(&self, pending: &PendingDeltas, config: &LimitConfig, now: Time) -> bool {
        self.after_outage && self.have_waited(pending, config, now)
    }

    /// Returns whether late grants can be compared with what was refilled meanwhile: this node knows what the usage
    /// record was before them.
    pub(super) fn has_late(&self, pending: &PendingDeltas, config: &LimitConfig, now: Time) -> bool {
        let known = self.last.is_some_and(|last| self.pending_since.since(last.at) < usage::WINDOW);
        known && self.is_late(pending, config, now)
    }

    /// Takes the pending grants that are late, if they can be compared. What is owed of earlier ones becomes a pending
    /// debit; returns it, too.
    pub(super) fn take_late(
        &mut self,
        pending: &mut PendingDeltas,
        config: &LimitConfig,
        now: Time,
    ) -> (LateGrants, u64) {
        let (since, late) = (self.pending_since, self.has_late(pending, config, now));
        self.after_outage = false;
        let amount = if late { pending.take_debits(config.refill) } else { 0 };
        let owed = std::mem::take(&mut self.owed);
        if owed.amount > 0 {
            pending.debit(config.refill, owed.amount, owed.since);
        }
        (LateGrants { amount, since }, owed.amount)
    }

    /// Returns whether the central store may be asked for tokens because the share is used up. Not while nodes are
    /// hungry: whoever asks first would get all. Nor around an outage: what is there is not known to be free.
    pub(super) fn may_ask(&self, pending: &PendingDeltas, config: &LimitConfig, now: Time) -> bool {
        !config.ask_within.is_zero()
            && self.demand.fair(now).is_none()
            && !self.is_recovering(now)
            && self.advance.is_possible(now)
            && !self.have_waited(pending, config, now)
    }

    /// Returns what a round adds to the usage record, in its `unit`. `sent` is the sum of its deltas, of which `owed` is
    /// in the record already, `late` that of late grants.
    pub(super) fn take_usage(&mut self, sent: i64, owed: u64, late: u64, unit: u64) -> u64 {
        let sent = u64::try_from(sent).unwrap_or(0).saturating_add(late);
        let more = self.advance.take_spent().saturating_add(std::mem::take(&mut self.unreported));
        let granted = sent.saturating_add(more).saturating_sub(owed);
        let units = (granted / unit).min(Limit::MAX_COUNT.into());
        self.unreported = granted - units * unit;
        units
    }

    /// Returns the demand report of a sync round, if there is one to make.
    pub(super) fn report(
        &mut self,
        remaining: f64,
        config: &LimitConfig,
        now: Time,
        random: f64,
    ) -> Option<DemandReport> {
        let window = config.records.as_ref()?.demand_window;
        let scarce = remaining < config.rate.capacity * SCARCE;
        self.demand.report(scarce, config.rate, now, window, random)
    }

    /// Notes that the central store answers again after a while: until the other nodes are back, too, this one keeps
    /// its part, and spends nothing of what has become free in the meantime.
    pub(super) fn recover(&mut self, config: &LimitConfig, now: Time) {
        let span = config.interval.saturating_mul(RECOVERY).max(MIN_RECOVERY);
        if !self.is_recovering(now) {
            self.recovery.part = self.used();
            self.recovery.balance = self.last.map_or(0.0, |last| last.balance.max(0.0));
        }
        self.recovery.until = Time::from_nanos(now.nanos().saturating_add(span));
    }

    fn is_recovering(&self, now: Time) -> bool {
        now < self.recovery.until
    }

    /// Notes what has to be repaid of late grants, and returns it.
    pub(super) fn settle(
        &mut self,
        late: LateGrants,
        balance: f64,
        usage: Option<Usage>,
        config: &LimitConfig,
        now: Time,
    ) -> u64 {
        let owed = match (&self.last, usage) {
            (Some(last), Some(usage)) => whole(last.owed(late, balance, usage, config, now)),
            _ => late.amount,
        };
        self.owed = LateGrants { amount: self.owed.amount.saturating_add(owed), since: now };
        owed
    }

    /// Returns what is owed of late grants, and not debited yet.
    pub(super) fn owed(&self) -> u64 {
        self.owed.amount
    }

    /// Keeps what is known now for the next outage.
    pub(super) fn answered(&mut self, balance: f64, usage: Usage, config: &LimitConfig, now: Time) {
        let others = f64::from(self.others) * (1.0 - DECAY) / nanos(config.interval);
        self.last = Some(LastAnswer { at: now, balance, usage: usage.record, others });
    }

    /// Learns from a sync round.
    pub(super) fn learn(&mut self, round: Round, config: &LimitConfig, now: Time) {
        let Round { own, others, pending, remaining } = round;
        if own + others > 0.0 {
            self.own = narrow(f64::from(self.own) * DECAY + own);
            self.others = narrow(f64::from(self.others) * DECAY + others);
        }
        self.alone = self.others <= self.own * NEGLIGIBLE && self.demand.fair(now).is_none();
        if !self.alone {
            self.shared_at = now;
        }
        let mut part = self.part(now);
        let mut balance = remaining + pending;
        if self.is_recovering(now) {
            part = Part { open: self.recovery.part, entitled: self.recovery.part };
            // Nor does it leave more than before, to fill the reserve.
            let reserve = config.rate.reserve();
            if balance > 0.0 {
                balance = balance.min(self.recovery.balance).max(reserve);
            }
        }
        if !self.is_hungry(config, now) {
            self.share.stop_saving();
        }
        let answered_until = Time::from_nanos(now.nanos().saturating_add(late_after(config)));
        let terms = Terms { part, scarce: self.demand.fair(now).is_some(), answered_until };
        self.share.restart(terms, balance, pending, config.rate, now);
    }

    /// Returns this node's part: the fair one if tokens do not suffice, and else what it spent of what all nodes spent.
    fn part(&self, now: Time) -> Part {
        let used = self.used();
        match self.demand.fair(now) {
            Some(fair) => Part { open: (fair * (1.0 + SLACK)).min(1.0), entitled: fair.min(used * MARGIN) },
            None => Part { open: used, entitled: used },
        }
    }

    /// Returns what this node spent of what all nodes spent lately.
    pub(super) fn used(&self) -> f64 {
        let (own, others) = (f64::from(self.own), f64::from(self.others));
        let used = if own + others > 0.0 { own / (own + others) } else { 0.0 };
        (used + MIN_PART).min(1.0)
    }
}

fn late_after(config: &LimitConfig) -> u64 {
    config.interval.saturating_mul(LATE_AFTER).max(MIN_LATE_AFTER)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn whole(tokens: f64) -> u64 {
    tokens as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_core::store::Windows;

    use super::*;
    use crate::config::{LimitConfigs, Policies};

    fn at(millis: u64) -> Time {
        Time::from_nanos(1_000_000_000_000 + millis * 1_000_000)
    }

    /// 100 per second, synchronized every 100 ms.
    fn config() -> Arc<LimitConfig> {
        let limit = Limit::per_second(100).build("api").expect("valid");
        LimitConfigs::new(Policies::default()).of(&limit).expect("a bucket")
    }

    fn spend(peers: &mut Peers, pending: &mut PendingDeltas, amount: u32, now: Time) {
        peers.spend(amount.into(), pending, &config(), now);
        pending.take(config().refill, amount, now);
    }

    #[test]
    fn grants_are_late_after_four_intervals() {
        let (mut peers, mut pending) = (Peers::new(at(0), 0, at(0)), PendingDeltas::default());
        peers.end_outage();
        assert!(!peers.is_late(&pending, &config(), at(9_000)), "there are none");
        spend(&mut peers, &mut pending, 3, at(1_000));
        spend(&mut peers, &mut pending, 2, at(1_300));
        assert!(
            !peers.is_late(&pending, &config(), at(1_400)) && peers.is_late(&pending, &config(), at(1_401))
        );
        // Without a usage record before them, they are debited as they are.
        assert_eq!(peers.take_late(&mut pending, &config(), at(2_000)).0.amount, 0);
        let record =
            Windows { sliding: true, start: at(0), period: 600_000_000_000, previous: 0, current: 0 };
        peers.answered(90.0, Usage { record, unit: 1 }, &config(), at(900));
        assert_eq!(peers.take_late(&mut pending, &config(), at(2_000)).0.amount, 0, "there was no outage");
        peers.end_outage();
        let (late, _) = peers.take_late(&mut pending, &config(), at(2_000));
        assert_eq!((late, pending.is_empty()), (LateGrants { amount: 5, since: at(1_000) }, true));
    }

    #[test]
    fn usage_is_reported_once_and_in_units() {
        let mut peers = Peers::new(at(0), 7, at(0));
        assert_eq!(peers.take_usage(10, 0, 6, 1), 7 + 10 + 6, "what was sent before is added once");
        assert_eq!(peers.take_usage(25, 20, 0, 1), 5, "what is owed was reported when it was late");
        assert_eq!(peers.take_usage(-3, 0, 0, 1), 0);
        assert_eq!(
            (peers.take_usage(15, 0, 0, 10), peers.take_usage(15, 0, 0, 10)),
            (1, 2),
            "the rest is kept"
        );
    }

    #[test]
    fn a_node_keeps_its_part_until_the_others_are_back() {
        let mut peers = Peers::new(at(0), 0, at(0));
        let round = |own, others| Round { own, others, pending: 0.0, remaining: 50.0 };
        peers.learn(round(30.0, 70.0), &config(), at(0));
        peers.recover(&config(), at(10_000));
        // Nobody else is back yet.
        for step in 0..9 {
            peers.learn(round(50.0, 0.0), &config(), at(10_000 + 100 * step));
        }
        let refilled = |peers: &Peers| {
            let budget = |now| peers.share.budget(config().rate, now);
            budget(at(11_100)) - budget(at(11_000))
        };
        assert!((2.9..3.2).contains(&refilled(&peers)), "{}: three tenths of ten", refilled(&peers));
        peers.learn(round(50.0, 0.0), &config(), at(11_000));
        assert!(refilled(&peers) > 9.0, "{}: all of it", refilled(&peers));
    }
}
