//! Reservations that are cancelled: what starts in the end is never more than the algorithm lets start.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tollgate_core::store::State;
use tollgate_core::{Action, AlgorithmKind, Limit, LimitBuilder, Time};

use super::limits::build;
use super::trace::{START, cases};

/// The period of all limits here.
const PERIOD: u64 = 1_000_000_000;

/// One step: a pause in hundredths of the time of a token, and what is done then.
#[derive(Clone, Copy, Debug)]
enum Step {
    Reserve {
        pause: u64,
        cost: u32,
        max_wait: u64,
    },
    /// Cancels one of the reservations that have not started.
    Cancel {
        pause: u64,
        which: proptest::sample::Index,
    },
}

fn course() -> impl Strategy<Value = Vec<Step>> {
    let pause = || prop_oneof![3 => Just(0), 1 => 0..500_u64];
    let step = prop_oneof![
        3 => (pause(), 1..5_u32, 0..3_000_u64)
            .prop_map(|(pause, cost, max_wait)| Step::Reserve { pause, cost, max_wait }),
        2 => (pause(), any::<proptest::sample::Index>()).prop_map(|(pause, which)| Step::Cancel { pause, which }),
    ];
    proptest::collection::vec(step, 1..60)
}

/// What starts, and when.
#[derive(Clone, Copy, Debug)]
struct Started {
    at: u64,
    cost: u32,
}

/// Runs a course. Returns everything that was admitted and not cancelled, in the order of the starts.
fn starts(limit: &Limit, token: u64, course: &[Step]) -> Vec<Started> {
    let (mut state, mut now) = (State::default(), START);
    let mut admitted: Vec<Started> = Vec::new();
    for step in course {
        let (Step::Reserve { pause, .. } | Step::Cancel { pause, .. }) = *step;
        now += token * pause / 100;
        match *step {
            Step::Reserve { cost, max_wait, .. } => {
                let max_wait = Duration::from_nanos(token * max_wait / 100);
                let charge = limit.charge("k").with_cost(cost).with_max_wait(max_wait);
                let decision = state.apply(&charge, Time::from_nanos(now));
                if decision.is_allowed() {
                    let at = (Time::from_nanos(now) + decision.start_after()).nanos();
                    admitted.push(Started { at, cost });
                }
            }
            Step::Cancel { which, .. } => {
                let waiting: Vec<_> = (0..admitted.len()).filter(|index| admitted[*index].at > now).collect();
                if waiting.is_empty() {
                    continue;
                }
                let Started { at, cost } = admitted.remove(*which.get(&waiting));
                let refund = Action::Refund { at: Some(Time::from_nanos(at)) };
                let charge = limit.charge("k").with_cost(cost).with_action(refund);
                assert!(state.apply(&charge, Time::from_nanos(now)).granted() <= cost);
            }
        }
    }
    admitted.sort_by_key(|started| started.at);
    admitted
}

/// Replays starts on a bucket of tokens that refills continuously.
fn fit_into_bucket(starts: &[Started], capacity: u64, token: u64) -> TestCaseResult {
    let (mut content, mut last) = (capacity * token, START);
    for started in starts {
        content = (content + (started.at - last)).min(capacity * token);
        last = started.at;
        let cost = u64::from(started.cost) * token;
        prop_assert!(cost <= content, "{:?} with {} left, of {:?}", started, content, starts);
        content -= cost;
    }
    Ok(())
}

/// Checks that between any two starts there are no more than the capacity and what is refilled between them, wherever
/// the periods start.
fn fit_into_periods(starts: &[Started], capacity: u64, refill: u64) -> TestCaseResult {
    for (index, first) in starts.iter().enumerate() {
        let mut sum = 0;
        for started in &starts[index..] {
            sum += u64::from(started.cost);
            let most = capacity + (started.at - first.at).div_ceil(PERIOD) * refill;
            prop_assert!(sum <= most, "{} up to {:?}, of {:?}", sum, started, starts);
        }
    }
    Ok(())
}

/// Checks that starts are at least as far apart as their costs take.
fn are_apart(starts: &[Started], token: u64) -> TestCaseResult {
    for pair in starts.windows(2) {
        let apart = u64::from(pair[0].cost) * token;
        prop_assert!(pair[1].at >= pair[0].at + apart, "{:?} starts too early, of {:?}", pair[1], starts);
    }
    Ok(())
}

/// Replays starts on stored permits: a start that they do not cover delays the next one.
fn are_smooth(starts: &[Started], token: u64, burst: u64) -> TestCaseResult {
    let (mut stored, mut free) = (burst * token, START);
    for started in starts {
        prop_assert!(started.at >= free, "{:?} starts before its ticket is free, of {:?}", started, starts);
        stored = (stored + (started.at - free)).min(burst * token);
        let cost = u64::from(started.cost) * token;
        free = started.at + cost.saturating_sub(stored);
        stored = stored.saturating_sub(cost);
    }
    Ok(())
}

fn check(builder: LimitBuilder, count: u64, burst: u32, course: &[Step]) -> TestCaseResult {
    let limit = build(builder);
    let token = PERIOD / count;
    let starts = starts(&limit, token, course);
    let capacity = u64::from(limit.capacity());
    match limit.kind() {
        AlgorithmKind::TokenBucket | AlgorithmKind::LeakyMeter | AlgorithmKind::Gcra => {
            fit_into_bucket(&starts, capacity, token)
        }
        AlgorithmKind::IntervalBucket => fit_into_periods(&starts, capacity, count.min(capacity)),
        AlgorithmKind::LeakyQueue | AlgorithmKind::SmoothWarmingUp => are_apart(&starts, token),
        AlgorithmKind::SmoothBursty => are_smooth(&starts, token, burst.into()),
        other => unreachable!("{other:?} does not reserve"),
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn no_more_starts_than_without_cancelled_reservations(
        count in proptest::sample::select(vec![1_u32, 2, 5, 10]),
        burst in 1..12_u32,
        kind in 0..7_u8,
        course in course(),
    ) {
        let limit = Limit::per_second(count);
        let limit = match kind {
            0 => limit.burst(burst),
            1 => limit.burst(burst).leaky_bucket(),
            2 => limit.burst(burst).gcra(),
            3 => limit.burst(burst).refill_by_interval(),
            4 => limit.queue(burst),
            5 => limit.burst(burst).smooth(),
            _ => limit.warm_up(Duration::from_millis(u64::from(burst) * 300)),
        };
        check(limit, count.into(), burst, &course)?;
    }
}
