//! Token bucket refilled by interval: the whole count at the end of each period. The first period starts with the first
//! debit from a full bucket.

use alloc::vec;
use alloc::vec::Vec;

use super::{AlgorithmKind, Balance, Decide, nanos_until, saturate, take_up_to_cost};
use crate::charge::{Action, Operation};
use crate::decision::{Decision, Outcome};
use crate::time::{Time, nanos};

/// The parameters of a token bucket refilled by interval.
#[derive(Clone, Debug)]
pub(crate) struct IntervalBucket {
    count: u32,
    period: u64,
    capacity: u32,
}

/// How many tokens are missing. If none is, the state equals a fresh one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    missing: u64,
    /// The start of the current period.
    since: u64,
    /// Whether debits or reservations have exceeded the capacity. Otherwise more than the capacity is missing only
    /// after a parameter change.
    overdrawn: bool,
}

impl IntervalBucket {
    pub(crate) fn new(count: u32, period: u64, capacity: u32) -> Self {
        Self { count, period, capacity }
    }

    /// Returns the bucket at `now`: refilled once for every period that has passed.
    fn refilled(&self, state: &Tokens, now: Time) -> Tokens {
        let periods = now.nanos().saturating_sub(state.since) / self.period;
        let most = if state.overdrawn { u64::MAX } else { self.capacity.into() };
        let missing = state.missing.min(most).saturating_sub(periods.saturating_mul(self.count.into()));
        if missing == 0 {
            return Self::full(now);
        }
        self.tokens(missing, state.since + periods * self.period)
    }

    fn full(now: Time) -> Tokens {
        Tokens { missing: 0, since: now.nanos(), overdrawn: false }
    }

    fn tokens(&self, missing: u64, since: u64) -> Tokens {
        Tokens { missing, since, overdrawn: missing > self.capacity.into() }
    }

    /// Returns when at most `missing` tokens are missing.
    fn refilled_at(&self, state: &Tokens, missing: u64) -> u64 {
        let periods = state.missing.saturating_sub(missing).div_ceil(self.count.into());
        if periods == 0 { 0 } else { state.since.saturating_add(periods.saturating_mul(self.period)) }
    }

    fn decision(&self, state: &Tokens, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let reset = nanos_until(self.refilled_at(state, 0), now);
        Balance::used(self.capacity, state.missing, reset).decision(outcome, granted, wait)
    }

    fn take(&self, tokens: &mut Tokens, now: Time, cost: u32, max_wait: u64) -> Decision {
        let needed = cost.max(1);
        let Some(may_be_missing) = self.capacity.checked_sub(needed) else {
            return self.decision(tokens, now, Outcome::NeverFits, 0, 0);
        };
        let start = nanos_until(self.refilled_at(tokens, may_be_missing.into()), now);
        if start > max_wait {
            return self.decision(tokens, now, Outcome::Denied, 0, start - max_wait);
        }
        tokens.missing = tokens.missing.saturating_add(cost.into());
        self.decision(tokens, now, Outcome::Allowed, cost, start)
    }
}

impl Decide for IntervalBucket {
    type State = Tokens;

    fn kind(&self) -> AlgorithmKind {
        AlgorithmKind::IntervalBucket
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn decide(&self, state: &mut Tokens, now: Time, operation: &Operation) -> Decision {
        let cost = operation.cost;
        let mut tokens = self.refilled(state, now);
        let decision = match operation.action {
            Action::Take { max_wait } => self.take(&mut tokens, now, cost, max_wait.map_or(0, nanos)),
            Action::TakeUpTo => {
                let available = u64::from(self.capacity).saturating_sub(tokens.missing);
                self.take(&mut tokens, now, take_up_to_cost(cost, available), 0)
            }
            Action::Debit { at } => {
                let dated = at.filter(|at| tokens.missing == 0 && at.nanos() < tokens.since);
                tokens = match dated {
                    // The bucket has not been used since: the period started with this debit.
                    Some(at) => self.refilled(&self.tokens(cost.into(), at.nanos()), now),
                    None => Tokens { missing: tokens.missing.saturating_add(cost.into()), ..tokens },
                };
                self.decision(&tokens, now, Outcome::Allowed, cost, 0)
            }
            Action::Refund { at } => {
                // Every refill since the debit has covered a part of it.
                let refills =
                    at.map_or(0, |at| tokens.since.saturating_sub(at.nanos()).div_ceil(self.period));
                let refundable = u64::from(cost).saturating_sub(refills.saturating_mul(self.count.into()));
                let refunded = refundable.min(tokens.missing);
                tokens.missing -= refunded;
                self.decision(&tokens, now, Outcome::Allowed, saturate(refunded), 0)
            }
            Action::Reset => {
                tokens = Self::full(now);
                self.decision(&tokens, now, Outcome::Allowed, 0, 0)
            }
            Action::Renew | Action::Release => self.take(&mut tokens, now, 0, 0),
        };
        *state =
            if tokens.missing == 0 { Tokens::default() } else { self.tokens(tokens.missing, tokens.since) };
        decision
    }

    fn fresh_at(&self, state: &Tokens) -> Time {
        Time::from_nanos(self.refilled_at(state, 0))
    }

    fn to_words(state: &Tokens) -> Vec<u64> {
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
    fn debt_is_repaid_at_every_interval() {
        let mut bucket = Example::new(Limit::per_second(5).burst(5).refill_by_interval());
        assert_eq!(bucket.debit(12).debt(), 7);
        assert_eq!(bucket.take(1).retry_after(), Some(Duration::from_secs(2)));
        bucket.advance(Duration::from_secs(2));
        assert_eq!(bucket.take(1).remaining(), 2);
    }

    #[test]
    fn a_debit_dated_in_the_past_starts_the_period_of_a_full_bucket() {
        let mut bucket = Example::new(Limit::per_second(10).refill_by_interval());
        let then = bucket.now();
        bucket.advance(millis(400));
        let dated = bucket.debit_at(4, then);
        assert_eq!((dated.remaining(), dated.reset_after()), (6, millis(600)));
        bucket.advance(millis(600));
        assert_eq!(bucket.peek().remaining(), 10);
        assert_eq!(bucket.debit_at(4, then).remaining(), 10, "refilled since");
    }

    #[test]
    fn a_reservation_starts_at_the_end_of_an_interval() {
        let mut bucket = Example::new(Limit::per_second(5).refill_by_interval());
        assert!(bucket.take(3).is_allowed());
        bucket.advance(millis(400));
        assert_eq!(bucket.reserve(4, Duration::from_secs(1)).start_after(), millis(600));
    }
}
