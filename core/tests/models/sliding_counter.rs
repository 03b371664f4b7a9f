//! The sliding counter beside the list of all hits: the last N sub-buckets are summed.

use proptest::prelude::*;
use tollgate_core::Limit;

use super::limits::{build, windows};
use super::trace::{Counting, cases, period, run, steps, take_from};

/// Every hit there ever was, by the index of its sub-bucket since the epoch.
struct Hits {
    count: u64,
    period: u128,
    parts: u128,
    every: Vec<(u128, u64)>,
    current: u128,
}

impl Hits {
    fn none(limit: &Limit, parts: u32) -> Self {
        let (count, period, parts) = (limit.count().into(), period(limit).into(), parts.into());
        Self { count, period, parts, every: Vec::new(), current: 0 }
    }
}

impl Counting for Hits {
    fn capacity(&self) -> u64 {
        self.count
    }

    fn advance(&mut self, now: u64) {
        self.current = u128::from(now) * self.parts / self.period;
    }

    fn used(&self) -> u64 {
        self.every.iter().filter(|(index, _)| index + self.parts > self.current).map(|(_, cost)| cost).sum()
    }

    fn add(&mut self, cost: u64) {
        self.every.push((self.current, cost));
    }

    /// A refund without an instant belongs to now.
    fn take_back(&mut self, cost: u64) -> u64 {
        take_from(self.every.iter_mut().filter(|(index, _)| *index == self.current), cost)
    }

    fn forget(&mut self) {
        self.every.clear();
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn sliding_counter_sums_the_last_sub_buckets(
        rate in windows(),
        parts in prop_oneof![1..=7_u32, Just(256)],
        steps in steps(40),
    ) {
        let parts = u32::try_from(rate.period).map_or(parts, |period| parts.min(period));
        let limit = build(rate.limit().sliding_counter(parts));
        run(&limit, &steps, Hits::none(&limit, parts))?;
    }
}
