//! Sliding log: exact timestamps, so never more than the count in any period. Optionally denied actions
//! count too, and optionally there is a minimum gap between actions.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Count, Rules, ahead};
use crate::charge::{Action, Ask};
use crate::decision::{Decision, Outcome};
use crate::time::Time;

/// Exact timestamps.
#[derive(Clone, Debug)]
pub(crate) struct SlidingLog {
    count: u32,
    period: u64,
    /// Zero if there is none.
    gap: u64,
    count_denied: bool,
}

/// Actions, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    /// The sum of all costs.
    used: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: u64,
    cost: u64,
}

impl Log {
    /// Drops what an instant no longer sees.
    fn forget_until(&mut self, instant: u64) {
        while self.entries.front().is_some_and(|entry| entry.at <= instant) {
            self.used -= self.entries.pop_front().map_or(0, |entry| entry.cost);
        }
    }

    /// Adds an action in its place; those of one instant are one entry.
    fn add(&mut self, at: u64, cost: u64) {
        let after = self.entries.partition_point(|entry| entry.at <= at);
        match after.checked_sub(1).and_then(|last| self.entries.get_mut(last)) {
            Some(entry) if entry.at == at => entry.cost = entry.cost.saturating_add(cost),
            _ => self.entries.insert(after, Entry { at, cost }),
        }
        self.used = self.used.saturating_add(cost);
    }

    /// Takes up to `cost` back from what happened at or before `at`, the newest first.
    fn take_back(&mut self, at: u64, cost: u64) -> u64 {
        let mut given = 0;
        for index in (0..self.entries.len()).rev() {
            let entry = &mut self.entries[index];
            let part = if entry.at <= at { entry.cost.min(cost - given) } else { 0 };
            entry.cost -= part;
            given += part;
            // Not the last action, which is remembered for the gap at no cost.
            if part > 0 && entry.cost == 0 {
                self.entries.remove(index);
            }
        }
        self.used -= given;
        given
    }

    /// When at least `excess` will be older than `period`.
    fn when_gone(&self, excess: u64, period: u64) -> u64 {
        let mut gone = 0_u64;
        for entry in &self.entries {
            gone = gone.saturating_add(entry.cost);
            if gone >= excess {
                return entry.at.saturating_add(period);
            }
        }
        0
    }
}

impl SlidingLog {
    pub(crate) fn new(count: u32, period: u64, gap: u64, count_denied: bool) -> Self {
        Self { count, period, gap, count_denied }
    }

    /// A clock that was set back does not undo what happened.
    fn not_before_last(log: &Log, now: Time) -> u64 {
        log.entries.back().map_or(0, |entry| entry.at).max(now.nanos())
    }

    /// The log as of now. An entry is seen for one period after it, and for the gap if that is longer.
    fn seen(&self, log: &mut Log, now: Time) {
        let now = Self::not_before_last(log, now);
        if let Some(gone) = now.checked_sub(self.period) {
            let last = log.entries.back().copied();
            log.forget_until(gone);
            // The last action is remembered for the gap, at no cost.
            if let Some(last) = last
                && log.entries.is_empty()
                && now < last.at.saturating_add(self.gap)
            {
                log.entries.push_back(Entry { at: last.at, cost: 0 });
            }
        }
    }

    /// A denied action has been added: only the newest actions, up to the count, are kept.
    fn keep_newest(&self, log: &mut Log) {
        let most = u64::from(self.count);
        while log.used > most {
            let excess = log.used - most;
            match log.entries.front_mut() {
                Some(front) if front.cost > excess => {
                    front.cost -= excess;
                    log.used -= excess;
                }
                Some(front) => {
                    log.used -= front.cost;
                    log.entries.pop_front();
                }
                None => break,
            }
        }
    }

    fn answer(&self, log: &Log, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let left = i64::from(self.count).saturating_sub_unsigned(log.used);
        let reset = ahead(self.fresh_at(log).nanos(), now);
        Count { limit: self.count, left, reset }.answer(outcome, granted, wait)
    }

    fn take(&self, log: &mut Log, now: Time, cost: u32) -> Decision {
        let asked = cost.max(1);
        if asked > self.count {
            return self.answer(log, now, Outcome::NeverFits, 0, 0);
        }
        let last = log.entries.back().map(|entry| entry.at);
        let apart = last.map_or(0, |last| last.saturating_add(self.gap));
        let wanted = log.used.saturating_add(asked.into());
        if wanted > self.count.into() || apart > now.nanos() {
            return self.answer(log, now, Outcome::Denied, 0, ahead(self.passes_at(log, asked), now));
        }
        if cost > 0 {
            log.add(Self::not_before_last(log, now), cost.into());
        }
        self.answer(log, now, Outcome::Allowed, cost, 0)
    }

    fn passes_at(&self, log: &Log, cost: u32) -> u64 {
        let apart = log.entries.back().map_or(0, |last| last.at.saturating_add(self.gap));
        let excess = log.used.saturating_add(cost.into()).saturating_sub(self.count.into());
        let gone = if excess == 0 { 0 } else { log.when_gone(excess, self.period) };
        apart.max(gone)
    }

    fn count_denial(&self, log: &mut Log, now: Time, cost: u32) {
        log.add(Self::not_before_last(log, now), cost.into());
        self.keep_newest(log);
    }
}

impl Rules for SlidingLog {
    type State = Log;

    fn capacity(&self) -> u32 {
        self.count
    }

    fn decide(&self, state: &mut Log, now: Time, ask: &Ask) -> Decision {
        self.seen(state, now);
        match ask.action {
            Action::Take { .. } => self.take(state, now, ask.cost),
            Action::TakeUpTo => {
                let there = u64::from(self.count).saturating_sub(state.used);
                let part = ask.cost.min(u32::try_from(there).unwrap_or(u32::MAX));
                self.take(state, now, part.max(ask.cost.min(1)))
            }
            Action::Debit { at } => {
                let at = at.map_or_else(|| Self::not_before_last(state, now), |at| at.min(now).nanos());
                if at.saturating_add(self.period) > now.nanos() && ask.cost > 0 {
                    state.add(at, ask.cost.into());
                }
                self.answer(state, now, Outcome::Allowed, ask.cost, 0)
            }
            Action::Refund { at } => {
                let given = state.take_back(at.map_or(u64::MAX, Time::nanos), ask.cost.into());
                self.answer(state, now, Outcome::Allowed, u32::try_from(given).unwrap_or(u32::MAX), 0)
            }
            Action::Reset => {
                *state = Log::default();
                self.answer(state, now, Outcome::Allowed, 0, 0)
            }
            Action::Renew | Action::Release => self.take(state, now, 0),
        }
    }

    fn denied(&self, state: &mut Log, now: Time, ask: &Ask) -> Option<Decision> {
        if !self.count_denied || ask.cost == 0 {
            return None;
        }
        self.seen(state, now);
        self.count_denial(state, now, ask.cost);
        // Answer as of after this denial is counted, which is when the caller reads it.
        let asked = if ask.action == Action::TakeUpTo { 1 } else { ask.cost };
        let wait = ahead(self.passes_at(state, asked), now);
        Some(self.answer(state, now, Outcome::Denied, 0, wait))
    }

    fn fresh_at(&self, state: &Log) -> Time {
        match state.entries.back() {
            None => Time::EPOCH,
            Some(last) if last.cost == 0 => Time::from_nanos(last.at.saturating_add(self.gap)),
            Some(last) => Time::from_nanos(last.at.saturating_add(self.period.max(self.gap))),
        }
    }

    fn words(state: &Log) -> Vec<u64> {
        state.entries.iter().flat_map(|entry| [entry.at, entry.cost]).collect()
    }

    fn from_words(words: &[u64]) -> Option<Log> {
        let (pairs, []) = words.as_chunks::<2>() else { return None };
        let entries: VecDeque<_> = pairs.iter().map(|[at, cost]| Entry { at: *at, cost: *cost }).collect();
        let sorted =
            pairs.is_sorted_by(|a, b| a[0] < b[0]) && pairs.iter().all(|pair| pair[0] <= Time::MAX.nanos());
        // So far from the end of a word that no later debit gets there.
        let used = pairs.iter().try_fold(0_u64, |sum, pair| sum.checked_add(pair[1]))?;
        (sorted && used < 1 << 62).then_some(Log { entries, used })
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
    fn worked_example_with_denied_actions_counted() {
        let mut hammered = Example::new(Limit::per(2, seconds(10)).sliding_log().count_denied());
        assert!(hammered.take(1).is_allowed());
        assert!(hammered.take(1).is_allowed());
        for _ in 0..30 {
            hammered.advance(seconds(1));
            assert!(hammered.take(1).is_denied(), "a client that hammers stays blocked");
        }
        // The last two attempts are what counts; the older of them goes first.
        assert_eq!(hammered.take(0).retry_after(), Some(seconds(9)));
        hammered.advance(seconds(9));
        assert!(hammered.take(1).is_allowed(), "until it pauses");
    }

    #[test]
    fn without_the_option_denied_actions_do_not_count() {
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
    fn a_gap_keeps_actions_apart() {
        let mut log = Example::new(Limit::per(100, seconds(1)).sliding_log().min_gap(seconds(3)));
        assert!(log.take(1).is_allowed());
        log.advance(seconds(2));
        assert_eq!(log.take(1).retry_after(), Some(seconds(1)), "though the period is over");
        log.advance(seconds(1));
        assert!(log.take(1).is_allowed());
    }

    #[test]
    fn a_late_debit_is_booked_where_it_belongs() {
        let mut log = Example::new(Limit::per(10, seconds(10)).sliding_log());
        let then = log.now();
        log.advance(seconds(6));
        assert_eq!(log.debit_at(7, then).remaining(), 3);
        log.advance(seconds(4));
        assert_eq!(log.peek().remaining(), 10);
    }

    #[test]
    fn a_refund_reaches_what_happened_at_its_very_instant() {
        let mut log = Example::new(Limit::per_second(2).sliding_log());
        let then = log.now();
        assert!(log.take(2).is_allowed());
        assert_eq!(log.refund_at(1, then).remaining(), 1);
    }

    #[test]
    fn a_debit_that_is_a_whole_period_old_is_out_of_sight() {
        let mut log = Example::new(Limit::per_second(5).sliding_log());
        let then = log.now();
        log.advance(Duration::from_secs(1));
        assert_eq!(log.debit_at(3, then).remaining(), 5);
    }
}
