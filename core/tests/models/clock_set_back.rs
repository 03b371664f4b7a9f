//! Clocks that run backwards: nothing panics, and nothing is given back.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{AlgorithmKind, Limit, Time};

use super::limits::{build, builders};
use super::trace::{Ask, BEGIN, cases};

const BUCKETS: [AlgorithmKind; 4] = [
    AlgorithmKind::TokenBucket,
    AlgorithmKind::LeakyMeter,
    AlgorithmKind::Gcra,
    AlgorithmKind::IntervalBucket,
];

fn bucket(kind: AlgorithmKind) -> Limit {
    // Ten, one a second; what the bucket holds is ten seconds' worth.
    let limit = Limit::per(1, Duration::from_secs(1)).burst(10);
    build(match kind {
        AlgorithmKind::TokenBucket => limit,
        AlgorithmKind::LeakyMeter => limit.leaky_bucket(),
        AlgorithmKind::Gcra => limit.gcra(),
        AlgorithmKind::IntervalBucket => limit.refill_by_interval(),
        other => unreachable!("{other:?} is no bucket"),
    })
}

/// Wandering clocks: most readings near each other, some far back.
fn readings() -> impl Strategy<Value = Vec<i64>> {
    let reading = prop_oneof![4 => -900_i64..1_500, 1 => -60_000_i64..0, 1 => 0..60_000_i64];
    proptest::collection::vec(reading, 1..80)
}

fn paid_once(limit: &Limit, millis: &[i64], asks: &[Ask]) -> TestCaseResult {
    let (mut state, mut passed) = (State::default(), 0_u64);
    let (mut now, mut latest) = (BEGIN, BEGIN);
    for (step, ask) in millis.iter().zip(asks.iter().cycle()) {
        let seen = state.apply(&ask.charge(limit), Time::from_nanos(now));
        latest = latest.max((Time::from_nanos(now) + seen.start_after()).nanos());
        passed += u64::from(seen.granted());
        let worth = 10 + (latest - BEGIN) / 1_000_000_000;
        prop_assert!(passed <= worth, "{} passed, {} is due", passed, worth);
        now = now.saturating_add_signed(step * 1_000_000);
        latest = latest.max(now);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    /// Whatever the readings, a bucket lets no more pass than its capacity and what flowed in between the first
    /// reading and the latest one: time that is lived through twice is paid once.
    #[test]
    fn takes_are_paid_once(
        kind in proptest::sample::select(BUCKETS.to_vec()),
        millis in readings(),
        up_to: bool,
    ) {
        let ask = if up_to { Ask::TakeUpTo(3) } else { Ask::Take(2) };
        paid_once(&bucket(kind), &millis, &[ask])?;
    }

    /// The same with reservations, which write a state even when nothing is there.
    #[test]
    fn reservations_are_paid_once(kind in proptest::sample::select(BUCKETS.to_vec()), millis in readings()) {
        paid_once(&bucket(kind), &millis, &[Ask::Take(2), Ask::Reserve(1, Duration::from_secs(2))])?;
    }

    /// A look back in time sees no more than a look at the present, for any limit.
    #[test]
    fn a_look_back_sees_no_more(
        limit in builders(),
        costs in proptest::collection::vec((0..20_u32, 0..1000_u64), 1..20),
        back in 0..3_000_u64,
    ) {
        let limit = build(limit);
        let period = super::trace::period(&limit);
        let (mut state, mut now) = (State::default(), BEGIN);
        for (cost, part) in costs {
            now += period / 1000 * part;
            let _ = state.apply(&limit.charge("k").with_cost(cost), Time::from_nanos(now));
        }
        let look = limit.charge("k").with_cost(0);
        let present = state.clone().apply(&look, Time::from_nanos(now));
        let past = state.clone().apply(&look, Time::from_nanos(now - period / 1000 * back));
        prop_assert!(past.remaining() <= present.remaining(), "{:?} but then {:?}", present, past);
        prop_assert!(past.is_denied() || present.is_allowed());
    }
}
