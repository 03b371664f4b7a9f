//! The sliding window beside the list of all hits, counted per window and weighted in exact rationals.

use proptest::prelude::*;
use tollgate_core::Limit;

use super::limits::{build, windows};
use super::trace::{Counting, cases, period, run, steps, take_from};

struct Hits {
    count: u64,
    period: u64,
    /// Each window's number and cost.
    every: Vec<(u64, u64)>,
    now: u64,
}

impl Hits {
    fn none(limit: &Limit) -> Self {
        Self { count: limit.count().into(), period: period(limit), every: Vec::new(), now: 0 }
    }

    fn window(&self) -> u64 {
        self.now / self.period
    }

    fn hits_in(&self, window: u64) -> u64 {
        self.every.iter().filter(|(at, _)| *at == window).map(|(_, cost)| cost).sum()
    }
}

impl Counting for Hits {
    fn capacity(&self) -> u64 {
        self.count
    }

    fn advance(&mut self, now: u64) {
        self.now = now;
    }

    fn used(&self) -> u64 {
        // A debt ends with its window.
        let previous = u128::from(self.hits_in(self.window() - 1).min(self.count));
        let in_sight = u128::from(self.period - self.now % self.period);
        // Rounded up: nothing passes early.
        let weighted = (previous * in_sight).div_ceil(self.period.into());
        self.hits_in(self.window()) + u64::try_from(weighted).expect("at most the previous count")
    }

    fn add(&mut self, cost: u64) {
        self.every.push((self.window(), cost));
    }

    /// A refund without an instant belongs to now.
    fn take_back(&mut self, cost: u64) -> u64 {
        let current = self.window();
        take_from(self.every.iter_mut().filter(|(window, _)| *window == current), cost)
    }

    fn forget(&mut self) {
        self.every.clear();
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn sliding_window_weighs_the_previous_window(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().sliding_window());
        run(&limit, &steps, Hits::none(&limit))?;
    }
}
