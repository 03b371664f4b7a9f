//! Compares limits with a block time, of every algorithm, with the same limits without one.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{AlgorithmKind, Limit, LimitBuilder, Outcome, Time};

use super::guarantees;
use super::limits::{build, builders, builders_of};
use super::trace::{Operation, START, Trace, cases, for_each_decision, period, state_after, steps};

/// Returns the limit with a block time of up to twice the period, and the limit without one.
fn with_block_time(limit: &LimitBuilder, part: u64) -> (Limit, Limit) {
    let plain = build(limit.clone());
    let block = (period(&plain) / 50 * part).clamp(1, 366 * 86_400 * 1_000_000_000);
    (build(limit.clone().block_for(Duration::from_nanos(block))), plain)
}

fn cost(operation: Operation) -> u32 {
    operation.as_take().map_or(0, |(cost, _)| cost)
}

proptest! {
    #![proptest_config(cases(300))]

    /// A denied take starts the block time, no take passes before it ends, and all else is as without a block time.
    #[test]
    fn a_denial_blocks_for_the_block_time(limit in builders(), part in 1..100_u64, steps in steps(30)) {
        let (limit, plain) = with_block_time(&limit, part);
        let block = limit.block_time().expect("it has one");
        let (mut state, mut plain_state, mut blocked_until) = (State::default(), State::default(), Time::EPOCH);
        let mut trace = Trace::of(&steps);
        while let Some((now, operation)) = trace.next(&limit, &state) {
            let charge = operation.charge(&limit);
            if charge.supported().is_err() {
                continue;
            }
            let decision = state.apply(&charge, now);
            if operation.is_take() && now < blocked_until {
                prop_assert!(decision.is_denied());
                prop_assert_eq!((decision.granted(), decision.remaining()), (0, 0));
            } else {
                let expected = plain_state.apply(&operation.charge(&plain), now);
                prop_assert_eq!(decision.outcome(), expected.outcome());
                prop_assert_eq!(decision.granted(), expected.granted());
                prop_assert_eq!(decision.start_after(), expected.start_after());
                if decision.outcome() == Outcome::Denied && cost(operation) > 0 {
                    blocked_until = now + block;
                } else if operation.is_take() {
                    prop_assert_eq!(decision.remaining(), expected.remaining());
                }
            }
            if operation == Operation::Reset {
                blocked_until = Time::EPOCH;
            }
            trace.observe(&decision);
        }
    }

    /// Blocked or not, a denial reports when the same charge can pass.
    #[test]
    fn retry_is_exact_under_a_block(limit in builders(), part in 1..100_u64, steps in steps(30)) {
        let (limit, _) = with_block_time(&limit, part);
        for_each_decision(&limit, &steps, |state, now, operation, decision| {
            // A cost that never fits has its own test.
            if cost(operation) <= limit.capacity() && guarantees::has_exact_retry(&limit) {
                guarantees::retry_is_exact(state, now, &operation.charge(&limit), decision)?;
            }
            Ok(())
        })?;
    }

    /// A state is not fresh before its block time ends.
    #[test]
    fn reset_is_exact_under_a_block(limit in builders(), part in 1..100_u64, steps in steps(30)) {
        let (limit, _) = with_block_time(&limit, part);
        for_each_decision(&limit, &steps, |state, now, _, decision| {
            guarantees::reset_is_exact(&limit, state, now, decision)
        })?;
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// A limit that changes during a block reports when the same charge can pass, and when its state is fresh.
    #[test]
    fn retry_and_reset_are_exact_after_a_change_during_a_block(
        (before, after) in proptest::sample::select(AlgorithmKind::ALL.to_vec())
            .prop_flat_map(|kind| (builders_of(kind), builders_of(kind))),
        parts in (1..100_u64, 1..100_u64),
        steps in steps(12),
        cost in 1..4_u32,
    ) {
        let (before, after) = (with_block_time(&before, parts.0).0, with_block_time(&after, parts.1).0);
        let (mut state, now) = state_after(&before, &steps);
        // One more than there is, so that it is denied and the block starts.
        let capacity = before.capacity();
        let _ = state.apply(&Operation::TakeUpTo(capacity).charge(&before), now);
        let _ = state.apply(&Operation::Take(1).charge(&before), now);
        let charge = after.charge("k").with_cost(cost);
        let decision = state.apply(&charge, now);
        // A cost that never fits changes nothing.
        if decision.outcome() != Outcome::NeverFits {
            if guarantees::has_exact_retry(&after) {
                guarantees::retry_is_exact(&state, now, &charge, &decision)?;
            }
            guarantees::reset_is_exact(&after, &state, now, &decision)?;
        }
    }
}

/// No retry of a cost that never fits can succeed, so a block time must not suggest one.
#[test]
fn a_cost_that_never_fits_is_reported_as_such_while_blocked() {
    let limit = build(Limit::per_second(2).block_for(Duration::from_secs(60)));
    let (mut state, now) = (State::default(), Time::from_nanos(START));
    assert!(state.apply(&limit.charge("k").with_cost(2), now).is_allowed());
    assert_eq!(state.apply(&limit.charge("k"), now).outcome(), Outcome::Denied);
    assert_eq!(state.apply(&limit.charge("k").with_cost(3), now).outcome(), Outcome::NeverFits);
}
