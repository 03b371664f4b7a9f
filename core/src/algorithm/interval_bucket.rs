//! Token bucket refilled by interval: the whole count at the end of each period, up to the capacity. The first period
//! starts with the first debit from a full bucket.
//!
//! Reservations start in order. Until a reservation starts, nobody behind it takes the tokens of earlier periods. What
//! overflows the capacity in that time is lost, and counts as missing.

use alloc::vec;
use alloc::vec::Vec;

use super::{AlgorithmKind, Balance, Decide, nanos_until, saturate, take_up_to_cost};
use crate::charge::{Action, Operation};
use crate::decision::{Decision, Outcome};
use crate::time::{Time, nanos};

/// The parameters of a token bucket refilled by interval.
#[derive(Clone, Debug)]
pub(crate) struct IntervalBucket {
    /// The tokens that a period refills: the count, but no more than the capacity.
    refill: u32,
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
        Self { refill: count.min(capacity), period, capacity }
    }

    /// Returns the bucket at `now`: refilled once for every period that has passed.
    fn refilled(&self, state: &Tokens, now: Time) -> Tokens {
        let periods = now.nanos().saturating_sub(state.since) / self.period;
        let most = if state.overdrawn { u64::MAX } else { self.capacity.into() };
        let missing = state.missing.min(most).saturating_sub(self.refills(periods));
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

    /// Returns the tokens that this many periods refill.
    fn refills(&self, periods: u64) -> u64 {
        periods.saturating_mul(self.refill.into())
    }

    /// Returns after how many periods at most `missing` tokens are missing.
    fn periods_until(&self, state: &Tokens, missing: u64) -> u64 {
        state.missing.saturating_sub(missing).div_ceil(self.refill.into())
    }

    /// Returns the instant this many periods from the start of the current one; zero for none.
    fn after(&self, state: &Tokens, periods: u64) -> u64 {
        if periods == 0 { 0 } else { state.since.saturating_add(periods.saturating_mul(self.period)) }
    }

    /// Returns when no token is missing.
    fn full_at(&self, state: &Tokens) -> u64 {
        self.after(state, self.periods_until(state, 0))
    }

    fn decision(&self, state: &Tokens, now: Time, outcome: Outcome, granted: u32, wait: u64) -> Decision {
        let reset = nanos_until(self.full_at(state), now);
        Balance::used(self.capacity, state.missing, reset).decision(outcome, granted, wait)
    }

    fn take(&self, tokens: &mut Tokens, now: Time, cost: u32, max_wait: u64) -> Decision {
        let needed = cost.max(1);
        let Some(may_be_missing) = self.capacity.checked_sub(needed) else {
            return self.decision(tokens, now, Outcome::NeverFits, 0, 0);
        };
        let periods = self.periods_until(tokens, may_be_missing.into());
        let start = nanos_until(self.after(tokens, periods), now);
        if start > max_wait {
            return self.decision(tokens, now, Outcome::Denied, 0, start - max_wait);
        }
        if cost > 0 {
            // The periods until the start do not fill the bucket beyond its capacity.
            tokens.missing = tokens.missing.max(self.refills(periods)).saturating_add(cost.into());
        }
        self.decision(tokens, now, Outcome::Allowed, cost, start)
    }

    /// Returns how much of a debit of `cost` at `at` can be refunded.
    fn refundable(&self, tokens: &Tokens, now: Time, cost: u32, at: Time) -> u64 {
        if at > now {
            // A reservation that has not started. If others start in later periods, they keep their start: what is
            // refunded before them could overflow, and be taken a second time.
            let periods = at.nanos().saturating_sub(tokens.since) / self.period;
            let most = self.refills(periods).saturating_add(self.capacity.into());
            return if tokens.missing > most { 0 } else { cost.into() };
        }
        // Every refill since the debit has covered a part of it.
        let refills = tokens.since.saturating_sub(at.nanos()).div_ceil(self.period);
        u64::from(cost).saturating_sub(self.refills(refills))
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
                let refundable = at.map_or(cost.into(), |at| self.refundable(&tokens, now, cost, at));
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
        Time::from_nanos(self.full_at(state))
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

    #[test]
    fn no_more_than_the_capacity_starts_at_once() {
        let mut bucket = Example::new(Limit::per_second(10).burst(5).refill_by_interval());
        assert!(bucket.take(5).is_allowed());
        let starts: Vec<_> =
            (0..3).map(|_| bucket.reserve(3, Duration::from_secs(9)).start_after().as_secs()).collect();
        assert_eq!(starts, [1, 2, 3], "two of three tokens are left at each start, and overflow");
    }

    #[test]
    fn a_cancelled_reservation_does_not_start_others_together() {
        let mut bucket = Example::new(Limit::per_second(5).burst(5).refill_by_interval());
        assert!(bucket.take(5).is_allowed());
        let now = bucket.now();
        let reserve = |bucket: &mut Example| {
            let reservation = bucket.reserve(1, Duration::from_secs(60));
            now + reservation.start_after()
        };
        let mut starts: Vec<_> = (0..15).map(|_| reserve(&mut bucket)).collect();
        for start in starts.drain(..10) {
            let _ = bucket.refund_at(1, start);
        }
        starts.extend((0..10).map(|_| reserve(&mut bucket)));
        for start in &starts {
            let together = starts.iter().filter(|other| *other == start).count();
            assert!(together <= 5, "{together} start together: {starts:?}");
        }
    }

    #[test]
    fn the_last_reservation_can_be_cancelled() {
        let mut bucket = Example::new(Limit::per_second(5).burst(5).refill_by_interval());
        assert!(bucket.take(5).is_allowed());
        let start = bucket.now() + bucket.reserve(3, Duration::from_secs(9)).start_after();
        assert_eq!(bucket.refund_at(3, start).granted(), 3);
        assert_eq!(bucket.reserve(5, Duration::from_secs(9)).start_after(), Duration::from_secs(1));
    }
}
