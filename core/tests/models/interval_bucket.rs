//! The bucket that is refilled by interval beside a simulation of every single refill.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{Decision, Limit, Outcome};

use super::limits::{build, capacity, windows};
use super::token_bucket::nanos;
use super::trace::{Answer, Ask, Model, cases, period, run, steps};

#[derive(Clone)]
struct Bucket {
    count: i128,
    period: u64,
    capacity: i128,
    tokens: i128,
    /// Only while the bucket is not full.
    next_refill: Option<u64>,
}

impl Bucket {
    fn full(limit: &Limit) -> Self {
        let capacity = limit.capacity().into();
        Self {
            count: limit.count().into(),
            period: period(limit),
            capacity,
            tokens: capacity,
            next_refill: None,
        }
    }

    fn refill_until(&mut self, now: u64) {
        while let Some(due) = self.next_refill.filter(|due| *due <= now) {
            self.tokens = (self.tokens + self.count).min(self.capacity);
            self.next_refill = (self.tokens < self.capacity).then_some(due + self.period);
        }
    }

    /// When `cost` tokens will be there.
    fn due(&self, cost: u32, now: u64) -> u64 {
        let (mut later, mut due) = (self.clone(), now);
        while later.tokens < i128::from(cost.max(1)) {
            due = later.next_refill.expect("not full");
            later.refill_until(due);
        }
        due
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
    fn follow(&mut self, now: u64, ask: Ask, seen: &Decision) -> TestCaseResult {
        self.refill_until(now);
        let mut start = 0;
        let (outcome, granted) = match ask {
            Ask::Take(cost) | Ask::Reserve(cost, _) if i128::from(cost) > self.capacity => {
                (Outcome::NeverFits, 0)
            }
            Ask::Take(cost) | Ask::Reserve(cost, _) => {
                let patience = if let Ask::Reserve(_, patience) = ask { nanos(patience) } else { 0 };
                start = self.due(cost, now) - now;
                if start <= patience { (Outcome::Allowed, cost) } else { (Outcome::Denied, 0) }
            }
            Ask::TakeUpTo(_) if self.tokens <= 0 => (Outcome::Denied, 0),
            Ask::TakeUpTo(most) => {
                (Outcome::Allowed, most.min(u32::try_from(self.tokens).expect("positive")))
            }
            Ask::Debit(cost) => (Outcome::Allowed, cost),
            Ask::Refund(cost) => {
                let given = i128::from(cost).min(self.capacity - self.tokens);
                self.tokens += given;
                (Outcome::Allowed, u32::try_from(given).expect("at most the cost"))
            }
            Ask::Forget => {
                self.tokens = self.capacity;
                (Outcome::Allowed, 0)
            }
        };
        if !matches!(ask, Ask::Refund(_) | Ask::Forget) {
            self.debit(granted, now);
        }
        if self.tokens == self.capacity {
            self.next_refill = None;
        }
        prop_assert_eq!(Answer::of(seen), Answer { outcome, granted: granted.into(), left: self.tokens });
        let start = if outcome == Outcome::Allowed { start } else { 0 };
        prop_assert_eq!(nanos(seen.start_after()), start);
        prop_assert_eq!(nanos(seen.reset_after()), self.full_at(now) - now);
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn interval_bucket_refills_at_every_interval(
        rate in windows(),
        burst in 1..40_u32,
        steps in steps(40),
    ) {
        let burst = capacity(rate, burst);
        let limit = build(rate.limit().burst(burst).refill_by_interval());
        run(&limit, &steps, Bucket::full(&limit))?;
    }
}
