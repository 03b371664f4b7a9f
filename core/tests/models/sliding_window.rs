//! Compares the sliding window with the list of all hits, counted per window and weighted in exact rational numbers.

use proptest::prelude::*;
use tollgate_core::Limit;

use super::counting::{Counting, refund_from};
use super::limits::{build, windows};
use super::trace::{cases, period, run, steps};

struct Hits {
    count: u64,
    period: u64,
    /// The index of the window of each hit, and its cost.
    all: Vec<(u64, u64)>,
    now: u64,
}

impl Hits {
    fn new(limit: &Limit) -> Self {
        Self { count: limit.count().into(), period: period(limit), all: Vec::new(), now: 0 }
    }

    fn window(&self) -> u64 {
        self.now / self.period
    }

    fn hits_in(&self, window: u64) -> u64 {
        self.all.iter().filter(|(at, _)| *at == window).map(|(_, cost)| cost).sum()
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
        // Debt expires with its window.
        let previous = u128::from(self.hits_in(self.window() - 1).min(self.count));
        let overlap = u128::from(self.period - self.now % self.period);
        // Rounded up: nothing passes early.
        let weighted = (previous * overlap).div_ceil(self.period.into());
        self.hits_in(self.window()) + u64::try_from(weighted).expect("at most the previous count")
    }

    fn add(&mut self, cost: u64) {
        self.all.push((self.window(), cost));
    }

    /// A refund without an instant applies to the current window.
    fn refund(&mut self, cost: u64) -> u64 {
        let current = self.window();
        refund_from(self.all.iter_mut().filter(|(window, _)| *window == current), cost)
    }

    fn reset(&mut self) {
        self.all.clear();
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_sliding_window_weights_the_previous_window(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().sliding_window());
        run(&limit, &steps, Hits::new(&limit))?;
    }
}
