//! Sliding counter: the period in N sub-buckets; the last N, including the current one, are summed.

use alloc::vec;
use alloc::vec::Vec;

use super::{Count, Rules, ahead};
use crate::charge::{Action, Ask};
use crate::decision::{Decision, Outcome};
use crate::rate::{scale_down, scale_up};
use crate::time::Time;

/// The sum of the last sub-buckets.
#[derive(Clone, Debug)]
pub(crate) struct SlidingCounter {
    count: u32,
    period: u64,
    parts: u32,
}

/// Counts, the newest first, under the numbers they were made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    period: u64,
    /// The index of the newest sub-bucket since the epoch.
    newest: u64,
    counts: Vec<u64>,
}

impl Counters {
    fn sum(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl SlidingCounter {
    pub(crate) fn new(count: u32, period: u64, parts: u32) -> Self {
        Self { count, period, parts }
    }

    /// Which sub-bucket an instant lies in.
    fn index(&self, nanos: u64) -> u64 {
        let parts = u64::from(self.parts);
        nanos / self.period * parts + scale_down(nanos % self.period, parts, self.period)
    }

    /// When the sub-bucket `index` begins.
    fn begin(&self, index: u64) -> u64 {
        let parts = u64::from(self.parts);
        (index / parts).saturating_mul(self.period).saturating_add(scale_up(
            index % parts,
            self.period,
            parts,
        ))
    }

    /// Moves the counters on to now. A clock that was set back stays in the newest sub-bucket.
    fn roll(&self, state: &mut Counters, now: Time) {
        let parts = self.parts as usize;
        let current = self.index(now.nanos());
        if state.counts.len() != parts || state.period != self.period {
            self.adopt(state, current);
        }
        let passed = current.saturating_sub(state.newest);
        let kept = parts.saturating_sub(usize::try_from(passed).unwrap_or(usize::MAX));
        if passed > 0 {
            state.counts.rotate_right(parts - kept);
            state.counts[..parts - kept].fill(0);
            state.newest = current;
        }
    }

    /// Other numbers made these counters: the count is kept, as of the time of the newest.
    fn adopt(&self, state: &mut Counters, current: u64) {
        let sum = state.sum();
        let newest = match (state.counts.len() as u64, state.period) {
            (0, _) | (_, 0) => current,
            (parts, period) => {
                let begin = (state.newest / parts).saturating_mul(period).saturating_add(scale_up(
                    state.newest % parts,
                    period,
                    parts,
                ));
                self.index(begin.min(Time::MAX.nanos()))
            }
        };
        *state = Counters { period: self.period, newest, counts: vec![0; self.parts as usize] };
        state.counts[0] = sum;
    }

    /// When at least `excess` has gone out of sight.
    fn when_gone(&self, state: &Counters, excess: u64) -> u64 {
        let mut gone = 0_u64;
        for (age, count) in state.counts.iter().enumerate().rev() {
            gone = gone.saturating_add(*count);
            if *count > 0 && gone >= excess {
                return self.begin((state.newest + u64::from(self.parts)).saturating_sub(age as u64));
            }
        }
        0
    }

    fn answer(&self, state: &Counters, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let used = state.sum();
        let left = i64::from(self.count).saturating_sub_unsigned(used);
        let reset = if used == 0 { 0 } else { ahead(self.when_gone(state, used), now) };
        Count { limit: self.count, left, reset }.answer(outcome, granted, wait)
    }

    fn take(&self, state: &mut Counters, now: Time, cost: u32) -> Decision {
        let asked = cost.max(1);
        if asked > self.count {
            return self.answer(state, now, Outcome::NeverFits, 0, 0);
        }
        let wanted = state.sum().saturating_add(asked.into());
        if wanted > self.count.into() {
            let wait = ahead(self.when_gone(state, wanted - u64::from(self.count)), now);
            return self.answer(state, now, Outcome::Denied, 0, wait);
        }
        state.counts[0] += u64::from(cost);
        self.answer(state, now, Outcome::Allowed, cost, 0)
    }

    /// The count that an instant belongs to, if it is still in sight.
    fn counter<'c>(&self, state: &'c mut Counters, at: Option<Time>) -> Option<&'c mut u64> {
        let age = at.map_or(0, |at| state.newest.saturating_sub(self.index(at.nanos())));
        state.counts.get_mut(usize::try_from(age).unwrap_or(usize::MAX))
    }
}

impl Rules for SlidingCounter {
    type State = Counters;

    fn capacity(&self) -> u32 {
        self.count
    }

    fn decide(&self, state: &mut Counters, now: Time, ask: &Ask) -> Decision {
        self.roll(state, now);
        match ask.action {
            Action::Take { .. } => self.take(state, now, ask.cost),
            Action::TakeUpTo => {
                let there = u64::from(self.count).saturating_sub(state.sum());
                let part = ask.cost.min(u32::try_from(there).unwrap_or(u32::MAX));
                self.take(state, now, part.max(ask.cost.min(1)))
            }
            Action::Debit { at } => {
                if let Some(counter) = self.counter(state, at) {
                    *counter = counter.saturating_add(ask.cost.into());
                }
                self.answer(state, now, Outcome::Allowed, ask.cost, 0)
            }
            Action::Refund { at } => {
                let given = self.counter(state, at).map_or(0, |counter| {
                    let given = (*counter).min(ask.cost.into());
                    *counter -= given;
                    given
                });
                self.answer(state, now, Outcome::Allowed, u32::try_from(given).unwrap_or(u32::MAX), 0)
            }
            Action::Reset => {
                state.counts.fill(0);
                self.answer(state, now, Outcome::Allowed, 0, 0)
            }
            Action::Renew | Action::Release => self.take(state, now, 0),
        }
    }

    fn fresh_at(&self, state: &Counters) -> Time {
        let mut state = state.clone();
        if state.counts.len() != self.parts as usize || state.period != self.period {
            self.adopt(&mut state, 0);
        }
        match state.sum() {
            0 => Time::EPOCH,
            used => Time::from_nanos(self.when_gone(&state, used)),
        }
    }

    fn words(state: &Counters) -> Vec<u64> {
        [state.period, state.newest].into_iter().chain(state.counts.iter().copied()).collect()
    }

    fn from_words(words: &[u64]) -> Option<Counters> {
        match words {
            [period, newest, counts @ ..]
                if counts.len() <= crate::Limit::MAX_SUB_BUCKETS as usize && *newest < 1 << 62 =>
            {
                Some(Counters { period: *period, newest: *newest, counts: counts.to_vec() })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, hours_and_minutes};

    #[test]
    fn worked_example_of_three_sub_buckets() {
        let mut hourly = Example::new(Limit::per_hour(100).sliding_counter(3));
        for (minute, hits) in [(5, 10), (25, 20), (45, 30)] {
            hourly.set(hours_and_minutes(2, minute));
            assert!(hourly.take(hits).is_allowed());
        }
        hourly.set(hours_and_minutes(2, 50));
        let next = hourly.take(1);
        assert_eq!((next.is_allowed(), next.remaining()), (true, 39));
        // The current sub-bucket holds 31 now: 3:40 is when they go, as the last ones.
        hourly.set(hours_and_minutes(3, 39));
        assert_eq!(hourly.peek().remaining(), 100 - 31);
        hourly.set(hours_and_minutes(3, 40));
        assert_eq!(hourly.peek().remaining(), 100);
    }

    #[test]
    fn says_when_enough_has_gone_out_of_sight() {
        let mut hourly = Example::new(Limit::per_hour(100).sliding_counter(3));
        hourly.set(hours_and_minutes(2, 5));
        assert!(hourly.take(60).is_allowed());
        hourly.set(hours_and_minutes(2, 25));
        assert!(hourly.take(40).is_allowed());
        assert_eq!(hourly.take(60).retry_after(), Some(Duration::from_secs(35 * 60)));
        assert_eq!(hourly.take(61).retry_after(), Some(Duration::from_secs(55 * 60)));
    }

    #[test]
    fn uneven_sub_buckets_tile_the_period() {
        let mut third = Example::new(Limit::per_second(6).sliding_counter(7));
        assert!(third.take(6).is_allowed());
        let wait = third.take(1).retry_after().expect("a wait cures it");
        third.advance(wait.saturating_sub(Duration::from_nanos(1)));
        assert!(third.take(1).is_denied());
        third.advance(Duration::from_nanos(1));
        assert!(third.take(6).is_allowed());
    }

    #[test]
    fn a_change_keeps_the_count() {
        let mut hourly = Example::new(Limit::per_hour(100).sliding_counter(3));
        assert!(hourly.take(60).is_allowed());
        hourly.change(Limit::per_hour(70).sliding_counter(12));
        assert_eq!(hourly.peek().remaining(), 10);
    }
}
