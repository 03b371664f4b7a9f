//! Token bucket refilled by interval: the whole count at the end of each period. The first period
//! begins with the first debit from a full bucket.

use alloc::vec;
use alloc::vec::Vec;

use super::{Count, Rules, ahead};
use crate::charge::{Action, Ask};
use crate::decision::{Decision, Outcome};
use crate::time::{Time, nanos};

/// Capacity, refilled once per period.
#[derive(Clone, Debug)]
pub(crate) struct IntervalBucket {
    count: u32,
    period: u64,
    capacity: u32,
}

/// How many tokens are missing since when. None missing is a fresh bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    missing: u64,
    /// The begin of the current period.
    since: u64,
    /// Debits or reservations went past the capacity. Otherwise more than the capacity is missing only
    /// because the limit has changed.
    overdrawn: bool,
}

impl IntervalBucket {
    pub(crate) fn new(count: u32, period: u64, capacity: u32) -> Self {
        Self { count, period, capacity }
    }

    /// The bucket as of now: refilled by every period that has passed.
    fn refilled(&self, state: &Tokens, now: Time) -> Tokens {
        let periods = now.nanos().saturating_sub(state.since) / self.period;
        let most = if state.overdrawn { u64::MAX } else { self.capacity.into() };
        let missing = state.missing.min(most).saturating_sub(periods.saturating_mul(self.count.into()));
        if missing == 0 {
            return Self::full(now);
        }
        self.marked(missing, state.since + periods * self.period)
    }

    fn full(now: Time) -> Tokens {
        Tokens { missing: 0, since: now.nanos(), overdrawn: false }
    }

    fn marked(&self, missing: u64, since: u64) -> Tokens {
        Tokens { missing, since, overdrawn: missing > self.capacity.into() }
    }

    /// When at most `missing` tokens will be missing.
    fn when_missing(&self, state: &Tokens, missing: u64) -> u64 {
        let periods = state.missing.saturating_sub(missing).div_ceil(self.count.into());
        if periods == 0 { 0 } else { state.since.saturating_add(periods.saturating_mul(self.period)) }
    }

    fn answer(&self, state: &Tokens, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let left = i64::from(self.capacity).saturating_sub_unsigned(state.missing);
        let reset = ahead(self.when_missing(state, 0), now);
        Count { limit: self.capacity, left, reset }.answer(outcome, granted, wait)
    }

    fn take(&self, tokens: &mut Tokens, now: Time, cost: u32, max_wait: u64) -> Decision {
        let asked = cost.max(1);
        let Some(spare) = self.capacity.checked_sub(asked) else {
            return self.answer(tokens, now, Outcome::NeverFits, 0, 0);
        };
        let start = ahead(self.when_missing(tokens, spare.into()), now);
        if start > max_wait {
            return self.answer(tokens, now, Outcome::Denied, 0, start - max_wait);
        }
        tokens.missing = tokens.missing.saturating_add(cost.into());
        self.answer(tokens, now, Outcome::Allowed, cost, start)
    }
}

impl Rules for IntervalBucket {
    type State = Tokens;

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn decide(&self, state: &mut Tokens, now: Time, ask: &Ask) -> Decision {
        let mut tokens = self.refilled(state, now);
        let decision = match ask.action {
            Action::Take { max_wait } => self.take(&mut tokens, now, ask.cost, max_wait.map_or(0, nanos)),
            Action::TakeUpTo => {
                let there = u64::from(self.capacity).saturating_sub(tokens.missing);
                let part = ask.cost.min(u32::try_from(there).unwrap_or(u32::MAX));
                self.take(&mut tokens, now, part.max(ask.cost.min(1)), 0)
            }
            Action::Debit { at } => {
                let late = at.filter(|at| tokens.missing == 0 && at.nanos() < tokens.since);
                tokens = match late {
                    // Nobody has used the bucket since: the period began with this debit.
                    Some(at) => self.refilled(&self.marked(ask.cost.into(), at.nanos()), now),
                    None => Tokens { missing: tokens.missing.saturating_add(ask.cost.into()), ..tokens },
                };
                self.answer(&tokens, now, Outcome::Allowed, ask.cost, 0)
            }
            Action::Refund { at } => {
                // What was debited before the current period has been refilled, as far as it goes.
                let refilled =
                    at.map_or(0, |at| tokens.since.saturating_sub(at.nanos()).div_ceil(self.period));
                let worth = u64::from(ask.cost).saturating_sub(refilled.saturating_mul(self.count.into()));
                let given = worth.min(tokens.missing);
                tokens.missing -= given;
                self.answer(&tokens, now, Outcome::Allowed, u32::try_from(given).unwrap_or(u32::MAX), 0)
            }
            Action::Reset => {
                tokens = Self::full(now);
                self.answer(&tokens, now, Outcome::Allowed, 0, 0)
            }
            Action::Renew | Action::Release => self.take(&mut tokens, now, 0, 0),
        };
        *state =
            if tokens.missing == 0 { Tokens::default() } else { self.marked(tokens.missing, tokens.since) };
        decision
    }

    fn fresh_at(&self, state: &Tokens) -> Time {
        Time::from_nanos(self.when_missing(state, 0))
    }

    fn words(state: &Tokens) -> Vec<u64> {
        vec![state.missing, state.since, u64::from(state.overdrawn)]
    }

    fn from_words(words: &[u64]) -> Option<Tokens> {
        match *words {
            [missing, since, overdrawn @ (0 | 1)] if since <= Time::MAX.nanos() => {
                Some(Tokens { missing, since, overdrawn: overdrawn == 1 })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, millis};

    #[test]
    fn refills_all_at_once() {
        let mut bucket = Example::new(Limit::per_second(5).burst(10).refill_by_interval());
        assert_eq!(bucket.take(10).remaining(), 0);
        bucket.advance(millis(999));
        let early = bucket.take(1);
        assert_eq!((early.is_denied(), early.retry_after()), (true, Some(millis(1))));
        bucket.advance(millis(1));
        let refilled = bucket.take(1);
        assert_eq!((refilled.remaining(), refilled.reset_after()), (4, Duration::from_secs(2)));
    }

    #[test]
    fn a_debit_below_zero_is_repaid_by_intervals() {
        let mut bucket = Example::new(Limit::per_second(5).burst(5).refill_by_interval());
        assert_eq!(bucket.debit(12).debt(), 7);
        assert_eq!(bucket.take(1).retry_after(), Some(Duration::from_secs(2)));
        bucket.advance(Duration::from_secs(2));
        assert_eq!(bucket.take(1).remaining(), 2);
    }

    #[test]
    fn a_late_debit_from_a_full_bucket_begins_the_period() {
        let mut bucket = Example::new(Limit::per_second(10).refill_by_interval());
        let then = bucket.now();
        bucket.advance(millis(400));
        let late = bucket.debit_at(4, then);
        assert_eq!((late.remaining(), late.reset_after()), (6, millis(600)));
        bucket.advance(millis(600));
        assert_eq!(bucket.peek().remaining(), 10);
        assert_eq!(bucket.debit_at(4, then).remaining(), 10, "refilled since");
    }

    #[test]
    fn reserves_at_the_end_of_an_interval() {
        let mut bucket = Example::new(Limit::per_second(5).refill_by_interval());
        assert!(bucket.take(3).is_allowed());
        bucket.advance(millis(400));
        assert_eq!(bucket.reserve(4, Duration::from_secs(1)).start_after(), millis(600));
    }
}
