//! The sliding log beside the list of all actions, with each of its options.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{Limit, Time};

use super::limits::{build, windows};
use super::trace::{BEGIN, Counting, Step, cases, period, run, steps};

struct Actions {
    count: u64,
    period: u64,
    gap: u64,
    count_denied: bool,
    every: Vec<(u64, u64)>,
    now: u64,
}

impl Actions {
    fn none(limit: &Limit, gap: u64, count_denied: bool) -> Self {
        let (count, period) = (limit.count().into(), period(limit));
        Self { count, period, gap, count_denied, every: Vec::new(), now: 0 }
    }

    fn in_sight(&self, at: u64) -> bool {
        self.now < at + self.period
    }
}

impl Counting for Actions {
    fn capacity(&self) -> u64 {
        self.count
    }

    fn advance(&mut self, now: u64) {
        self.now = now;
    }

    fn used(&self) -> u64 {
        self.every.iter().filter(|(at, _)| self.in_sight(*at)).map(|(_, cost)| cost).sum()
    }

    fn held_up(&self) -> bool {
        self.every.last().is_some_and(|(at, _)| self.now < at + self.gap)
    }

    fn add(&mut self, cost: u64) {
        self.every.push((self.now, cost));
    }

    /// From the newest; an action that was given back in full did not happen.
    fn take_back(&mut self, cost: u64) -> u64 {
        let mut given = 0;
        while let Some((at, left)) = self.every.pop() {
            let part = if self.in_sight(at) { left.min(cost - given) } else { 0 };
            given += part;
            if part < left {
                self.every.push((at, left - part));
                break;
            }
        }
        given
    }

    fn forget(&mut self) {
        self.every.clear();
    }

    /// The newest actions, up to the limit, are kept.
    fn denied(&mut self, cost: u64) {
        if !self.count_denied {
            return;
        }
        self.add(cost);
        let mut kept = 0;
        for (_, cost) in self.every.iter_mut().rev() {
            *cost = (*cost).min(self.count - kept);
            kept += *cost;
        }
        self.every.retain(|(_, cost)| *cost > 0);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn sliding_log_counts_what_is_in_sight(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().sliding_log());
        run(&limit, &steps, Actions::none(&limit, 0, false))?;
    }

    #[test]
    fn denied_actions_count_too(rate in windows(), steps in steps(40)) {
        let limit = build(rate.limit().sliding_log().count_denied());
        run(&limit, &steps, Actions::none(&limit, 0, true))?;
    }

    #[test]
    fn a_gap_keeps_actions_apart(rate in windows(), part in 1..=100_u64, steps in steps(40), denied: bool) {
        let gap = (rate.period / 100 * part).max(1);
        let log = rate.limit().sliding_log().min_gap(Duration::from_nanos(gap));
        let limit = build(if denied { log.count_denied() } else { log });
        run(&limit, &steps, Actions::none(&limit, gap, denied))?;
    }

    /// Only the last action is remembered beyond the period, so which one was before it when it is given back
    /// is nobody's to know: no refunds here.
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
        run(&limit, &steps, Actions::none(&limit, gap, denied))?;
    }

    /// The very definition, seen from outside: never more than the count in any period.
    #[test]
    fn never_more_than_the_count_in_any_period(
        count in 1..8_u32,
        pauses in proptest::collection::vec((0..300_u64, 0..5_u32), 1..80),
    ) {
        let limit = build(Limit::per(count, Duration::from_micros(1)).sliding_log());
        let (mut state, mut now, mut passed) = (State::default(), BEGIN, Vec::new());
        for (pause, cost) in pauses {
            now += pause;
            let seen = state.apply(&limit.charge("k").with_cost(cost), Time::from_nanos(now));
            passed.push((now, seen.granted()));
            let in_sight: u32 = passed.iter().filter(|(at, _)| at + 1000 > now).map(|(_, cost)| cost).sum();
            prop_assert!(in_sight <= count);
        }
    }
}

/// An action that left the period can't be given back, so a refund that finds nothing must not end its gap.
#[test]
fn a_refund_of_nothing_leaves_the_gap_alone() {
    let seconds = Duration::from_secs;
    let limit = build(Limit::per_second(5).sliding_log().min_gap(seconds(3)));
    let (mut state, begin) = (State::default(), Time::from_nanos(BEGIN));
    assert!(state.apply(&limit.charge("k"), begin).is_allowed());
    let refund = tollgate_core::Action::Refund { at: None };
    assert_eq!(state.apply(&limit.charge("k").with_action(refund), begin + seconds(2)).granted(), 0);
    assert_eq!(state.apply(&limit.charge("k"), begin + seconds(2)).retry_after(), Some(seconds(1)));
}
