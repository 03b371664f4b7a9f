//! The leaky queue beside the list of all starts: one slot leaves every period/count, first in first out, and
//! at most so many of them lie ahead. Rounding is bounded as for the token bucket.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{Decision, Limit, Outcome, Time};

use super::limits::{build, flows};
use super::token_bucket::{Grains, Scale, nanos};
use super::trace::{Ask, BEGIN, Model, cases, run, steps};

/// Slots that were given out, as instants in grains: a slot is a token long.
struct Queue {
    scale: Scale,
    places: u32,
    starts: Vec<Grains>,
    /// Not before the end of the last slot.
    next: Grains,
}

impl Queue {
    fn empty(limit: &Limit) -> Self {
        Self { scale: Scale::of(limit), places: limit.capacity(), starts: Vec::new(), next: 0 }
    }

    fn give_slots(&mut self, slots: u32) {
        // Only the first and the last of one caller are of interest.
        if slots > 0 {
            self.starts.push(self.next);
            self.next += self.scale.tokens(slots);
        }
    }

    fn take_back(&mut self, slots: u32, present: Grains) {
        self.next = (self.next - self.scale.tokens(slots)).max(present);
        self.starts.retain(|start| *start < self.next);
    }

    fn check_take(
        &self,
        cost: u32,
        patience: Option<u64>,
        present: Grains,
        seen: &Decision,
    ) -> TestCaseResult {
        let asked = cost.max(1);
        if asked > self.places {
            prop_assert_eq!(seen.outcome(), Outcome::NeverFits);
            return Ok(());
        }
        // The last of its slots may start once those before it, but for the one that leaves, fit.
        let last = self.next + self.scale.tokens(asked - 1);
        let lack = last - present - self.scale.tokens(self.places - 1);
        let start = self.next - present;
        if seen.is_allowed() {
            prop_assert_eq!(seen.granted(), cost);
            self.scale.check_wait(0, lack)?;
            prop_assert!(patience.is_none_or(|patience| nanos(seen.start_after()) <= patience));
            return self.scale.check_wait(nanos(seen.start_after()), start);
        }
        let wait = nanos(seen.retry_after().expect("a wait cures it"));
        let late = patience.map_or(0, |patience| start - self.scale.nanos(patience));
        self.scale.check_wait(wait, lack.max(late))
    }
}

impl Model for Queue {
    fn follow(&mut self, now: u64, ask: Ask, seen: &Decision) -> TestCaseResult {
        let present = self.scale.nanos(now);
        self.next = self.next.max(present);
        match ask {
            Ask::Take(cost) => self.check_take(cost, None, present, seen)?,
            Ask::Reserve(cost, patience) => self.check_take(cost, Some(nanos(patience)), present, seen)?,
            Ask::TakeUpTo(most) => {
                let free = present + self.scale.tokens(self.places) - self.next;
                if seen.is_allowed() && most > 0 {
                    self.scale.check_tokens(seen.granted().into(), free.min(self.scale.tokens(most)))?;
                    self.scale.check_wait(nanos(seen.start_after()), self.next - present)?;
                } else {
                    self.check_take(most.min(1), None, present, seen)?;
                }
            }
            Ask::Debit(cost) => prop_assert_eq!((seen.is_allowed(), seen.granted()), (true, cost)),
            Ask::Refund(cost) => prop_assert!(seen.is_allowed() && seen.granted() <= cost),
            Ask::Forget => prop_assert!(seen.is_allowed()),
        }
        match ask {
            Ask::Forget => {
                self.starts.clear();
                self.next = present;
            }
            Ask::Refund(cost) => self.take_back(cost, present),
            _ => self.give_slots(seen.granted()),
        }
        let ahead = self.next - present;
        let left = i128::from(seen.remaining()) - i128::from(seen.debt());
        self.scale.check_tokens(left, self.scale.tokens(self.places) - ahead)?;
        self.scale.check_wait(nanos(seen.reset_after()), ahead)
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn queue_gives_out_slots((rate, waiting) in flows(), steps in steps(40)) {
        let limit = build(rate.limit().queue(waiting.min(999_999_999)));
        run(&limit, &steps, Queue::empty(&limit))?;
    }

    /// Seen from outside, without any arithmetic: starts are an interval apart, whatever the arrivals, and no
    /// more than the stated number lies ahead at any arrival.
    #[test]
    fn starts_are_apart_and_few_wait(
        waiting in 1..6_u32,
        arrivals in proptest::collection::vec(0..2500_u64, 1..60),
    ) {
        let limit = build(Limit::per_second(1).queue(waiting));
        let (mut state, mut now) = (State::default(), Time::from_nanos(BEGIN));
        let mut starts: Vec<Time> = Vec::new();
        for pause in arrivals {
            now = now + Duration::from_millis(pause / 3);
            let seen = state.apply(&limit.charge("k"), now);
            let ahead = starts.iter().filter(|start| **start > now).count();
            if seen.is_allowed() {
                let start = now + seen.start_after();
                let free = starts.last().map_or(now, |last| now.max(*last + Duration::from_secs(1)));
                prop_assert_eq!(start, free);
                prop_assert!(ahead + usize::from(start > now) <= waiting as usize);
                starts.push(start);
            } else {
                prop_assert_eq!(ahead, waiting as usize, "denied though there was room");
            }
        }
    }
}
