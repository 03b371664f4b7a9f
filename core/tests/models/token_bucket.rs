//! Token bucket, leaky meter and GCRA beside an exact rational token count.
//!
//! The implementation works on a scale whose unit is a nanosecond or a little more: a token is
//! `floor(period / count)` units. The tight bound: seen through whole tokens, an answer is never less than
//! the rational one and less than one unit ahead of it, however long it runs. Times are never later than the
//! rational ones, rounded up to a nanosecond, and less than one unit earlier. Where a token's time is a
//! whole number of nanoseconds there is no difference at all.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{Decision, Limit, Outcome, Time};

use super::limits::{Rate, build, flows, rates};
use super::trace::{Ask, BEGIN, HORIZON, Model, cases, run, steps};

/// Grains, the model's own unit: a token is `period` of them and a nanosecond refills `count`, so that
/// everything is whole.
pub(crate) type Grains = i128;

/// The grains of a rate, and how far an answer may be from the rational one.
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

    /// Less than one unit, or nothing at all if tokens take whole nanoseconds.
    fn within_a_unit(&self, ahead: Grains) -> bool {
        let even = self.token % self.count == 0;
        if even { ahead <= 0 } else { ahead * self.units_per_token < self.token }
    }

    /// `whole` tokens were seen where there are exactly `grains`.
    pub(crate) fn check_tokens(&self, whole: i128, grains: Grains) -> TestCaseResult {
        prop_assert!(whole >= grains.div_euclid(self.token), "{} tokens of {}", whole, self.show(grains));
        let ahead = whole * self.token - grains;
        prop_assert!(self.within_a_unit(ahead), "{} tokens of only {}", whole, self.show(grains));
        Ok(())
    }

    /// A wait was told where exactly `grains` have to flow.
    pub(crate) fn check_wait(&self, wait: u64, grains: Grains) -> TestCaseResult {
        let exact = grains.max(0);
        let late = self.nanos(wait) - exact;
        prop_assert!(late < self.count, "{} ns for {}", wait, self.show(exact));
        prop_assert!(self.within_a_unit(-late), "only {} ns for {}", wait, self.show(exact));
        Ok(())
    }

    fn show(&self, grains: Grains) -> String {
        format!("{} + {}/{} tokens", grains.div_euclid(self.token), grains.rem_euclid(self.token), self.token)
    }
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("below the horizon")
}

/// The definition: starts full, refilled continuously up to the capacity, admits what is there.
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

    /// A take with this patience: it starts when the tokens are there, if that is soon enough.
    fn check_take(&self, cost: u32, patience: u64, seen: &Decision) -> TestCaseResult {
        let asked = self.scale.tokens(cost.max(1));
        if asked > self.capacity {
            prop_assert_eq!(seen.outcome(), Outcome::NeverFits);
            return Ok(());
        }
        let start = match seen.outcome() {
            Outcome::Allowed => {
                prop_assert_eq!(seen.granted(), cost);
                prop_assert!(nanos(seen.start_after()) <= patience);
                nanos(seen.start_after())
            }
            _ => patience + nanos(seen.retry_after().expect("a wait cures it")),
        };
        self.scale.check_wait(start, asked - self.tokens)
    }

    fn check_part(&self, most: u32, seen: &Decision) -> TestCaseResult {
        if seen.is_denied() {
            prop_assert_eq!(seen.outcome(), Outcome::Denied);
            return self.scale.check_tokens(0, self.tokens.clamp(0, self.scale.token));
        }
        if most == 0 {
            return self.check_take(0, 0, seen);
        }
        prop_assert!((1..=most).contains(&seen.granted()));
        let granted = i128::from(seen.granted());
        let most = self.scale.tokens(most).min(self.tokens);
        self.scale.check_tokens(granted, most)
    }

    /// Only what is missing can be given back; a part of a token is given back, but not told.
    fn check_refund(&self, cost: u32, seen: &Decision) -> TestCaseResult {
        let missing = self.capacity - self.tokens;
        let most = self.scale.tokens(cost).min(missing);
        let granted = i128::from(seen.granted());
        prop_assert!(granted <= i128::from(cost));
        prop_assert!(self.scale.within_a_unit(granted * self.scale.token - most), "gave back too much");
        let kept = most - (granted + 1) * self.scale.token;
        prop_assert!(kept < 0 || self.scale.within_a_unit(kept), "gave back too little");
        Ok(())
    }
}

impl Model for Bucket {
    fn follow(&mut self, now: u64, ask: Ask, seen: &Decision) -> TestCaseResult {
        self.refill(now);
        match ask {
            Ask::Take(cost) => self.check_take(cost, 0, seen)?,
            Ask::Reserve(cost, patience) => self.check_take(cost, nanos(patience), seen)?,
            Ask::TakeUpTo(most) => self.check_part(most, seen)?,
            Ask::Refund(cost) => self.check_refund(cost, seen)?,
            Ask::Debit(cost) => prop_assert_eq!((seen.is_allowed(), seen.granted()), (true, cost)),
            Ask::Forget => prop_assert!(seen.is_allowed()),
        }
        self.tokens = match ask {
            Ask::Forget => self.capacity,
            Ask::Refund(cost) => (self.tokens + self.scale.tokens(cost)).min(self.capacity),
            _ => self.tokens - self.scale.tokens(seen.granted()),
        };
        let left = i128::from(seen.remaining()) - i128::from(seen.debt());
        self.scale.check_tokens(left, self.tokens)?;
        self.scale.check_wait(nanos(seen.reset_after()), self.capacity - self.tokens)
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn token_bucket_counts_rational_tokens((rate, burst) in flows(), steps in steps(40)) {
        let limit = build(rate.limit().burst(burst));
        run(&limit, &steps, Bucket::full(&limit))?;
    }

    #[test]
    fn leaky_meter_is_its_dual((rate, burst) in flows(), steps in steps(25)) {
        let limit = build(rate.limit().burst(burst).leaky_bucket());
        run(&limit, &steps, Bucket::full(&limit))?;
    }

    #[test]
    fn gcra_decides_as_a_token_bucket((rate, burst) in flows(), steps in steps(25)) {
        let limit = build(rate.limit().burst(burst).gcra());
        run(&limit, &steps, Bucket::full(&limit))?;
    }

    /// Whoever takes whatever there is, whenever: in total the capacity, what flowed in, and less than one
    /// unit.
    #[test]
    fn never_more_than_the_capacity_and_what_flowed_in(
        (rate, burst) in flows(),
        pauses in proptest::collection::vec(0..9_u64, 1..200),
    ) {
        let limit = build(rate.limit().burst(burst));
        let scale = Scale::of(&limit);
        let (mut state, mut now, mut passed) = (State::default(), BEGIN, 0);
        for pause in pauses {
            let seen = state.apply(&Ask::TakeUpTo(u32::MAX).charge(&limit), Time::from_nanos(now));
            passed += i128::from(seen.granted());
            let flowed = scale.tokens(burst) + scale.nanos(now - BEGIN);
            prop_assert!(scale.within_a_unit(passed * scale.token - flowed));
            now += pause * rate.period.div_ceil(u64::from(rate.count)) / 3;
            if now > HORIZON {
                break;
            }
        }
    }
}

/// A rate whose tokens never take whole nanoseconds, asked at every nanosecond for a while and then in
/// long strides, but never let get full: still less than a unit from the rational rate.
#[test]
fn long_runs_do_not_drift() {
    for rate in [
        Rate { count: 700_000_000, period: 1_000_000_000 },
        Rate { count: 7, period: 1_000_000_000 },
        Rate { count: 2, period: 3 },
    ] {
        let limit = build(rate.limit().burst(1_000_000));
        let scale = Scale::of(&limit);
        let (mut state, mut passed, mut now) = (State::default(), 0, BEGIN);
        for round in 0..40_000_u64 {
            now += if round < 20_000 { 1 } else { rate.period * 999 / u64::from(rate.count) + round % 7 };
            let seen = state.apply(&Ask::TakeUpTo(u32::MAX).charge(&limit), Time::from_nanos(now));
            passed += i128::from(seen.granted());
            // The first call found the bucket full.
            let flowed = scale.tokens(1_000_000) + scale.nanos(now - BEGIN - 1);
            scale.check_tokens(passed, flowed).expect("no drift");
        }
    }
}

/// The rates above are worth their names.
#[test]
fn rates_are_buildable() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    runner
        .run(&rates(), |rate| {
            rate.limit()
                .burst(1)
                .build("rate")
                .map(drop)
                .map_err(|error| TestCaseError::fail(error.to_string()))
        })
        .expect("every rate builds");
}
