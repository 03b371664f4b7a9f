//! The smooth bursty limiter beside the classic definition: stored permits and a next free ticket, in exact
//! rationals. Rounding is bounded as for the token bucket.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{Decision, Limit};

use super::limits::{build, flows};
use super::token_bucket::{Grains, Scale, nanos};
use super::trace::{Ask, Model, cases, run, steps};

struct Smooth {
    scale: Scale,
    most: Grains,
    stored: Grains,
    /// When the next ticket is free, in grains since the epoch.
    free: Grains,
}

impl Smooth {
    fn idle(limit: &Limit) -> Self {
        let scale = Scale::of(limit);
        let most = scale.tokens(limit.capacity());
        Self { scale, most, stored: most, free: 0 }
    }

    fn resync(&mut self, present: Grains) {
        if present > self.free {
            self.stored = (self.stored + present - self.free).min(self.most);
            self.free = present;
        }
    }

    fn spend(&mut self, permits: u32) {
        let wanted = self.scale.tokens(permits);
        let from_store = wanted.min(self.stored);
        self.stored -= from_store;
        self.free += wanted - from_store;
    }

    fn give_back(&mut self, permits: u32, present: Grains) {
        let given = self.scale.tokens(permits);
        let debt = given.min(self.free - present);
        self.free -= debt;
        self.stored = (self.stored + given - debt).min(self.most);
    }
}

impl Model for Smooth {
    fn follow(&mut self, now: u64, ask: Ask, seen: &Decision) -> TestCaseResult {
        let present = self.scale.nanos(now);
        self.resync(present);
        if ask.takes() {
            let (cost, patience) = match ask {
                Ask::Take(cost) | Ask::TakeUpTo(cost) => (cost, 0),
                Ask::Reserve(cost, patience) => (cost, nanos(patience)),
                _ => unreachable!("those are the takes"),
            };
            let start = if seen.is_allowed() {
                prop_assert_eq!(seen.granted(), cost, "any cost passes once the ticket is free");
                prop_assert!(nanos(seen.start_after()) <= patience);
                nanos(seen.start_after())
            } else {
                patience + nanos(seen.retry_after().expect("a wait cures it"))
            };
            self.scale.check_wait(start, self.free - present)?;
        } else {
            prop_assert!(seen.is_allowed());
        }
        match ask {
            Ask::Refund(cost) => self.give_back(cost, present),
            Ask::Forget => *self = Self { stored: self.most, free: present, ..*self },
            _ => self.spend(seen.granted()),
        }
        let left = i128::from(seen.remaining()) - i128::from(seen.debt());
        self.scale.check_tokens(left, self.stored - (self.free - present))?;
        let missing = self.free - present + self.most - self.stored;
        self.scale.check_wait(nanos(seen.reset_after()), missing)
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn smooth_bursty_follows_the_classic_definition((rate, burst) in flows(), steps in steps(40)) {
        let limit = build(rate.limit().burst(burst).smooth());
        run(&limit, &steps, Smooth::idle(&limit))?;
    }
}
