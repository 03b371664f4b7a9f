//! Compares the sliding counter with the list of all hits: the counts of the last N sub-buckets are summed.

use proptest::prelude::*;
use tollgate_core::Limit;

use super::counting::{Counting, refund_from};
use super::limits::{build, windows};
use super::trace::{cases, period, run, steps};

/// All hits, by the index of their sub-bucket since the Unix epoch.
struct Hits {
    count: u64,
    period: u128,
    sub_buckets: u128,
    all: Vec<(u128, u64)>,
    current: u128,
}

impl Hits {
    fn new(limit: &Limit, sub_buckets: u32) -> Self {
        let (count, period) = (limit.count().into(), period(limit).into());
        Self { count, period, sub_buckets: sub_buckets.into(), all: Vec::new(), current: 0 }
    }
}

impl Counting for Hits {
    fn capacity(&self) -> u64 {
        self.count
    }

    fn advance(&mut self, now: u64) {
        self.current = u128::from(now) * self.sub_buckets / self.period;
    }

    fn used(&self) -> u64 {
        self.all
            .iter()
            .filter(|(index, _)| index + self.sub_buckets > self.current)
            .map(|(_, cost)| cost)
            .sum()
    }

    fn add(&mut self, cost: u64) {
        self.all.push((self.current, cost));
    }

    /// A refund without an instant applies to the current sub-bucket.
    fn refund(&mut self, cost: u64) -> u64 {
        refund_from(self.all.iter_mut().filter(|(index, _)| *index == self.current), cost)
    }

    fn reset(&mut self) {
        self.all.clear();
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_sliding_counter_sums_the_last_sub_buckets(
        rate in windows(),
        sub_buckets in prop_oneof![1..=7_u32, Just(256)],
        steps in steps(40),
    ) {
        let sub_buckets = u32::try_from(rate.period).map_or(sub_buckets, |period| sub_buckets.min(period));
        let limit = build(rate.limit().sliding_counter(sub_buckets));
        run(&limit, &steps, Hits::new(&limit, sub_buckets))?;
    }
}
