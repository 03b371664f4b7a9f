//! Compares the leaky queue with the list of all starts: one caller starts every period/count, first in first out, and
//! only a limited number of starts lies ahead. Rounding is bounded as for the token bucket.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{Decision, Limit, Outcome, Time};

use super::limits::{build, flows};
use super::token_bucket::{Grains, Scale};
use super::trace::{Model, Operation, START, cases, nanos, run, steps};

/// The positions in the queue, as instants in grains: each position takes the time of a token.
struct Queue {
    scale: Scale,
    capacity: u32,
    starts: Vec<Grains>,
    /// The next free position.
    next: Grains,
}

impl Queue {
    fn empty(limit: &Limit) -> Self {
        Self { scale: Scale::of(limit), capacity: limit.capacity(), starts: Vec::new(), next: 0 }
    }

    fn enqueue(&mut self, positions: u32) {
        // Only the first and the last position of one caller matter.
        if positions > 0 {
            self.starts.push(self.next);
            self.next += self.scale.tokens(positions);
        }
    }

    fn refund(&mut self, positions: u32, present: Grains) {
        self.next = (self.next - self.scale.tokens(positions)).max(present);
        self.starts.retain(|start| *start < self.next);
    }

    fn check_take(
        &self,
        cost: u32,
        max_wait: Option<u64>,
        present: Grains,
        decision: &Decision,
    ) -> TestCaseResult {
        let needed = cost.max(1);
        if needed > self.capacity {
            prop_assert_eq!(decision.outcome(), Outcome::NeverFits);
            return Ok(());
        }
        // Its last position must be within the capacity; the caller that starts at once does not wait.
        let last = self.next + self.scale.tokens(needed - 1);
        let admitted_in = last - present - self.scale.tokens(self.capacity - 1);
        let start = self.next - present;
        if decision.is_allowed() {
            prop_assert_eq!(decision.granted(), cost);
            self.scale.check_wait(0, admitted_in)?;
            prop_assert!(max_wait.is_none_or(|max_wait| nanos(decision.start_after()) <= max_wait));
            return self.scale.check_wait(nanos(decision.start_after()), start);
        }
        let wait = nanos(decision.retry_after().expect("a retry can succeed"));
        let late = max_wait.map_or(0, |max_wait| start - self.scale.nanos(max_wait));
        self.scale.check_wait(wait, admitted_in.max(late))
    }
}

impl Model for Queue {
    fn follow(&mut self, now: u64, operation: Operation, decision: &Decision) -> TestCaseResult {
        let present = self.scale.nanos(now);
        self.next = self.next.max(present);
        match operation {
            Operation::Take(cost) => self.check_take(cost, None, present, decision)?,
            Operation::Reserve(cost, max_wait) => {
                self.check_take(cost, Some(nanos(max_wait)), present, decision)?;
            }
            Operation::TakeUpTo(most) => {
                let free = present + self.scale.tokens(self.capacity) - self.next;
                if decision.is_allowed() && most > 0 {
                    self.scale.check_tokens(decision.granted().into(), free.min(self.scale.tokens(most)))?;
                    self.scale.check_wait(nanos(decision.start_after()), self.next - present)?;
                } else {
                    self.check_take(most.min(1), None, present, decision)?;
                }
            }
            Operation::Debit(cost) => {
                prop_assert_eq!((decision.is_allowed(), decision.granted()), (true, cost));
            }
            Operation::Refund(cost) => prop_assert!(decision.is_allowed() && decision.granted() <= cost),
            Operation::Reset => prop_assert!(decision.is_allowed()),
        }
        match operation {
            Operation::Reset => {
                self.starts.clear();
                self.next = present;
            }
            Operation::Refund(cost) => self.refund(cost, present),
            Operation::Take(_) | Operation::Reserve(..) | Operation::TakeUpTo(_) | Operation::Debit(_) => {
                self.enqueue(decision.granted());
            }
        }
        let ahead = self.next - present;
        let left = i128::from(decision.remaining()) - i128::from(decision.debt());
        self.scale.check_tokens(left, self.scale.tokens(self.capacity) - ahead)?;
        self.scale.check_wait(nanos(decision.reset_after()), ahead)
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn the_queue_starts_callers_in_order((rate, waiting) in flows(), steps in steps(40)) {
        let limit = build(rate.limit().queue(waiting.min(999_999_999)));
        run(&limit, &steps, Queue::empty(&limit))?;
    }

    /// Starts are an interval apart for any arrivals, and at any arrival no more than the given number of callers
    /// waits.
    #[test]
    fn starts_are_an_interval_apart_and_the_queue_is_bounded(
        waiting in 1..6_u32,
        arrivals in proptest::collection::vec(0..2500_u64, 1..60),
    ) {
        let limit = build(Limit::per_second(1).queue(waiting));
        let (mut state, mut now) = (State::default(), Time::from_nanos(START));
        let mut starts: Vec<Time> = Vec::new();
        for pause in arrivals {
            now = now + Duration::from_millis(pause / 3);
            let decision = state.apply(&limit.charge("k"), now);
            let ahead = starts.iter().filter(|start| **start > now).count();
            if decision.is_allowed() {
                let start = now + decision.start_after();
                let free = starts.last().map_or(now, |last| now.max(*last + Duration::from_secs(1)));
                prop_assert_eq!(start, free);
                prop_assert!(ahead + usize::from(start > now) <= waiting as usize);
                starts.push(start);
            } else {
                prop_assert_eq!(ahead, waiting as usize, "denied though a position was free");
            }
        }
    }
}
