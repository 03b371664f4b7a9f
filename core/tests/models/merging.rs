//! Merging two views of one key: idempotent, commutative, and never looser than either.

use proptest::prelude::*;
use tollgate_core::{AlgorithmKind, Limit, State, Time};

use super::limits::{build, builders};
use super::trace::{BEGIN, Step, Walk, cases, period, steps};

/// The state that the first few periods of a trace leave, and when.
fn walked_a_while(limit: &Limit, steps: &[Step]) -> (State, Time) {
    let mut state = State::default();
    let mut walk = Walk::along(steps);
    let mut last = Time::from_nanos(BEGIN);
    while let Some((now, ask)) = walk.next(limit, &state) {
        if now.since(Time::from_nanos(BEGIN)) > limit.period() * 4 {
            break;
        }
        last = now;
        if ask.charge(limit).supported().is_ok() {
            walk.heard(&state.apply(&ask.charge(limit), now));
        }
    }
    (state, last)
}

fn merged(limit: &Limit, one: &State, other: &State) -> State {
    let mut both = one.clone();
    both.merge(limit, other);
    both
}

/// What a look sees, at some instants from now on.
fn looks(limit: &Limit, state: &State, now: Time) -> Vec<tollgate_core::Decision> {
    let period = period(limit);
    [0, period / 7, period / 2, period, period + period / 3, 3 * period]
        .into_iter()
        .map(|later| state.clone().apply(&limit.charge("k").cost(0), Time::from_nanos(now.nanos() + later)))
        .collect()
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn merging_is_idempotent_and_commutative(limit in builders(), one in steps(8), other in steps(8)) {
        let limit = build(limit);
        let ((one, then), (other, now)) = (walked_a_while(&limit, &one), walked_a_while(&limit, &other));
        let now = then.max(now);
        let both = merged(&limit, &one, &other);
        prop_assert_eq!(merged(&limit, &both, &other).snapshot(&limit), both.snapshot(&limit), "idempotent");
        prop_assert_eq!(merged(&limit, &both, &one).snapshot(&limit), both.snapshot(&limit), "idempotent");
        let reverse = merged(&limit, &other, &one);
        prop_assert_eq!(looks(&limit, &reverse, now), looks(&limit, &both, now), "commutative");
    }

    /// A fresh view knows nothing, so merging another into it is to know just that.
    #[test]
    fn a_fresh_view_takes_over_all(limit in builders(), steps in steps(8)) {
        let limit = build(limit);
        let (state, now) = walked_a_while(&limit, &steps);
        let both = merged(&limit, &State::default(), &state);
        prop_assert_eq!(looks(&limit, &both, now), looks(&limit, &state, now));
    }

    #[test]
    fn the_merged_view_is_never_looser(limit in builders(), one in steps(8), other in steps(8)) {
        let limit = build(limit);
        let ((one, then), (other, now)) = (walked_a_while(&limit, &one), walked_a_while(&limit, &other));
        let now = then.max(now);
        let both = looks(&limit, &merged(&limit, &one, &other), now);
        for view in [looks(&limit, &one, now), looks(&limit, &other, now)] {
            for (both, view) in both.iter().zip(view) {
                prop_assert!(both.is_denied() || view.is_allowed(), "{:?} but merged {:?}", view, both);
                prop_assert!(both.retry_after() >= view.retry_after(), "{:?} but merged {:?}", view, both);
                // Of a limiter that warms up, fewer stored permits are not less: it is faster then.
                if limit.kind() != AlgorithmKind::SmoothWarmingUp {
                    let left = |seen: &tollgate_core::Decision| i128::from(seen.remaining()) - i128::from(seen.debt());
                    prop_assert!(left(both) <= left(&view), "{:?} but merged {:?}", view, both);
                }
            }
        }
    }
}
