//! Compares fixed windows with the list of all hits: a hit counts in the window that contains it.

use proptest::prelude::*;
use tollgate_core::Limit;

use super::counting::{Counting, refund_from};
use super::limits::{build, windows};
use super::trace::{cases, period, run, steps};

/// All hits: when each happened, and how much of it has not been refunded.
struct Hits {
    count: u64,
    period: u64,
    anchored: bool,
    all: Vec<(u64, u64)>,
    now: u64,
}

impl Hits {
    fn new(limit: &Limit, anchored: bool) -> Self {
        Self { count: limit.count().into(), period: period(limit), anchored, all: Vec::new(), now: 0 }
    }

    /// Returns when the current window started.
    fn start(&self) -> u64 {
        if !self.anchored {
            return self.now / self.period * self.period;
        }
        let mut start = None;
        for (at, _) in self.all.iter().filter(|(_, cost)| *cost > 0) {
            if start.is_none_or(|start| *at >= start + self.period) {
                start = Some(*at);
            }
        }
        start.filter(|start| self.now < start + self.period).unwrap_or(self.now)
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
        let start = self.start();
        self.all.iter().filter(|(at, _)| *at >= start).map(|(_, cost)| cost).sum()
    }

    fn add(&mut self, cost: u64) {
        self.all.push((self.now, cost));
    }

    fn refund(&mut self, cost: u64) -> u64 {
        let start = self.start();
        // The newest first, so that an anchored window keeps its start.
        refund_from(self.all.iter_mut().rev().filter(|(at, _)| *at >= start), cost)
    }

    fn reset(&mut self) {
        self.all.clear();
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn an_aligned_window_counts_its_hits(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().fixed_window());
        run(&limit, &steps, Hits::new(&limit, false))?;
    }

    #[test]
    fn an_anchored_window_starts_at_the_first_hit(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().fixed_window().anchored());
        run(&limit, &steps, Hits::new(&limit, true))?;
    }
}
