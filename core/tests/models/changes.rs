//! Limits whose numbers change while they are in use.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{AlgorithmKind, Limit, LimitBuilder, Time};

use super::limits::{build, builders_of};
use super::promises;
use super::trace::{Ask, BEGIN, HORIZON, Step, Walk, cases, steps, walked};

/// Several limits of one kind, and what happens under each of them in turn.
fn changing() -> impl Strategy<Value = Vec<(LimitBuilder, Vec<Step>)>> {
    proptest::sample::select(AlgorithmKind::ALL.to_vec())
        .prop_flat_map(|kind| proptest::collection::vec((builders_of(kind), steps(10)), 2..5))
}

proptest! {
    #![proptest_config(cases(400))]

    /// Right after a change no more passes than fits the new limit, and nothing panics later. Smooth limiters
    /// let any cost pass once, so there it is what is stored.
    #[test]
    fn never_grants_more_than_the_new_capacity(parts in changing()) {
        let (mut state, mut now) = (State::default(), BEGIN);
        for (limit, steps) in parts {
            let limit = build(limit);
            let instant = Time::from_nanos(now);
            prop_assert!(state.clone().apply(&limit.charge("k").with_cost(0), instant).remaining() <= limit.capacity());
            if !matches!(limit.kind(), AlgorithmKind::SmoothBursty | AlgorithmKind::SmoothWarmingUp) {
                let mut greedy = state.clone();
                let passed: u64 =
                    (0..5).map(|_| u64::from(greedy.apply(&Ask::TakeUpTo(u32::MAX).charge(&limit), instant).granted())).sum();
                prop_assert!(passed <= limit.capacity().into(), "{} of {}", passed, limit.capacity());
            }
            let mut walk = Walk::along(&steps);
            let begin = now;
            while let Some((then, ask)) = walk.next(&limit, &state) {
                // Every part goes on where the last one stopped.
                now = begin + (then.nanos() - BEGIN);
                if now > HORIZON {
                    return Ok(());
                }
                if ask.charge(&limit).supported().is_ok() {
                    let seen = state.apply(&ask.charge(&limit), Time::from_nanos(now));
                    walk.heard(&seen);
                }
            }
        }
    }

    /// After a change the first answer tells the truth about when the same charge passes.
    #[test]
    fn retry_is_true_after_a_change(
        (before, after) in proptest::sample::select(AlgorithmKind::ALL.to_vec())
            .prop_flat_map(|kind| (builders_of(kind), builders_of(kind))),
        steps in steps(8),
        cost in 1..4_u32,
    ) {
        let (before, after) = (build(before), build(after));
        let (mut state, now) = walked(&before, &steps);
        let charge = after.charge("k").with_cost(cost);
        let seen = state.apply(&charge, now);
        promises::retry_is_exact(&state, now, &charge, &seen)
            .map_err(|error| TestCaseError::fail(format!("{error}\n from {before:?}\n to {after:?}\n {seen:?}")))?;
    }

    /// A store forgets what says it is fresh; under the new numbers that must be true as well.
    #[test]
    fn what_is_fresh_after_a_change_behaves_as_new(
        (before, after) in proptest::sample::select(AlgorithmKind::ALL.to_vec())
            .prop_flat_map(|kind| (builders_of(kind), builders_of(kind))),
        steps in steps(8),
    ) {
        let (before, after) = (build(before), build(after));
        let (state, now) = walked(&before, &steps);
        let fresh = state.fresh_at().max(now);
        promises::fresh_behaves_as_new(&after, &state, fresh)
            .map_err(|error| TestCaseError::fail(format!("{error}\n from {before:?}\n to {after:?}\n {state:?}")))?;
    }
}

/// Ten in ten seconds are used up, and the limit becomes ten a second. "Keeps its time until full, clamped":
/// a tenth of a second later there is one, as the denial says.
#[test]
fn a_faster_bucket_keeps_its_word() {
    let slow = build(Limit::per(10, Duration::from_secs(10)));
    let fast = build(Limit::per_second(10));
    let (mut state, now) = (State::default(), Time::from_nanos(BEGIN));
    assert!(state.apply(&slow.charge("k").with_cost(10), now).is_allowed());
    let wait = state.apply(&fast.charge("k"), now).retry_after().expect("empty");
    assert!(state.apply(&fast.charge("k"), now + wait).is_allowed(), "not after {wait:?}");
}
