use super::*;

const NOW: Time = Time::from_secs(1_790_000_000);
const CONFIG: BreakerConfig = BreakerConfig {
    failures: 3,
    of_last: 5,
    open_for: Duration::from_secs(1),
    open_for_at_most: Duration::from_secs(4),
    probes: 2,
};

fn closed_breaker() -> Arc<CircuitBreaker> {
    Arc::new(CircuitBreaker::new(CONFIG))
}

fn open_breaker() -> Arc<CircuitBreaker> {
    let breaker = closed_breaker();
    for _ in 0..3 {
        breaker.record_failure(NOW);
    }
    assert_eq!(breaker.state(), BreakerState::Open);
    breaker
}

fn probe(breaker: &Arc<CircuitBreaker>, now: Time) -> Option<Probe> {
    match breaker.permission(now).0 {
        Permission::Probe(probe) => Some(probe),
        Permission::Call | Permission::NotPermitted(_) => None,
    }
}

fn permits_calls(breaker: &Arc<CircuitBreaker>, now: Time) -> bool {
    matches!(breaker.permission(now).0, Permission::Call)
}

#[test]
fn enough_failures_among_the_last_calls_open_the_breaker() {
    let breaker = closed_breaker();
    for fails in [true, true, false, false, false, true, true, false] {
        assert!(permits_calls(&breaker, NOW));
        if fails {
            assert_eq!(breaker.record_failure(NOW), None);
        } else {
            breaker.record_success();
        }
    }
    assert_eq!(breaker.record_failure(NOW), Some(BreakerState::Open), "three of the last five");
    assert!(!permits_calls(&breaker, NOW));
    assert_eq!(breaker.record_failure(NOW), None, "calls that were in flight change nothing");
}

#[test]
fn the_breaker_stays_open_for_half_to_all_of_the_configured_time() {
    let mut open_for = Vec::new();
    for _ in 0..200 {
        let breaker = open_breaker();
        assert!(probe(&breaker, NOW + Duration::from_millis(499)).is_none());
        let (permission, _) = breaker.permission(NOW);
        let Permission::NotPermitted(left) = permission else { panic!("{permission:?}") };
        open_for.push(left);
        assert!(probe(&breaker, NOW + Duration::from_secs(1)).is_some());
    }
    open_for.sort_unstable();
    assert!(
        open_for[0] < Duration::from_millis(600) && open_for[199] > Duration::from_millis(900),
        "jittered"
    );
}

#[test]
fn probes_run_one_at_a_time_and_enough_of_them_close_the_breaker() {
    let breaker = open_breaker();
    let later = NOW + Duration::from_secs(1);
    let first = probe(&breaker, later).expect("a probe");
    assert_eq!(breaker.state(), BreakerState::HalfOpen);
    assert!(probe(&breaker, later).is_none() && !permits_calls(&breaker, later), "one probe at a time");
    assert!(first.record_success().is_none(), "two probes must succeed");
    let second = probe(&breaker, later).expect("the second probe");
    let recovered = second.record_success().expect("enough probes succeeded");
    assert!(!permits_calls(&breaker, later), "not before reconciliation");
    assert_eq!(recovered.close(), Some(BreakerState::Closed));
    assert!(permits_calls(&breaker, later));
    assert_eq!(breaker.record_failure(later), None, "failures from before do not count");
}

#[test]
fn a_store_fails_from_the_first_failure_to_the_next_success() {
    let second = Duration::from_secs(1);
    let breaker = closed_breaker();
    assert_eq!(breaker.failing_for(NOW), Duration::ZERO);
    assert_eq!(breaker.failing_for(NOW + second), Duration::ZERO, "to ask is no failure");
    breaker.record_failure(NOW + second);
    breaker.record_failure(NOW + second * 2);
    assert_eq!(breaker.failing_for(NOW + second * 3), second * 2);
    breaker.record_success();
    assert_eq!(breaker.failing_for(NOW + second * 4), Duration::ZERO);
    for _ in 0..100 {
        breaker.record_success();
    }
    breaker.record_failure(NOW + second * 5);
    breaker.record_failure(NOW + second * 4);
    assert_eq!(breaker.failing_for(NOW + second * 5), second, "the earliest, if a clock was set back");
}

#[test]
fn an_open_breaker_is_failing_until_a_probe_succeeds() {
    let second = Duration::from_secs(1);
    let breaker = open_breaker();
    let later = NOW + second;
    let failed = probe(&breaker, later).expect("a probe");
    assert_eq!(failed.record_failure(later), Some(BreakerState::Open));
    assert_eq!(breaker.failing_for(NOW + second * 3), second * 3, "a failed probe changes nothing");
    assert!(probe(&breaker, NOW + second * 3).expect("a probe").record_success().is_none());
    assert_eq!(breaker.failing_for(NOW + second * 4), Duration::ZERO);
    assert_eq!(breaker.failing_for(NOW + second * 6), second * 2, "calls are not permitted since");
    let failed = probe(&breaker, NOW + second * 6).expect("a probe");
    assert_eq!(failed.record_failure(NOW + second * 6), Some(BreakerState::Open));
    assert_eq!(breaker.failing_for(NOW + second * 7), second * 3);

    // Of what was before the breaker closed, nothing is left.
    let mut now = NOW + second * 20;
    assert!(probe(&breaker, now).expect("a probe").record_success().is_none());
    let recovered = probe(&breaker, now).expect("a probe").record_success().expect("enough");
    assert_eq!(breaker.failing_for(now), Duration::ZERO, "reconciliation may take long");
    now = now + second;
    assert_eq!(breaker.failing_for(now), second);
    assert_eq!(recovered.close(), Some(BreakerState::Closed));
    assert_eq!(breaker.failing_for(now + second), Duration::ZERO);
    assert_eq!(breaker.failing_for(now + second * 2), Duration::ZERO);
}

#[test]
fn a_store_whose_reconciliation_fails_is_failing() {
    let breaker = open_breaker();
    let now = NOW + Duration::from_secs(1);
    assert!(probe(&breaker, now).expect("a probe").record_success().is_none());
    let recovered = probe(&breaker, now).expect("a probe").record_success().expect("enough");
    assert_eq!(recovered.record_failure(now), Some(BreakerState::Open));
    assert_eq!(breaker.failing_for(now + Duration::from_secs(1)), Duration::from_secs(1));
}

#[test]
fn a_failed_probe_doubles_the_open_time_up_to_the_maximum() {
    let breaker = open_breaker();
    let mut now = NOW;
    for longest in [1, 2, 4, 4, 4].map(Duration::from_secs) {
        assert!(probe(&breaker, now + longest / 2 - Duration::from_millis(1)).is_none(), "{longest:?}");
        now = now + longest;
        let probe = probe(&breaker, now).expect("the open time is over");
        assert_eq!(probe.record_failure(now), Some(BreakerState::Open));
    }
}

#[test]
fn a_dropped_probe_is_followed_by_another() {
    let breaker = open_breaker();
    let later = NOW + Duration::from_secs(1);
    drop(probe(&breaker, later).expect("a probe"));
    assert!(probe(&breaker, later).is_some());
}

#[test]
fn an_abandoned_probe_is_followed_by_another() {
    let breaker = open_breaker();
    let later = NOW + Duration::from_secs(1);
    let abandoned = probe(&breaker, later).expect("a probe");
    assert!(probe(&breaker, later + Duration::from_secs(4)).is_none());
    let last = later + Duration::from_secs(5);
    let next = probe(&breaker, last).expect("another probe");
    assert_eq!(abandoned.record_failure(last), None, "the outcome of the first no longer counts");
    assert!(next.record_success().is_none());
    let recovered = probe(&breaker, last).and_then(Probe::record_success).expect("enough probes succeeded");
    assert_eq!((recovered.close(), breaker.state()), (Some(BreakerState::Closed), BreakerState::Closed));
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_the_breaker_open() {
    let breaker = open_breaker();
    assert!(probe(&breaker, NOW - Duration::from_secs(3600)).is_some());
}
