//! The guarantees of every decision, under every algorithm: when the same charge can pass, and when the state equals a
//! fresh one.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{AlgorithmKind, Charge, Decision, Limit, Outcome, Time};

const NANOSECOND: Duration = Duration::from_nanos(1);

/// Checks all guarantees. `state` is the state after the decision.
pub(crate) fn check(
    limit: &Limit,
    state: &State,
    now: Time,
    charge: &Charge<'_>,
    decision: &Decision,
) -> TestCaseResult {
    prop_assert_eq!(decision.limit(), limit.capacity());
    retry_is_exact(state, now, charge, decision)?;
    reset_is_exact(limit, state, now, decision)
}

/// Checks that the same charge passes at `retry_after` if no other charge comes first, and not a nanosecond earlier.
pub(crate) fn retry_is_exact(
    state: &State,
    now: Time,
    charge: &Charge<'_>,
    decision: &Decision,
) -> TestCaseResult {
    if decision.outcome() != Outcome::Denied {
        prop_assert_eq!(decision.retry_after(), None);
        return Ok(());
    }
    let Some(wait) = decision.retry_after() else {
        return Err(TestCaseError::fail("a denial that can be retried has a retry_after"));
    };
    let Some(too_short) = wait.checked_sub(NANOSECOND) else {
        return Err(TestCaseError::fail("denied, but retry_after is zero"));
    };
    let then = state.clone().apply(charge, now + wait);
    prop_assert!(then.is_allowed(), "denied at retry_after {:?}: {:?}", wait, then);
    let early = state.clone().apply(charge, now + too_short);
    prop_assert!(early.is_denied(), "allowed before retry_after {:?}: {:?}", wait, early);
    Ok(())
}

/// Checks that the state is fresh at `reset_after` and not a nanosecond earlier, and that it then decides like an
/// unused one.
pub(crate) fn reset_is_exact(limit: &Limit, state: &State, now: Time, decision: &Decision) -> TestCaseResult {
    let reset = decision.reset_after();
    let then = now + reset;
    prop_assert!(state.is_fresh(then), "not fresh at reset_after {:?}", reset);
    if let Some(too_short) = reset.checked_sub(NANOSECOND) {
        prop_assert!(!state.is_fresh(now + too_short), "fresh before reset_after {:?}", reset);
    }
    expired_equals_fresh(limit, state, then)
}

/// Checks that an expired state decides like an unused one.
pub(crate) fn expired_equals_fresh(limit: &Limit, state: &State, then: Time) -> TestCaseResult {
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

/// Returns whether `retry_after` is exact. For a concurrency limit it is only an upper bound: the expiry of leases.
pub(crate) fn has_exact_retry(limit: &Limit) -> bool {
    limit.kind() != AlgorithmKind::Concurrency
}
