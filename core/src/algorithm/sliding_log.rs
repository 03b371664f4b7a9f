//! Sliding log: exact timestamps, so that never more than the count passes in any period.
//!
//! Optionally, denied takes count too, and there is a minimum gap between two takes.

use alloc::vec::Vec;
use core::mem;

use super::sum_tree::{Entry, SumTree};
use super::{AlgorithmKind, Balance, Decide, nanos_until, saturate, take_up_to_cost};
use crate::charge::{Action, Operation};
use crate::decision::{Decision, Outcome};
use crate::time::Time;

/// How many entries a log may have beyond its count.
const MAX_DEBT_ENTRIES: usize = 64;

/// How many expired entries are removed one by one before the rest is removed together.
const MAX_REMOVED_SINGLY: usize = 4;

/// The parameters of a sliding log.
#[derive(Clone, Debug)]
pub(crate) struct SlidingLog {
    count: u32,
    period: u64,
    /// Zero if there is no minimum gap.
    gap: u64,
    count_denied: bool,
}

/// The log, the oldest entry first. Its sum is what is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Log {
    entries: SumTree<LogEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogEntry {
    at: u64,
    cost: u64,
}

impl Entry for LogEntry {
    type Key = u64;

    #[inline]
    fn key(&self) -> u64 {
        self.at
    }

    #[inline]
    fn weight(&self) -> u64 {
        self.cost
    }
}

impl Log {
    /// Returns the sum of all costs.
    fn used(&self) -> u64 {
        self.entries.sum()
    }

    /// Returns the time of the newest entry.
    fn newest(&self) -> Option<u64> {
        self.entries.last_key()
    }

    /// Removes the entries up to an instant.
    fn remove_until(&mut self, instant: u64) {
        // Mostly few have expired since the last decision, and they are removed in place.
        for _ in 0..MAX_REMOVED_SINGLY {
            if self.entries.first().is_none_or(|oldest| oldest.at > instant) {
                return;
            }
            self.entries.pop_first();
        }
        self.entries.split_front(|at, _| at <= instant);
    }

    /// Inserts an entry in order. Costs at the same instant share one entry.
    fn insert(&mut self, at: u64, cost: u64) {
        let present = self.entries.get(at).map_or(0, |entry| entry.cost);
        self.entries.insert(LogEntry { at, cost: present.saturating_add(cost) });
    }

    /// Refunds up to `cost` of the entries at or before `at`, the newest first. Returns the refunded amount.
    fn refund(&mut self, at: u64, cost: u64) -> u64 {
        let mut refundable = self.entries.split_front(|entry_at, _| entry_at <= at);
        let refunded = refundable.sum().min(cost);
        let left = refundable.sum() - refunded;
        let mut kept = refundable.split_front(|_, sum| sum <= left);
        if let Some(LogEntry { at, .. }) = refundable.first()
            && left > kept.sum()
        {
            kept.insert(LogEntry { at: *at, cost: left - kept.sum() });
        }
        // An entry without a cost from the start is kept: it is there for the gap.
        for entry in refundable.weightless() {
            kept.insert(entry);
        }
        kept.append(mem::take(&mut self.entries));
        self.entries = kept;
        refunded
    }

    /// Returns when at least `excess` is older than `period`.
    fn expires_at(&self, excess: u64, period: u64) -> u64 {
        let last = self.entries.first_behind(|_, sum| sum < excess);
        last.map_or(0, |entry| entry.at.saturating_add(period))
    }
}

impl SlidingLog {
    pub(crate) fn new(count: u32, period: u64, gap: u64, count_denied: bool) -> Self {
        Self { count, period, gap, count_denied }
    }

    /// Returns `now`, or the time of the newest entry if a clock that was set back lies before it.
    fn not_before_newest(log: &Log, now: Time) -> u64 {
        log.newest().unwrap_or(0).max(now.nanos())
    }

    /// Removes the entries that no longer count. The newest one is kept, at no cost, for as long as the gap requires.
    fn remove_expired(&self, log: &mut Log, now: Time) {
        let now = Self::not_before_newest(log, now);
        if let Some(expired) = now.checked_sub(self.period) {
            let newest = log.newest();
            log.remove_until(expired);
            if let Some(newest) = newest
                && log.entries.is_empty()
                && now < newest.saturating_add(self.gap)
            {
                log.entries.insert(LogEntry { at: newest, cost: 0 });
            }
        }
    }

    /// Removes the oldest costs beyond the count, which only counted denials can cause.
    fn keep_newest(&self, log: &mut Log) {
        let excess = log.used().saturating_sub(self.count.into());
        if excess == 0 {
            return;
        }
        let Some(&LogEntry { at: last, .. }) = log.entries.first_behind(|_, sum| sum < excess) else {
            return;
        };
        let removed = log.entries.split_front(|at, _| at <= last);
        if removed.sum() > excess {
            log.entries.insert(LogEntry { at: last, cost: removed.sum() - excess });
        }
    }

    fn decision(&self, log: &Log, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let reset = nanos_until(self.fresh_at(log).nanos(), now);
        Balance::used(self.count, log.used(), reset).decision(outcome, granted, wait)
    }

    /// Returns when the gap after the newest entry ends; zero if there is no minimum gap. Without one, a caller whose
    /// clock lies before the newest entry does not wait for it.
    fn gap_ends_at(&self, log: &Log) -> u64 {
        match log.newest() {
            Some(newest) if self.gap > 0 => newest.saturating_add(self.gap),
            Some(_) | None => 0,
        }
    }

    /// Combines the oldest entries once there are many more than the count, which only debits can cause.
    ///
    /// What exceeds the count must expire before anything passes, so these entries are dated as the last of them. No
    /// take passes earlier. It may pass later only if something is refunded, or if the count is raised.
    fn combine_debt(&self, log: &mut Log) {
        if log.entries.len() <= self.count as usize + MAX_DEBT_ENTRIES {
            return;
        }
        let debt = log.used().saturating_sub(self.count.into());
        let combined = log.entries.split_front(|_, sum| sum <= debt);
        if let Some(at) = combined.last_key() {
            log.entries.insert(LogEntry { at, cost: combined.sum() });
        }
    }

    fn take(&self, log: &mut Log, now: Time, cost: u32) -> Decision {
        let needed = cost.max(1);
        if needed > self.count {
            return self.decision(log, now, Outcome::NeverFits, 0, 0);
        }
        let used_then = log.used().saturating_add(needed.into());
        if used_then > self.count.into() || self.gap_ends_at(log) > now.nanos() {
            let wait = nanos_until(self.passes_at(log, needed), now);
            return self.decision(log, now, Outcome::Denied, 0, wait);
        }
        if cost > 0 {
            log.insert(Self::not_before_newest(log, now), cost.into());
        }
        self.decision(log, now, Outcome::Allowed, cost, 0)
    }

    /// Returns when a take of `cost` can pass, if no other charge comes first.
    fn passes_at(&self, log: &Log, cost: u32) -> u64 {
        let excess = log.used().saturating_add(cost.into()).saturating_sub(self.count.into());
        let expires_at = if excess == 0 { 0 } else { log.expires_at(excess, self.period) };
        self.gap_ends_at(log).max(expires_at)
    }
}

impl Decide for SlidingLog {
    type State = Log;

    fn kind(&self) -> AlgorithmKind {
        AlgorithmKind::SlidingLog
    }

    fn capacity(&self) -> u32 {
        self.count
    }

    fn decide(&self, state: &mut Log, now: Time, operation: &Operation) -> Decision {
        let cost = operation.cost;
        self.remove_expired(state, now);
        match operation.action {
            Action::Take { .. } => self.take(state, now, cost),
            Action::TakeUpTo => {
                let available = u64::from(self.count).saturating_sub(state.used());
                self.take(state, now, take_up_to_cost(cost, available))
            }
            Action::Debit { at } => {
                let at = at.map_or_else(|| Self::not_before_newest(state, now), |at| at.min(now).nanos());
                if at.saturating_add(self.period) > now.nanos() && cost > 0 {
                    state.insert(at, cost.into());
                    self.combine_debt(state);
                }
                self.decision(state, now, Outcome::Allowed, cost, 0)
            }
            Action::Refund { at } => {
                let refunded = state.refund(at.map_or(u64::MAX, Time::nanos), cost.into());
                self.decision(state, now, Outcome::Allowed, saturate(refunded), 0)
            }
            Action::Reset => {
                *state = Log::default();
                self.decision(state, now, Outcome::Allowed, 0, 0)
            }
            Action::Renew | Action::Release => self.take(state, now, 0),
        }
    }

    fn count_denial(&self, state: &mut Log, now: Time, operation: &Operation) -> Option<Decision> {
        if !self.count_denied || operation.cost == 0 {
            return None;
        }
        self.remove_expired(state, now);
        state.insert(Self::not_before_newest(state, now), operation.cost.into());
        self.keep_newest(state);
        // The decision includes the denial that was just counted, because the caller reads it afterwards.
        let needed = if operation.action == Action::TakeUpTo { 1 } else { operation.cost };
        let wait = nanos_until(self.passes_at(state, needed), now);
        Some(self.decision(state, now, Outcome::Denied, 0, wait))
    }

    fn fresh_at(&self, state: &Log) -> Time {
        match state.entries.last() {
            None => Time::EPOCH,
            Some(newest) if newest.cost == 0 => Time::from_nanos(newest.at.saturating_add(self.gap)),
            Some(newest) => Time::from_nanos(newest.at.saturating_add(self.period.max(self.gap))),
        }
    }

    fn to_words(state: &Log) -> Vec<u64> {
        state.entries.iter().flat_map(|entry| [entry.at, entry.cost]).collect()
    }

    fn from_words(words: &[u64]) -> Option<Log> {
        let (pairs, []) = words.as_chunks::<2>() else { return None };
        let entries: Vec<_> = pairs.iter().map(|[at, cost]| LogEntry { at: *at, cost: *cost }).collect();
        let sorted =
            pairs.is_sorted_by(|a, b| a[0] < b[0]) && pairs.iter().all(|pair| pair[0] <= Time::MAX.nanos());
        let used = pairs.iter().try_fold(0_u64, |sum, pair| sum.checked_add(pair[1]))?;
        // So far from the end of a word that no later debit overflows it.
        (sorted && used < 1 << 62).then(|| Log { entries: SumTree::from_sorted(&entries) })
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::Example;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn worked_example_with_counted_denials() {
        let mut log = Example::new(Limit::per(2, seconds(10)).sliding_log().count_denied());
        assert!(log.take(1).is_allowed());
        assert!(log.take(1).is_allowed());
        for _ in 0..30 {
            log.advance(seconds(1));
            assert!(log.take(1).is_denied(), "a client that keeps retrying remains denied");
        }
        // The last two attempts count; the older of them expires first.
        assert_eq!(log.take(0).retry_after(), Some(seconds(9)));
        log.advance(seconds(9));
        assert!(log.take(1).is_allowed(), "after a pause");
    }

    #[test]
    fn by_default_denials_do_not_count() {
        let mut log = Example::new(Limit::per(2, seconds(10)).sliding_log());
        assert!(log.take(1).is_allowed());
        log.advance(seconds(4));
        assert!(log.take(1).is_allowed());
        log.advance(seconds(3));
        assert_eq!(log.take(1).retry_after(), Some(seconds(3)));
        assert_eq!(log.take(2).retry_after(), Some(seconds(7)));
        log.advance(seconds(3));
        assert!(log.take(1).is_allowed());
    }

    #[test]
    fn takes_are_a_gap_apart() {
        let mut log = Example::new(Limit::per(100, seconds(1)).sliding_log().min_gap(seconds(3)));
        assert!(log.take(1).is_allowed());
        log.advance(seconds(2));
        assert_eq!(log.take(1).retry_after(), Some(seconds(1)), "though the period has ended");
        log.advance(seconds(1));
        assert!(log.take(1).is_allowed());
    }

    #[test]
    fn a_debit_dated_in_the_past_expires_with_its_instant() {
        let mut log = Example::new(Limit::per(10, seconds(10)).sliding_log());
        let then = log.now();
        log.advance(seconds(6));
        assert_eq!(log.debit_at(7, then).remaining(), 3);
        log.advance(seconds(4));
        assert_eq!(log.peek().remaining(), 10);
    }

    #[test]
    fn a_refund_applies_to_a_take_at_the_same_instant() {
        let mut log = Example::new(Limit::per_second(2).sliding_log());
        let then = log.now();
        assert!(log.take(2).is_allowed());
        assert_eq!(log.refund_at(1, then).remaining(), 1);
    }

    #[test]
    fn a_debit_dated_a_whole_period_ago_does_not_count() {
        let mut log = Example::new(Limit::per_second(5).sliding_log());
        let then = log.now();
        log.advance(Duration::from_secs(1));
        assert_eq!(log.debit_at(3, then).remaining(), 5);
    }
}
