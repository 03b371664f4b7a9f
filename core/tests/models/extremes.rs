//! Extreme costs and times: arithmetic saturates and nothing panics (test builds check for overflow).

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::store::State;
use tollgate_core::{Action, AlgorithmKind, LeaseId, Limit, LimitBuilder, Time};

use super::limits::{build, builders};
use super::trace::cases;

pub(crate) fn costs() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0..20_u32, 1 => any::<u32>(), 1 => Just(u32::MAX), 1 => Just(Limit::MAX_COUNT)]
}

pub(crate) fn times() -> impl Strategy<Value = Time> {
    let near_max = (0..3_000_000_000_u64).prop_map(|before| Time::from_nanos(Time::MAX.nanos() - before));
    prop_oneof![
        1 => Just(Time::EPOCH),
        1 => Just(Time::MAX),
        1 => near_max,
        1 => (0..3_000_000_000_u64).prop_map(Time::from_nanos),
        2 => any::<u64>().prop_map(|nanos| Time::from_nanos(nanos >> 2)),
        2 => (0..10_000_u64).prop_map(|millis| Time::from_nanos(1_790_000_000_000_000_000 + millis * 1_000_000)),
    ]
}

pub(crate) fn actions() -> impl Strategy<Value = Action> {
    let wait = || {
        prop_oneof![
            Just(None),
            Just(Some(Duration::ZERO)),
            Just(Some(Duration::MAX)),
            (0..5_000_u64).prop_map(|millis| Some(Duration::from_millis(millis))),
        ]
    };
    let at = || proptest::option::of(times());
    prop_oneof![
        3 => wait().prop_map(|max_wait| Action::Take { max_wait }),
        1 => Just(Action::TakeUpTo),
        2 => at().prop_map(|at| Action::Debit { at }),
        2 => at().prop_map(|at| Action::Refund { at }),
        1 => Just(Action::Reset),
        1 => Just(Action::Renew),
        1 => Just(Action::Release),
    ]
}

/// A call at a time, with a cost, an action and a lease.
pub(crate) type Call = (Time, u32, Action, u128);

pub(crate) fn extreme_calls() -> impl Strategy<Value = Vec<Call>> {
    proptest::collection::vec((times(), costs(), actions(), 0..3_u128), 1..12)
}

/// Applies all calls, and calls every getter.
pub(crate) fn apply_all(limit: &Limit, state: &mut State, calls: &[Call]) {
    for &(now, cost, action, lease) in calls {
        let decision = state.apply(
            &limit.charge("k").with_cost(cost).with_action(action).with_lease(LeaseId::new(lease)),
            now,
        );
        let _ = format!("{decision:?} {}", now + decision.reset_after());
        let _ = (state.fresh_at(), state.snapshot(limit));
    }
}

/// Returns limits at the bounds of valid parameters, of every algorithm.
fn largest() -> Vec<LimitBuilder> {
    let slow = || Limit::per(1, Limit::MAX_PERIOD);
    let fast = || Limit::per_second(Limit::MAX_COUNT);
    let many = || Limit::per(Limit::MAX_COUNT, Limit::MAX_PERIOD);
    let nano = |count| Limit::per(count, Duration::from_nanos(1));
    let mut limits = Vec::new();
    for limit in [slow(), fast(), many(), nano(1)] {
        let burst = if limit == slow() { 30 } else { Limit::MAX_COUNT };
        limits.push(limit.clone().burst(burst));
        limits.push(limit.clone().burst(burst).leaky_bucket());
        limits.push(limit.clone().burst(burst).gcra());
        limits.push(limit.clone().burst(burst).smooth());
        limits.push(limit.clone().burst(burst).refill_by_interval());
        limits.push(limit.clone().queue(burst - 1));
        limits.push(limit.clone().fixed_window());
        limits.push(limit.clone().fixed_window().anchored());
        limits.push(limit.clone().sliding_window());
        limits.push(limit.clone().sliding_counter(1));
        limits.push(limit.clone().warm_up(Limit::MAX_PERIOD).cold_factor(100));
        limits.push(limit.clone().warm_up(Duration::from_nanos(1)).cold_factor(1));
    }
    for limit in [nano(Limit::MAX_COUNT).fixed_window(), nano(Limit::MAX_COUNT).sliding_window()] {
        limits.push(limit);
    }
    limits.push(many().sliding_counter(256));
    limits.push(
        Limit::per(Limit::MAX_ENTRIES, Limit::MAX_PERIOD)
            .sliding_log()
            .min_gap(Limit::MAX_PERIOD)
            .count_denied(),
    );
    limits.push(nano(Limit::MAX_ENTRIES).sliding_log());
    limits.push(Limit::concurrent(Limit::MAX_ENTRIES).lease(Limit::MAX_PERIOD));
    limits
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn no_limit_panics(limit in builders(), block: bool, calls in extreme_calls()) {
        let limit = if block { limit.block_for(Limit::MAX_PERIOD) } else { limit };
        apply_all(&build(limit), &mut State::default(), &calls);
    }

    #[test]
    fn the_largest_limits_do_not_panic(
        limit in proptest::sample::select(largest()),
        block: bool,
        calls in extreme_calls(),
    ) {
        let limit = if block { limit.block_for(Limit::MAX_PERIOD) } else { limit };
        apply_all(&build(limit), &mut State::default(), &calls);
    }
}

#[test]
fn the_largest_limits_have_every_algorithm() {
    let limits: Vec<_> = largest().into_iter().map(build).collect();
    for kind in AlgorithmKind::ALL {
        assert!(limits.iter().any(|limit| limit.kind() == kind), "{kind:?}");
    }
    for limit in limits {
        assert_eq!(limit.as_flow().is_some(), limit.kind().is_flow(), "{:?}", limit.kind());
    }
}
