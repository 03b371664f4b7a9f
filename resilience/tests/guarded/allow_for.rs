//! The policy that allows for a while and denies then.

use std::time::Duration;

use tollgate_core::{Action, BreakerState, ErrorKind, Limit, Source};
use tollgate_resilience::OnFailure;

use super::faulty::{Fault, Fixture};

const WHILE: Duration = Duration::from_secs(30);
const NANO: Duration = Duration::from_nanos(1);
const JUST_UNDER: Duration = Duration::from_nanos(29_999_999_999);
const UNAVAILABLE: Fault = Fault::Error(ErrorKind::Unavailable);

fn limit(name: &str) -> Limit {
    Limit::per_second(10).build(name).expect("valid")
}

/// The circuit breaker stays closed if this many of the last 64 calls fail.
fn fixture(failures: u32) -> Fixture {
    Fixture::new(|builder| builder.on_failure(OnFailure::AllowFor(WHILE)).failure_threshold(failures, 64))
}

#[tokio::test]
async fn charges_are_allowed_until_the_store_has_failed_for_this_long() {
    let (fixture, api) = (fixture(64), limit("api"));
    fixture.clock.advance(Duration::from_secs(100));
    fixture.faulty.inject(UNAVAILABLE);
    let first = fixture.check(&api, "a").await;
    assert_eq!((first.is_allowed(), first.source()), (true, Source::Policy));
    fixture.clock.advance(JUST_UNDER);
    assert!(fixture.check(&api, "b").await.is_allowed());
    fixture.clock.advance(NANO);
    let denied = fixture.check(&api, "a").await;
    assert_eq!((denied.is_denied(), denied.source()), (true, Source::Policy));
    assert_eq!(denied.retry_after(), Some(Duration::from_millis(500)), "when the store may be called again");
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Closed);
    let stats = fixture.guarded.stats();
    assert_eq!((stats.allowed_by_policy, stats.denied_by_policy, stats.failed_calls), (2, 1, 3));
    assert_eq!(fixture.events.starting_with("fell back"), ["fell back: api, unavailable, policy"; 3]);

    // One success, and the time starts again with the next failure.
    fixture.faulty.inject(Fault::None);
    assert_eq!(fixture.check(&api, "a").await.source(), Source::Store);
    fixture.clock.advance(WHILE * 2);
    fixture.faulty.inject(UNAVAILABLE);
    assert!(fixture.check(&api, "a").await.is_allowed());
    fixture.clock.advance(JUST_UNDER);
    assert!(fixture.check(&api, "a").await.is_allowed());
    fixture.clock.advance(NANO);
    assert!(fixture.check(&api, "a").await.is_denied());
}

#[tokio::test]
async fn an_open_circuit_breaker_counts_as_failing() {
    let (fixture, api) = (fixture(3), limit("api"));
    fixture.open_breaker(&api).await;
    for _ in 0..29 {
        fixture.clock.advance(Duration::from_secs(1));
        assert!(fixture.check(&api, "a").await.is_allowed());
    }
    fixture.clock.advance(Duration::from_secs(1));
    let calls = fixture.faulty.calls();
    assert!(fixture.check(&api, "a").await.is_denied());
    assert!(fixture.check(&api, "a").await.is_denied());
    assert!(fixture.faulty.calls() <= calls + 1, "the breaker permits no calls but probes");

    // Enough successful probes end it.
    fixture.recover(&api).await;
    assert_eq!(fixture.check(&api, "b").await.source(), Source::Store);
    fixture.faulty.inject(UNAVAILABLE);
    assert!(fixture.check(&api, "b").await.is_allowed());
}

#[tokio::test]
async fn a_successful_probe_starts_the_time_again() {
    let (fixture, api) = (fixture(3), limit("api"));
    fixture.open_breaker(&api).await;
    fixture.clock.advance(WHILE);
    fixture.faulty.inject(Fault::None);
    assert_eq!(fixture.check(&api, "a").await.source(), Source::Store, "the probe");
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::HalfOpen);
    fixture.faulty.inject(UNAVAILABLE);
    assert!(fixture.check(&api, "a").await.is_allowed());
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Open);
    fixture.clock.advance(WHILE);
    assert!(fixture.check(&api, "a").await.is_denied());
}

#[tokio::test]
async fn a_request_with_several_limits_is_denied_when_one_of_them_is() {
    let (api, other) = (limit("api"), limit("other"));
    let fixture = Fixture::new(|builder| {
        builder.on_failure_of(&api, OnFailure::AllowFor(WHILE)).failure_threshold(64, 64)
    });
    fixture.faulty.inject(UNAVAILABLE);
    let charges = [other.charge("a"), api.charge("a")];
    assert!(fixture.decide(&charges).await.expect("a decision").is_allowed());
    fixture.clock.advance(WHILE);
    let denied = fixture.decide(&charges).await.expect("a decision");
    assert_eq!((denied.is_denied(), denied.most_restrictive_index()), (true, Some(1)));
    assert!(fixture.check(&other, "a").await.is_allowed());
}

#[tokio::test]
async fn a_reset_is_an_error_and_a_corrupt_state_is_no_failure() {
    let (fixture, api) = (fixture(64), limit("api"));
    fixture.faulty.corrupt("broken");
    assert!(fixture.check(&api, "broken").await.is_allowed());
    fixture.clock.advance(WHILE * 2);
    assert!(fixture.check(&api, "broken").await.is_allowed(), "the store answers");
    fixture.faulty.inject(UNAVAILABLE);
    let reset = fixture.charge(api.charge("a").with_action(Action::Reset)).await;
    assert_eq!(reset.expect_err("not recorded").kind(), ErrorKind::Unavailable);
}
