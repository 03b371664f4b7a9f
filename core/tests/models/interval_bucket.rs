//! Compares the token bucket refilled by interval with a simulation of every single refill.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{Decision, Limit, Outcome};

use super::counting::Answer;
use super::limits::{build, capacity, windows};
use super::trace::{Model, Operation, cases, nanos, period, run, steps};

#[derive(Clone)]
struct Bucket {
    refill: i128,
    period: u64,
    capacity: i128,
    tokens: i128,
    /// `None` while the bucket is full.
    next_refill: Option<u64>,
}

impl Bucket {
    fn full(limit: &Limit) -> Self {
        let capacity = limit.capacity().into();
        Self {
            refill: i128::from(limit.count()).min(capacity),
            period: period(limit),
            capacity,
            tokens: capacity,
            next_refill: None,
        }
    }

    fn refill_until(&mut self, now: u64) {
        while let Some(due) = self.next_refill.filter(|due| *due <= now) {
            self.tokens = (self.tokens + self.refill).min(self.capacity);
            self.next_refill = (self.tokens < self.capacity).then_some(due + self.period);
        }
    }

    /// Returns when `cost` tokens are available, and the tokens now that amount to what is there then: what overflows
    /// until then is lost.
    fn available_at(&self, cost: u32, now: u64) -> (u64, i128) {
        let (mut later, mut due, mut refilled) = (self.clone(), now, 0);
        while later.tokens < i128::from(cost.max(1)) {
            due = later.next_refill.expect("not full");
            later.refill_until(due);
            refilled += self.refill;
        }
        (due, later.tokens - refilled)
    }

    fn full_at(&self, now: u64) -> u64 {
        let (mut later, mut due) = (self.clone(), now);
        while let Some(next) = later.next_refill {
            due = next;
            later.refill_until(due);
        }
        due
    }

    fn debit(&mut self, cost: u32, now: u64) {
        self.tokens -= i128::from(cost);
        if cost > 0 && self.next_refill.is_none() {
            self.next_refill = Some(now + self.period);
        }
    }
}

impl Model for Bucket {
    fn follow(&mut self, now: u64, operation: Operation, decision: &Decision) -> TestCaseResult {
        self.refill_until(now);
        let mut start = 0;
        let (outcome, granted) = match operation {
            Operation::Take(cost) | Operation::Reserve(cost, _) if i128::from(cost) > self.capacity => {
                (Outcome::NeverFits, 0)
            }
            Operation::Take(cost) | Operation::Reserve(cost, _) => {
                let max_wait =
                    if let Operation::Reserve(_, max_wait) = operation { nanos(max_wait) } else { 0 };
                let (due, tokens) = self.available_at(cost, now);
                start = due - now;
                if start <= max_wait {
                    self.tokens = if cost > 0 { tokens } else { self.tokens };
                    (Outcome::Allowed, cost)
                } else {
                    (Outcome::Denied, 0)
                }
            }
            Operation::TakeUpTo(_) if self.tokens <= 0 => (Outcome::Denied, 0),
            Operation::TakeUpTo(most) => {
                (Outcome::Allowed, most.min(u32::try_from(self.tokens).expect("positive")))
            }
            Operation::Debit(cost) => (Outcome::Allowed, cost),
            Operation::Refund(cost) => {
                let refunded = i128::from(cost).min(self.capacity - self.tokens);
                self.tokens += refunded;
                (Outcome::Allowed, u32::try_from(refunded).expect("at most the cost"))
            }
            Operation::Reset => {
                self.tokens = self.capacity;
                (Outcome::Allowed, 0)
            }
        };
        if !matches!(operation, Operation::Refund(_) | Operation::Reset) {
            self.debit(granted, now);
        }
        if self.tokens == self.capacity {
            self.next_refill = None;
        }
        prop_assert_eq!(Answer::of(decision), Answer { outcome, granted: granted.into(), left: self.tokens });
        let start = if outcome == Outcome::Allowed { start } else { 0 };
        prop_assert_eq!(nanos(decision.start_after()), start);
        prop_assert_eq!(nanos(decision.reset_after()), self.full_at(now) - now);
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_interval_bucket_refills_at_every_interval(
        rate in windows(),
        burst in 1..40_u32,
        steps in steps(40),
    ) {
        let burst = capacity(rate, burst);
        let limit = build(rate.limit().burst(burst).refill_by_interval());
        run(&limit, &steps, Bucket::full(&limit))?;
    }
}
