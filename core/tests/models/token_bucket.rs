//! Compares token bucket, leaky meter and GCRA with an exact rational token count.
//!
//! The implementation uses a scale whose unit is a nanosecond or a little more: a token is `floor(period / count)`
//! units. The exact bound, in whole tokens: a balance is never less than the rational one, and less than one unit more,
//! however long the trace. Times are never later than the rational ones, rounded up to a nanosecond, and less than one
//! unit earlier. Where a token takes a whole number of nanoseconds there is no difference at all.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{Decision, Limit, Outcome, Time};

use super::limits::{Rate, build, flows, rates};
use super::trace::{HORIZON, Model, Operation, START, cases, nanos, run, steps};

/// The unit of the model: a token is `period` grains and a nanosecond refills `count` of them, so that all amounts are
/// whole.
pub(crate) type Grains = i128;

/// The grains of a rate, and how far a decision may differ from the rational one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    pub(crate) count: i128,
    pub(crate) token: Grains,
    units_per_token: i128,
}

impl Scale {
    pub(crate) fn of(limit: &Limit) -> Self {
        let count = i128::from(limit.count());
        let token = i128::try_from(limit.period().as_nanos()).expect("a year at most");
        Self { count, token, units_per_token: token / count }
    }

    pub(crate) fn tokens(&self, tokens: u32) -> Grains {
        self.token * i128::from(tokens)
    }

    pub(crate) fn nanos(&self, nanos: u64) -> Grains {
        self.count * i128::from(nanos)
    }

    /// Returns whether `ahead` is less than one unit, or zero if tokens take whole nanoseconds.
    fn within_a_unit(&self, ahead: Grains) -> bool {
        let even = self.token % self.count == 0;
        if even { ahead <= 0 } else { ahead * self.units_per_token < self.token }
    }

    /// Checks that `whole` tokens were reported where there are exactly `grains`.
    pub(crate) fn check_tokens(&self, whole: i128, grains: Grains) -> TestCaseResult {
        prop_assert!(whole >= grains.div_euclid(self.token), "{} tokens of {}", whole, self.format(grains));
        let ahead = whole * self.token - grains;
        prop_assert!(self.within_a_unit(ahead), "{} tokens of only {}", whole, self.format(grains));
        Ok(())
    }

    /// Checks the reported time in which exactly `grains` refill.
    pub(crate) fn check_wait(&self, wait: u64, grains: Grains) -> TestCaseResult {
        let exact = grains.max(0);
        let late = self.nanos(wait) - exact;
        prop_assert!(late < self.count, "{} ns for {}", wait, self.format(exact));
        prop_assert!(self.within_a_unit(-late), "only {} ns for {}", wait, self.format(exact));
        Ok(())
    }

    fn format(&self, grains: Grains) -> String {
        format!("{} + {}/{} tokens", grains.div_euclid(self.token), grains.rem_euclid(self.token), self.token)
    }
}

/// The definition: starts full, refills continuously up to the capacity, and admits a charge if there are enough
/// tokens.
struct Bucket {
    scale: Scale,
    capacity: Grains,
    tokens: Grains,
    at: u64,
}

impl Bucket {
    fn full(limit: &Limit) -> Self {
        let scale = Scale::of(limit);
        let capacity = scale.tokens(limit.capacity());
        Self { scale, capacity, tokens: capacity, at: 0 }
    }

    fn refill(&mut self, now: u64) {
        self.tokens = (self.tokens + self.scale.nanos(now - self.at)).min(self.capacity);
        self.at = now;
    }

    /// Checks a take: it starts when the tokens are available, if that is within `max_wait`.
    fn check_take(&self, cost: u32, max_wait: u64, decision: &Decision) -> TestCaseResult {
        let needed = self.scale.tokens(cost.max(1));
        if needed > self.capacity {
            prop_assert_eq!(decision.outcome(), Outcome::NeverFits);
            return Ok(());
        }
        let start = if decision.is_allowed() {
            prop_assert_eq!(decision.granted(), cost);
            prop_assert!(nanos(decision.start_after()) <= max_wait);
            nanos(decision.start_after())
        } else {
            max_wait + nanos(decision.retry_after().expect("a retry can succeed"))
        };
        self.scale.check_wait(start, needed - self.tokens)
    }

    fn check_take_up_to(&self, most: u32, decision: &Decision) -> TestCaseResult {
        if decision.is_denied() {
            prop_assert_eq!(decision.outcome(), Outcome::Denied);
            return self.scale.check_tokens(0, self.tokens.clamp(0, self.scale.token));
        }
        if most == 0 {
            return self.check_take(0, 0, decision);
        }
        prop_assert!((1..=most).contains(&decision.granted()));
        let granted = i128::from(decision.granted());
        let most = self.scale.tokens(most).min(self.tokens);
        self.scale.check_tokens(granted, most)
    }

    /// Checks a refund: at most what is missing. A part of a token is refunded, but not reported.
    fn check_refund(&self, cost: u32, decision: &Decision) -> TestCaseResult {
        let missing = self.capacity - self.tokens;
        let most = self.scale.tokens(cost).min(missing);
        let granted = i128::from(decision.granted());
        prop_assert!(granted <= i128::from(cost));
        prop_assert!(self.scale.within_a_unit(granted * self.scale.token - most), "refunded too much");
        let not_refunded = most - (granted + 1) * self.scale.token;
        prop_assert!(not_refunded < 0 || self.scale.within_a_unit(not_refunded), "refunded too little");
        Ok(())
    }
}

impl Model for Bucket {
    fn follow(&mut self, now: u64, operation: Operation, decision: &Decision) -> TestCaseResult {
        self.refill(now);
        match operation {
            Operation::Take(cost) => self.check_take(cost, 0, decision)?,
            Operation::Reserve(cost, max_wait) => self.check_take(cost, nanos(max_wait), decision)?,
            Operation::TakeUpTo(most) => self.check_take_up_to(most, decision)?,
            Operation::Refund(cost) => self.check_refund(cost, decision)?,
            Operation::Debit(cost) => {
                prop_assert_eq!((decision.is_allowed(), decision.granted()), (true, cost));
            }
            Operation::Reset => prop_assert!(decision.is_allowed()),
        }
        self.tokens = match operation {
            Operation::Reset => self.capacity,
            Operation::Refund(cost) => (self.tokens + self.scale.tokens(cost)).min(self.capacity),
            Operation::Take(_) | Operation::Reserve(..) | Operation::TakeUpTo(_) | Operation::Debit(_) => {
                self.tokens - self.scale.tokens(decision.granted())
            }
        };
        let left = i128::from(decision.remaining()) - i128::from(decision.debt());
        self.scale.check_tokens(left, self.tokens)?;
        self.scale.check_wait(nanos(decision.reset_after()), self.capacity - self.tokens)
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_token_bucket_counts_rational_tokens((rate, burst) in flows(), steps in steps(40)) {
        let limit = build(rate.limit().burst(burst));
        run(&limit, &steps, Bucket::full(&limit))?;
    }

    #[test]
    fn the_leaky_meter_is_the_dual_of_the_token_bucket((rate, burst) in flows(), steps in steps(25)) {
        let limit = build(rate.limit().burst(burst).leaky_bucket());
        run(&limit, &steps, Bucket::full(&limit))?;
    }

    #[test]
    fn gcra_decides_as_a_token_bucket((rate, burst) in flows(), steps in steps(25)) {
        let limit = build(rate.limit().burst(burst).gcra());
        run(&limit, &steps, Bucket::full(&limit))?;
    }

    /// Takes of everything available, at any times, get no more than the capacity, what was refilled, and less than a
    /// unit.
    #[test]
    fn never_more_than_the_capacity_and_what_was_refilled(
        (rate, burst) in flows(),
        pauses in proptest::collection::vec(0..9_u64, 1..200),
    ) {
        let limit = build(rate.limit().burst(burst));
        let scale = Scale::of(&limit);
        let (mut state, mut now, mut granted) = (State::default(), START, 0);
        for pause in pauses {
            let decision = state.apply(&Operation::TakeUpTo(u32::MAX).charge(&limit), Time::from_nanos(now));
            granted += i128::from(decision.granted());
            let refilled = scale.tokens(burst) + scale.nanos(now - START);
            prop_assert!(scale.within_a_unit(granted * scale.token - refilled));
            now += pause * rate.period.div_ceil(u64::from(rate.count)) / 3;
            if now > HORIZON {
                break;
            }
        }
    }
}

/// A rate whose tokens never take whole nanoseconds, taken at every nanosecond for a while and then in long steps, but
/// never full in between, remains less than a unit from the rational rate.
#[test]
fn long_runs_do_not_drift() {
    for rate in [
        Rate { count: 700_000_000, period: 1_000_000_000 },
        Rate { count: 7, period: 1_000_000_000 },
        Rate { count: 2, period: 3 },
    ] {
        let limit = build(rate.limit().burst(1_000_000));
        let scale = Scale::of(&limit);
        let (mut state, mut granted, mut now) = (State::default(), 0, START);
        for round in 0..40_000_u64 {
            now += if round < 20_000 { 1 } else { rate.period * 999 / u64::from(rate.count) + round % 7 };
            let decision = state.apply(&Operation::TakeUpTo(u32::MAX).charge(&limit), Time::from_nanos(now));
            granted += i128::from(decision.granted());
            // The first take found the bucket full.
            let refilled = scale.tokens(1_000_000) + scale.nanos(now - START - 1);
            scale.check_tokens(granted, refilled).expect("no drift");
        }
    }
}

/// Every generated rate is valid.
#[test]
fn rates_are_valid() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    runner
        .run(&rates(), |rate| {
            rate.limit()
                .burst(1)
                .build("rate")
                .map(drop)
                .map_err(|error| TestCaseError::fail(error.to_string()))
        })
        .expect("every rate is valid");
}
