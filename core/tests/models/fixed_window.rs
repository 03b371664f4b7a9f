//! Fixed windows beside the list of all hits: a hit counts in the window it lies in.

use proptest::prelude::*;
use tollgate_core::Limit;

use super::limits::{build, windows};
use super::trace::{Counting, cases, period, run, steps, take_from};

/// Every hit there ever was: when, and how much of it has not been given back.
struct Hits {
    count: u64,
    period: u64,
    anchored: bool,
    every: Vec<(u64, u64)>,
    now: u64,
}

impl Hits {
    fn none(limit: &Limit, anchored: bool) -> Self {
        Self { count: limit.count().into(), period: period(limit), anchored, every: Vec::new(), now: 0 }
    }

    /// When the window of now began.
    fn begin(&self) -> u64 {
        if !self.anchored {
            return self.now / self.period * self.period;
        }
        let mut begin = None;
        for (at, _) in self.every.iter().filter(|(_, cost)| *cost > 0) {
            if begin.is_none_or(|begin| *at >= begin + self.period) {
                begin = Some(*at);
            }
        }
        begin.filter(|begin| self.now < begin + self.period).unwrap_or(self.now)
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
        let begin = self.begin();
        self.every.iter().filter(|(at, _)| *at >= begin).map(|(_, cost)| cost).sum()
    }

    fn add(&mut self, cost: u64) {
        self.every.push((self.now, cost));
    }

    fn take_back(&mut self, cost: u64) -> u64 {
        let begin = self.begin();
        // The newest first, so that an anchored window keeps its begin.
        take_from(self.every.iter_mut().rev().filter(|(at, _)| *at >= begin), cost)
    }

    fn forget(&mut self) {
        self.every.clear();
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn aligned_window_counts_the_hits_in_it(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().fixed_window());
        run(&limit, &steps, Hits::none(&limit, false))?;
    }

    #[test]
    fn anchored_window_begins_with_the_first_hit(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().fixed_window().anchored());
        run(&limit, &steps, Hits::none(&limit, true))?;
    }
}
