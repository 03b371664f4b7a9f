//! Limits whose parameters change while they are in use.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{AlgorithmKind, Limit, LimitBuilder, Time};

use super::guarantees;
use super::limits::{build, builders_of};
use super::trace::{HORIZON, Operation, START, Step, Trace, cases, state_after, steps};

/// Several limits with one algorithm, and a trace under each of them in turn.
fn changing() -> impl Strategy<Value = Vec<(LimitBuilder, Vec<Step>)>> {
    proptest::sample::select(AlgorithmKind::ALL.to_vec())
        .prop_flat_map(|kind| proptest::collection::vec((builders_of(kind), steps(10)), 2..5))
}

proptest! {
    #![proptest_config(cases(400))]

    /// Right after a change, no more passes than the new capacity, and nothing panics later. Smooth limiters let any
    /// cost pass once, so for them only the stored permits are checked.
    #[test]
    fn never_grants_more_than_the_new_capacity(parts in changing()) {
        let (mut state, mut now) = (State::default(), START);
        for (limit, steps) in parts {
            let limit = build(limit);
            let instant = Time::from_nanos(now);
            let peek = limit.charge("k").with_cost(0);
            prop_assert!(state.clone().apply(&peek, instant).remaining() <= limit.capacity());
            if !matches!(limit.kind(), AlgorithmKind::SmoothBursty | AlgorithmKind::SmoothWarmingUp) {
                let mut greedy = state.clone();
                let take_all = Operation::TakeUpTo(u32::MAX).charge(&limit);
                let granted: u64 = (0..5).map(|_| u64::from(greedy.apply(&take_all, instant).granted())).sum();
                prop_assert!(granted <= limit.capacity().into(), "{} of {}", granted, limit.capacity());
            }
            let mut trace = Trace::of(&steps);
            let start = now;
            while let Some((then, operation)) = trace.next(&limit, &state) {
                // Every part continues at the end of the preceding one.
                now = start + (then.nanos() - START);
                if now > HORIZON {
                    return Ok(());
                }
                if operation.charge(&limit).supported().is_ok() {
                    let decision = state.apply(&operation.charge(&limit), Time::from_nanos(now));
                    trace.observe(&decision);
                }
            }
        }
    }

    /// The first decision after a change reports when the same charge can pass.
    #[test]
    fn retry_after_is_exact_after_a_change(
        (before, after) in proptest::sample::select(AlgorithmKind::ALL.to_vec())
            .prop_flat_map(|kind| (builders_of(kind), builders_of(kind))),
        steps in steps(8),
        cost in 1..4_u32,
    ) {
        let (before, after) = (build(before), build(after));
        let (mut state, now) = state_after(&before, &steps);
        let charge = after.charge("k").with_cost(cost);
        let decision = state.apply(&charge, now);
        guarantees::retry_is_exact(&state, now, &charge, &decision)
            .map_err(|error| TestCaseError::fail(format!("{error}\n from {before:?}\n to {after:?}\n {decision:?}")))?;
    }

    /// A caller that only peeks, and waits as long as the denial says, finds room then.
    #[test]
    fn a_peek_passes_at_its_retry_after(
        (before, after) in proptest::sample::select(AlgorithmKind::ALL.to_vec())
            .prop_flat_map(|kind| (builders_of(kind), builders_of(kind))),
        steps in steps(8),
    ) {
        let (before, after) = (build(before), build(after));
        let (mut state, now) = state_after(&before, &steps);
        let peek = after.charge("k").with_cost(0);
        if let Some(wait) = state.apply(&peek, now).retry_after() {
            let then = state.apply(&peek, now + wait);
            prop_assert!(then.is_allowed(), "{:?} after {:?}\n from {:?}\n to {:?}", then, wait, before, after);
        }
    }

    /// A store drops a state that reports to be fresh, so it must be fresh under the new parameters, too.
    #[test]
    fn a_state_that_is_fresh_after_a_change_decides_like_an_unused_one(
        (before, after) in proptest::sample::select(AlgorithmKind::ALL.to_vec())
            .prop_flat_map(|kind| (builders_of(kind), builders_of(kind))),
        steps in steps(8),
    ) {
        let (before, after) = (build(before), build(after));
        let (state, now) = state_after(&before, &steps);
        let fresh = state.fresh_at().max(now);
        guarantees::expired_equals_fresh(&after, &state, fresh)
            .map_err(|error| TestCaseError::fail(format!("{error}\n from {before:?}\n to {after:?}\n {state:?}")))?;
    }
}

/// A limit of ten per ten seconds is used up, and becomes ten per second. Its TAT is clamped to the new capacity: a
/// tenth of a second later one token is available, as the denial reports.
#[test]
fn a_faster_bucket_admits_at_its_retry_after() {
    let slow = build(Limit::per(10, Duration::from_secs(10)));
    let fast = build(Limit::per_second(10));
    let (mut state, now) = (State::default(), Time::from_nanos(START));
    assert!(state.apply(&slow.charge("k").with_cost(10), now).is_allowed());
    let wait = state.apply(&fast.charge("k"), now).retry_after().expect("empty");
    assert!(state.apply(&fast.charge("k"), now + wait).is_allowed(), "not after {wait:?}");
}
