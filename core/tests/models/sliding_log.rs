//! Compares the sliding log, with each of its options, with the list of all takes.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{Limit, Time};

use super::counting::Counting;
use super::limits::{build, windows};
use super::trace::{START, Step, cases, period, run, steps};

struct Takes {
    count: u64,
    period: u64,
    gap: u64,
    count_denied: bool,
    all: Vec<(u64, u64)>,
    now: u64,
}

impl Takes {
    fn new(limit: &Limit, gap: u64, count_denied: bool) -> Self {
        let (count, period) = (limit.count().into(), period(limit));
        Self { count, period, gap, count_denied, all: Vec::new(), now: 0 }
    }

    fn counts(&self, at: u64) -> bool {
        self.now < at + self.period
    }
}

impl Counting for Takes {
    fn capacity(&self) -> u64 {
        self.count
    }

    fn advance(&mut self, now: u64) {
        self.now = now;
    }

    fn used(&self) -> u64 {
        self.all.iter().filter(|(at, _)| self.counts(*at)).map(|(_, cost)| cost).sum()
    }

    fn is_delayed(&self) -> bool {
        self.all.last().is_some_and(|(at, _)| self.now < at + self.gap)
    }

    fn add(&mut self, cost: u64) {
        self.all.push((self.now, cost));
    }

    /// From the newest. A take that is refunded in full is removed.
    fn refund(&mut self, cost: u64) -> u64 {
        let mut refunded = 0;
        while let Some((at, left)) = self.all.pop() {
            let part = if self.counts(at) { left.min(cost - refunded) } else { 0 };
            refunded += part;
            if part < left {
                self.all.push((at, left - part));
                break;
            }
        }
        refunded
    }

    fn reset(&mut self) {
        self.all.clear();
    }

    /// Keeps the newest takes, up to the count.
    fn count_denial(&mut self, cost: u64) {
        if !self.count_denied {
            return;
        }
        self.add(cost);
        let mut kept = 0;
        for (_, cost) in self.all.iter_mut().rev() {
            *cost = (*cost).min(self.count - kept);
            kept += *cost;
        }
        self.all.retain(|(_, cost)| *cost > 0);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_sliding_log_counts_the_takes_of_the_last_period(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().sliding_log());
        run(&limit, &steps, Takes::new(&limit, 0, false))?;
    }

    #[test]
    fn denied_takes_count_too(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().sliding_log().count_denied());
        run(&limit, &steps, Takes::new(&limit, 0, true))?;
    }

    #[test]
    fn takes_are_a_gap_apart(rate in windows(), part in 1..=100_u64, steps in steps(40), denied: bool) {
        let gap = (rate.period / 100 * part).max(1);
        let log = rate.limit().sliding_log().min_gap(Duration::from_nanos(gap));
        let limit = build(if denied { log.count_denied() } else { log });
        run(&limit, &steps, Takes::new(&limit, gap, denied))?;
    }

    /// Beyond the period, the log keeps only the newest take. The one before it is unknown after a refund, so this
    /// trace has no refunds.
    #[test]
    fn a_gap_may_be_longer_than_the_period(
        rate in windows(),
        part in 101..300_u64,
        steps in steps(40),
        denied: bool,
    ) {
        let gap = (rate.period.div_ceil(100) * part).min(366 * 86_400 * 1_000_000_000);
        let log = rate.limit().sliding_log().min_gap(Duration::from_nanos(gap));
        let limit = build(if denied { log.count_denied() } else { log });
        let steps: Vec<_> = steps.into_iter().map(Step::without_refund).collect();
        run(&limit, &steps, Takes::new(&limit, gap, denied))?;
    }

    /// The definition: never more than the count in any period.
    #[test]
    fn never_more_than_the_count_in_any_period(
        count in 1..8_u32,
        pauses in proptest::collection::vec((0..300_u64, 0..5_u32), 1..80),
    ) {
        let limit = build(Limit::per(count, Duration::from_micros(1)).sliding_log());
        let (mut state, mut now, mut takes) = (State::default(), START, Vec::new());
        for (pause, cost) in pauses {
            now += pause;
            let decision = state.apply(&limit.charge("k").with_cost(cost), Time::from_nanos(now));
            takes.push((now, decision.granted()));
            let counted: u32 = takes.iter().filter(|(at, _)| at + 1000 > now).map(|(_, cost)| cost).sum();
            prop_assert!(counted <= count);
        }
    }
}

/// A take that has left the period cannot be refunded, so a refund that finds nothing does not end its gap.
#[test]
fn a_refund_of_nothing_does_not_end_the_gap() {
    let seconds = Duration::from_secs;
    let limit = build(Limit::per_second(5).sliding_log().min_gap(seconds(3)));
    let (mut state, start) = (State::default(), Time::from_nanos(START));
    assert!(state.apply(&limit.charge("k"), start).is_allowed());
    let refund = tollgate_core::Action::Refund { at: None };
    assert_eq!(state.apply(&limit.charge("k").with_action(refund), start + seconds(2)).granted(), 0);
    assert_eq!(state.apply(&limit.charge("k"), start + seconds(2)).retry_after(), Some(seconds(1)));
}
