//! Sliding counter: the period is divided into N sub-buckets, and the counts of the last N are summed, including the
//! current one.

use alloc::vec;
use alloc::vec::Vec;

use super::{AlgorithmKind, Balance, Decide, nanos_until, saturate, take_up_to_cost};
use crate::charge::{Action, Operation};
use crate::decision::{Decision, Outcome};
use crate::rate::{scale_down, scale_up};
use crate::time::Time;

/// The parameters of a sliding counter.
#[derive(Clone, Debug)]
pub(crate) struct SlidingCounter {
    count: u32,
    period: u64,
    sub_buckets: u32,
}

/// The counts of the sub-buckets, the newest first, and the parameters under which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    period: u64,
    /// The index of the newest sub-bucket since the Unix epoch.
    newest: u64,
    counts: Vec<u64>,
}

impl Counters {
    fn sum(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// Returns when the sub-bucket `index` starts, if every `period` has `sub_buckets` of them.
fn start_of(index: u64, period: u64, sub_buckets: u64) -> u64 {
    let into_period = scale_up(index % sub_buckets, period, sub_buckets);
    (index / sub_buckets).saturating_mul(period).saturating_add(into_period)
}

impl SlidingCounter {
    pub(crate) fn new(count: u32, period: u64, sub_buckets: u32) -> Self {
        Self { count, period, sub_buckets }
    }

    /// Returns the index of the sub-bucket that contains an instant.
    fn index(&self, nanos: u64) -> u64 {
        let sub_buckets = u64::from(self.sub_buckets);
        nanos / self.period * sub_buckets + scale_down(nanos % self.period, sub_buckets, self.period)
    }

    /// Moves the counters to `now`. A clock that is set back stays in the newest sub-bucket.
    fn roll(&self, state: &mut Counters, now: Time) {
        let sub_buckets = self.sub_buckets as usize;
        let current = self.index(now.nanos());
        if !self.wrote(state) {
            self.convert(state, current);
        }
        let passed = current.saturating_sub(state.newest);
        let kept = sub_buckets.saturating_sub(usize::try_from(passed).unwrap_or(usize::MAX));
        if passed > 0 {
            state.counts.rotate_right(sub_buckets - kept);
            state.counts[..sub_buckets - kept].fill(0);
            state.newest = current;
        }
    }

    /// Returns whether the counters were written under these parameters.
    fn wrote(&self, state: &Counters) -> bool {
        state.counts.len() == self.sub_buckets as usize && state.period == self.period
    }

    /// Converts counters that were written under other parameters: the sum remains, dated as the newest of them.
    fn convert(&self, state: &mut Counters, current: u64) {
        let sum = state.sum();
        let newest = match (state.counts.len() as u64, state.period) {
            (0, _) | (_, 0) => current,
            (sub_buckets, period) => {
                self.index(start_of(state.newest, period, sub_buckets).min(Time::MAX.nanos()))
            }
        };
        *state = Counters { period: self.period, newest, counts: vec![0; self.sub_buckets as usize] };
        state.counts[0] = sum;
    }

    /// Returns when at least `excess` no longer counts.
    fn expires_at(&self, state: &Counters, excess: u64) -> u64 {
        let mut expired = 0_u64;
        for (age, count) in state.counts.iter().enumerate().rev() {
            expired = expired.saturating_add(*count);
            if *count > 0 && expired >= excess {
                let index = (state.newest + u64::from(self.sub_buckets)).saturating_sub(age as u64);
                return start_of(index, self.period, self.sub_buckets.into());
            }
        }
        0
    }

    fn decision(&self, state: &Counters, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let used = state.sum();
        let reset = if used == 0 { 0 } else { nanos_until(self.expires_at(state, used), now) };
        Balance::used(self.count, used, reset).decision(outcome, granted, wait)
    }

    fn take(&self, state: &mut Counters, now: Time, cost: u32) -> Decision {
        let needed = cost.max(1);
        if needed > self.count {
            return self.decision(state, now, Outcome::NeverFits, 0, 0);
        }
        let used_then = state.sum().saturating_add(needed.into());
        if used_then > self.count.into() {
            let wait = nanos_until(self.expires_at(state, used_then - u64::from(self.count)), now);
            return self.decision(state, now, Outcome::Denied, 0, wait);
        }
        state.counts[0] += u64::from(cost);
        self.decision(state, now, Outcome::Allowed, cost, 0)
    }

    /// Returns the count of the sub-bucket that contains an instant. `None` if it no longer counts.
    fn counter<'c>(&self, state: &'c mut Counters, at: Option<Time>) -> Option<&'c mut u64> {
        let age = at.map_or(0, |at| state.newest.saturating_sub(self.index(at.nanos())));
        state.counts.get_mut(usize::try_from(age).unwrap_or(usize::MAX))
    }
}

impl Decide for SlidingCounter {
    type State = Counters;

    fn kind(&self) -> AlgorithmKind {
        AlgorithmKind::SlidingCounter
    }

    fn capacity(&self) -> u32 {
        self.count
    }

    fn decide(&self, state: &mut Counters, now: Time, operation: &Operation) -> Decision {
        let cost = operation.cost;
        self.roll(state, now);
        match operation.action {
            Action::Take { .. } => self.take(state, now, cost),
            Action::TakeUpTo => {
                let available = u64::from(self.count).saturating_sub(state.sum());
                self.take(state, now, take_up_to_cost(cost, available))
            }
            Action::Debit { at } => {
                if let Some(counter) = self.counter(state, at) {
                    *counter = counter.saturating_add(cost.into());
                }
                self.decision(state, now, Outcome::Allowed, cost, 0)
            }
            Action::Refund { at } => {
                let refunded = self.counter(state, at).map_or(0, |counter| {
                    let refunded = (*counter).min(cost.into());
                    *counter -= refunded;
                    refunded
                });
                self.decision(state, now, Outcome::Allowed, saturate(refunded), 0)
            }
            Action::Reset => {
                state.counts.fill(0);
                self.decision(state, now, Outcome::Allowed, 0, 0)
            }
            Action::Renew | Action::Release => self.take(state, now, 0),
        }
    }

    fn fresh_at(&self, state: &Counters) -> Time {
        let mut state = state.clone();
        if !self.wrote(&state) {
            self.convert(&mut state, 0);
        }
        match state.sum() {
            0 => Time::EPOCH,
            used => Time::from_nanos(self.expires_at(&state, used)),
        }
    }

    fn to_words(state: &Counters) -> Vec<u64> {
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
        // The current sub-bucket holds 31 now, which expire last, at 3:40.
        hourly.set(hours_and_minutes(3, 39));
        assert_eq!(hourly.peek().remaining(), 100 - 31);
        hourly.set(hours_and_minutes(3, 40));
        assert_eq!(hourly.peek().remaining(), 100);
    }

    #[test]
    fn retry_after_is_when_enough_has_expired() {
        let mut hourly = Example::new(Limit::per_hour(100).sliding_counter(3));
        hourly.set(hours_and_minutes(2, 5));
        assert!(hourly.take(60).is_allowed());
        hourly.set(hours_and_minutes(2, 25));
        assert!(hourly.take(40).is_allowed());
        assert_eq!(hourly.take(60).retry_after(), Some(Duration::from_secs(35 * 60)));
        assert_eq!(hourly.take(61).retry_after(), Some(Duration::from_secs(55 * 60)));
    }

    #[test]
    fn uneven_sub_buckets_cover_the_period() {
        let mut counter = Example::new(Limit::per_second(6).sliding_counter(7));
        assert!(counter.take(6).is_allowed());
        let wait = counter.take(1).retry_after().expect("a retry can succeed");
        counter.advance(wait.saturating_sub(Duration::from_nanos(1)));
        assert!(counter.take(1).is_denied());
        counter.advance(Duration::from_nanos(1));
        assert!(counter.take(6).is_allowed());
    }

    #[test]
    fn a_parameter_change_keeps_the_count() {
        let mut hourly = Example::new(Limit::per_hour(100).sliding_counter(3));
        assert!(hourly.take(60).is_allowed());
        hourly.change(Limit::per_hour(70).sliding_counter(12));
        assert_eq!(hourly.peek().remaining(), 10);
    }
}
