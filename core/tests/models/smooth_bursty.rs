//! Compares the smooth bursty limiter with the classic definition: stored permits and a next free ticket, in exact
//! rational numbers. Rounding is bounded as for the token bucket.

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::{Decision, Limit};

use super::limits::{build, flows};
use super::token_bucket::{Grains, Scale};
use super::trace::{Model, Operation, cases, nanos, run, steps};

struct Smooth {
    scale: Scale,
    most: Grains,
    stored: Grains,
    /// When the next ticket is free, in grains since the Unix epoch.
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
        let needed = self.scale.tokens(permits);
        let from_stored = needed.min(self.stored);
        self.stored -= from_stored;
        self.free += needed - from_stored;
    }

    fn refund(&mut self, permits: u32, present: Grains) {
        let refunded = self.scale.tokens(permits);
        let debt = refunded.min(self.free - present);
        self.free -= debt;
        self.stored = (self.stored + refunded - debt).min(self.most);
    }
}

impl Model for Smooth {
    fn follow(&mut self, now: u64, operation: Operation, decision: &Decision) -> TestCaseResult {
        let present = self.scale.nanos(now);
        self.resync(present);
        if let Some((cost, max_wait)) = operation.as_take() {
            let start = if decision.is_allowed() {
                prop_assert_eq!(decision.granted(), cost, "any cost passes once the ticket is free");
                prop_assert!(nanos(decision.start_after()) <= max_wait);
                nanos(decision.start_after())
            } else {
                max_wait + nanos(decision.retry_after().expect("a retry can succeed"))
            };
            self.scale.check_wait(start, self.free - present)?;
        } else {
            prop_assert!(decision.is_allowed());
        }
        match operation {
            Operation::Refund(cost) => self.refund(cost, present),
            Operation::Reset => *self = Self { stored: self.most, free: present, ..*self },
            Operation::Take(_) | Operation::Reserve(..) | Operation::TakeUpTo(_) | Operation::Debit(_) => {
                self.spend(decision.granted());
            }
        }
        let left = i128::from(decision.remaining()) - i128::from(decision.debt());
        self.scale.check_tokens(left, self.stored - (self.free - present))?;
        let missing = self.free - present + self.most - self.stored;
        self.scale.check_wait(nanos(decision.reset_after()), missing)
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
