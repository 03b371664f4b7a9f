//! The block time on every kind of limit, beside the same limit without it and an instant.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{Limit, LimitBuilder, Outcome, Time};

use super::limits::{build, builders};
use super::promises;
use super::trace::{Ask, BEGIN, Walk, cases, each_answer, period, steps};

/// A block time from a little to twice the period.
fn blocking(limit: &LimitBuilder, part: u64) -> (Limit, Limit) {
    let plain = build(limit.clone());
    let block = (period(&plain) / 50 * part).clamp(1, 366 * 86_400 * 1_000_000_000);
    (build(limit.clone().block_for(Duration::from_nanos(block))), plain)
}

fn cost(ask: Ask) -> u32 {
    match ask {
        Ask::Take(cost) | Ask::Reserve(cost, _) | Ask::TakeUpTo(cost) => cost,
        _ => 0,
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// A denied take starts the block, nothing passes before it ends, and otherwise the limit is as it was.
    #[test]
    fn a_denial_blocks_for_the_block_time(limit in builders(), part in 1..100_u64, steps in steps(30)) {
        let (limit, plain) = blocking(&limit, part);
        let block = limit.block_time().expect("it has one");
        let (mut state, mut twin, mut until) = (State::default(), State::default(), Time::EPOCH);
        let mut walk = Walk::along(&steps);
        while let Some((now, ask)) = walk.next(&limit, &state) {
            let charge = ask.charge(&limit);
            if charge.supported().is_err() {
                continue;
            }
            let seen = state.apply(&charge, now);
            if ask.takes() && now < until {
                prop_assert!(seen.is_denied());
                prop_assert_eq!((seen.granted(), seen.remaining()), (0, 0));
            } else {
                let expected = twin.apply(&ask.charge(&plain), now);
                prop_assert_eq!(seen.outcome(), expected.outcome());
                prop_assert_eq!(seen.granted(), expected.granted());
                prop_assert_eq!(seen.start_after(), expected.start_after());
                if seen.outcome() == Outcome::Denied && cost(ask) > 0 {
                    until = now + block;
                } else if ask.takes() {
                    prop_assert_eq!(seen.remaining(), expected.remaining());
                }
            }
            if ask == Ask::Forget {
                until = Time::EPOCH;
            }
            walk.heard(&seen);
        }
    }

    /// Blocked or not, a decision says when the same charge passes.
    #[test]
    fn retry_is_exact_under_a_block(limit in builders(), part in 1..100_u64, steps in steps(30)) {
        let (limit, _) = blocking(&limit, part);
        each_answer(&limit, &steps, |state, now, ask, seen| {
            // Whether a cost that never fits is told so while blocked has its own test.
            if cost(ask) <= limit.capacity() && promises::knows_when(&limit) {
                promises::retry_is_exact(state, now, &ask.charge(&limit), seen)?;
            }
            Ok(())
        })?;
    }

    /// A block is a part of the state: it is not as good as new before the block is over.
    #[test]
    fn reset_is_exact_under_a_block(limit in builders(), part in 1..100_u64, steps in steps(30)) {
        let (limit, _) = blocking(&limit, part);
        each_answer(&limit, &steps, |state, now, _, seen| promises::reset_is_exact(&limit, state, now, seen))?;
    }
}

/// No wait cures a cost that never fits, so a block must not suggest one.
#[test]
fn a_cost_that_never_fits_is_told_so_while_blocked() {
    let limit = build(Limit::per_second(2).block_for(Duration::from_secs(60)));
    let (mut state, now) = (State::default(), Time::from_nanos(BEGIN));
    assert!(state.apply(&limit.charge("k").with_cost(2), now).is_allowed());
    assert_eq!(state.apply(&limit.charge("k"), now).outcome(), Outcome::Denied);
    assert_eq!(state.apply(&limit.charge("k").with_cost(3), now).outcome(), Outcome::NeverFits);
}
