//! What every decision promises, whatever the algorithm: when the same charge passes, and when the state is
//! as good as new.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{AlgorithmKind, Charge, Decision, Limit, Outcome, Time};

const NANOSECOND: Duration = Duration::from_nanos(1);

/// `state` is the state that the decision left.
pub(crate) fn are_kept(
    limit: &Limit,
    state: &State,
    now: Time,
    charge: &Charge<'_>,
    seen: &Decision,
) -> TestCaseResult {
    prop_assert_eq!(seen.limit(), limit.capacity());
    retry_is_exact(state, now, charge, seen)?;
    reset_is_exact(limit, state, now, seen)
}

/// At `retry_after` the same charge passes if nobody came; a nanosecond earlier it does not.
pub(crate) fn retry_is_exact(
    state: &State,
    now: Time,
    charge: &Charge<'_>,
    seen: &Decision,
) -> TestCaseResult {
    if seen.outcome() != Outcome::Denied {
        prop_assert_eq!(seen.retry_after(), None);
        return Ok(());
    }
    let Some(wait) = seen.retry_after() else {
        return Err(TestCaseError::fail("a denial that a wait cures says how long it is"));
    };
    let Some(too_short) = wait.checked_sub(NANOSECOND) else {
        return Err(TestCaseError::fail("denied, but to be retried at once"));
    };
    let then = state.clone().apply(charge, now + wait);
    prop_assert!(then.is_allowed(), "at retry_after {:?} it does not pass: {:?}", wait, then);
    let early = state.clone().apply(charge, now + too_short);
    prop_assert!(early.is_denied(), "before retry_after {:?} it passes: {:?}", wait, early);
    Ok(())
}

/// At `reset_after` the state is fresh, and a nanosecond earlier it is not; once it is, nobody can tell it
/// from a state that was never used.
pub(crate) fn reset_is_exact(limit: &Limit, state: &State, now: Time, seen: &Decision) -> TestCaseResult {
    let reset = seen.reset_after();
    let then = now + reset;
    prop_assert!(state.is_fresh(then), "not fresh at reset_after {:?}", reset);
    if let Some(too_short) = reset.checked_sub(NANOSECOND) {
        prop_assert!(!state.is_fresh(now + too_short), "fresh before reset_after {:?}", reset);
    }
    fresh_behaves_as_new(limit, state, then)
}

/// A state that says it is fresh answers as a new one does.
pub(crate) fn fresh_behaves_as_new(limit: &Limit, state: &State, then: Time) -> TestCaseResult {
    let capacity = limit.capacity();
    for costs in [[0, 1], [1, capacity], [capacity, 1], [capacity / 2, capacity - capacity / 2]] {
        let (mut old, mut new) = (state.clone(), State::default());
        for cost in costs {
            let charge = limit.charge("k").with_cost(cost);
            prop_assert_eq!(old.apply(&charge, then), new.apply(&charge, then), "cost {}", cost);
        }
        prop_assert_eq!(old.fresh_at().max(then), new.fresh_at().max(then));
    }
    Ok(())
}

/// Nobody knows when work ends: there, `retry_after` is when the last lease in the way expires.
pub(crate) fn knows_when(limit: &Limit) -> bool {
    limit.kind() != AlgorithmKind::Concurrency
}
