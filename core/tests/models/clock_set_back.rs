//! Clocks that run backwards: nothing panics, and no tokens are added.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{AlgorithmKind, Limit, Time};

use super::limits::{build, builders};
use super::trace::{Operation, START, cases};

const BUCKETS: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::LeakyMeter,
    AlgorithmKind::Gcra,
    AlgorithmKind::IntervalBucket,
];

fn bucket(kind: AlgorithmKind) -> Limit {
    // One per second and a burst of ten: the bucket refills in ten seconds.
    let limit = Limit::per(1, Duration::from_secs(1)).burst(10);
    build(match kind {
        AlgorithmKind::TokenBucket => limit,
        AlgorithmKind::LeakyMeter => limit.leaky_bucket(),
        AlgorithmKind::Gcra => limit.gcra(),
        AlgorithmKind::IntervalBucket => limit.refill_by_interval(),
        other => unreachable!("{other:?} is not a bucket"),
    })
}

/// Returns the steps of a clock in milliseconds: most of them small, some far back or ahead.
fn readings() -> impl Strategy<Value = Vec<i64>> {
    let reading = prop_oneof![4 => -900_i64..1_500, 1 => -60_000_i64..0, 1 => 0..60_000_i64];
    proptest::collection::vec(reading, 1..80)
}

fn check_granted(limit: &Limit, millis: &[i64], operations: &[Operation]) -> TestCaseResult {
    let (mut state, mut granted) = (State::default(), 0_u64);
    let (mut now, mut latest) = (START, START);
    for (step, operation) in millis.iter().zip(operations.iter().cycle()) {
        let decision = state.apply(&operation.charge(limit), Time::from_nanos(now));
        latest = latest.max((Time::from_nanos(now) + decision.start_after()).nanos());
        granted += u64::from(decision.granted());
        let refilled = 10 + (latest - START) / 1_000_000_000;
        prop_assert!(granted <= refilled, "{} granted of {}", granted, refilled);
        now = now.saturating_add_signed(step * 1_000_000);
        latest = latest.max(now);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    /// For any readings of the clock, a bucket grants no more than its capacity and what is refilled between the first
    /// reading and the latest one. Time that passes twice refills once.
    #[test]
    fn time_that_passes_twice_refills_once(
        kind in proptest::sample::select(BUCKETS.to_vec()),
        millis in readings(),
        up_to: bool,
    ) {
        let operation = if up_to { Operation::TakeUpTo(3) } else { Operation::Take(2) };
        check_granted(&bucket(kind), &millis, &[operation])?;
    }

    /// The same with reservations, which write a state even if no token is available.
    #[test]
    fn time_that_passes_twice_refills_once_with_reservations(
        kind in proptest::sample::select(BUCKETS.to_vec()),
        millis in readings(),
    ) {
        let operations = [Operation::Take(2), Operation::Reserve(1, Duration::from_secs(2))];
        check_granted(&bucket(kind), &millis, &operations)?;
    }

    /// Callers whose clocks differ: whoever is behind is denied only if there is no room. A minimum gap is not room.
    #[test]
    fn a_clock_behind_is_not_denied_while_there_is_room(
        limit in builders(),
        takes in proptest::collection::vec((0..30_u64, any::<bool>()), 1..40),
        skew in 1..50_u64,
    ) {
        let limit = build(limit);
        let smooth = [AlgorithmKind::SmoothBursty, AlgorithmKind::SmoothWarmingUp];
        if smooth.contains(&limit.kind()) || limit.parameters().min_gap > 0 {
            return Ok(());
        }
        let period = super::trace::period(&limit).max(1_000);
        let (mut state, mut now) = (State::default(), START);
        for (part, behind) in takes {
            now += period / 1000 * part;
            let own = if behind { now - period / 1000 * skew } else { now };
            let decision = state.apply(&limit.charge("k"), Time::from_nanos(own));
            prop_assert!(decision.is_allowed() || decision.remaining() == 0, "{:?}", decision);
        }
    }

    /// A peek at an earlier time never shows more than a peek at the present, for any limit.
    #[test]
    fn a_peek_at_an_earlier_time_shows_no_more(
        limit in builders(),
        costs in proptest::collection::vec((0..20_u32, 0..1000_u64), 1..20),
        back in 0..3_000_u64,
    ) {
        let limit = build(limit);
        let period = super::trace::period(&limit);
        let (mut state, mut now) = (State::default(), START);
        for (cost, part) in costs {
            now += period / 1000 * part;
            let _ = state.apply(&limit.charge("k").with_cost(cost), Time::from_nanos(now));
        }
        let peek = limit.charge("k").with_cost(0);
        let present = state.clone().apply(&peek, Time::from_nanos(now));
        let past = state.clone().apply(&peek, Time::from_nanos(now - period / 1000 * back));
        prop_assert!(past.remaining() <= present.remaining(), "{:?} now but {:?} earlier", present, past);
        prop_assert!(past.is_denied() || present.is_allowed());
    }
}
