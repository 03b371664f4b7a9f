//! Configurations that cannot work are errors of the builder, and an observer is attached once.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{ConfigError, ErrorKind, Limit, Limiter, ManualClock};
use tollgate_resilience::{Coalesced, FallbackStore, Guarded, GuardedBuilder, OnFailure, Share, Switched};
use tollgate_store_memory::MemoryStore;

use crate::faulty::{EventLog, Fault, FaultyStore, Fixture};

type Builder = GuardedBuilder<MemoryStore>;

fn refused(configure: impl FnOnce(Builder) -> Builder) -> ConfigError {
    configure(Guarded::builder(MemoryStore::new())).build().expect_err("invalid")
}

#[test]
fn an_invalid_setting_is_an_error_that_says_what_is_valid() {
    let second = Duration::from_secs(1);
    let nobody = || FallbackStore::new(MemoryStore::new(), Share::one_of(0));
    let never = || OnFailure::AllowFor(Duration::ZERO);
    let api = Limit::per_second(1).build("api").expect("valid");
    for (error, setting, problem, advice) in [
        (refused(|builder| builder.deadline(Duration::ZERO)), "deadline", "zero", "20 ms"),
        (refused(|builder| builder.failure_threshold(10, 5)), "failure_threshold", "10 failures", "1 to 5"),
        (refused(|builder| builder.failure_threshold(0, 5)), "failure_threshold", "0 failures", "1 to 5"),
        (refused(|builder| builder.failure_threshold(1, 0)), "failure_threshold", "last 0 calls", "1 to 64"),
        (
            refused(|builder| builder.failure_threshold(1, 65)),
            "failure_threshold",
            "last 65 calls",
            "1 to 64",
        ),
        (refused(|builder| builder.open_for(Duration::ZERO, Duration::ZERO)), "open_for", "zero", "500 ms"),
        (refused(|builder| builder.open_for(2 * second, second)), "open_for", "2s", "at most 1s"),
        (refused(|builder| builder.half_open_probes(0)), "half_open_probes", "is 0", "at least 1"),
        (refused(|builder| builder.on_failure(nobody())), "on_failure", "one of 0", "at least 1"),
        (refused(|builder| builder.on_failure_of(&api, nobody())), "on_failure", "one of 0", "at least 1"),
        (refused(|builder| builder.on_failure(never())), "on_failure", "for 0 s", "`OnFailure::Deny`"),
        (refused(|builder| builder.on_failure_of(&api, never())), "on_failure", "for 0 s", "such as 30 s"),
    ] {
        assert_eq!(error.setting(), setting, "{error}");
        assert!(error.problem().contains(problem) && error.advice().contains(advice), "{error}");
        assert!(error.to_string().starts_with("`Guarded`: "), "{error}");
    }
    for calls in [0, 17] {
        let error = Coalesced::builder(MemoryStore::new()).max_in_flight(calls).build().expect_err("invalid");
        assert_eq!(error.to_string(), format!("`Coalesced`: `max_in_flight` is {calls}; use from 1 to 16"));
    }
}

#[test]
fn the_bounds_are_valid() {
    let nano = Duration::from_nanos(1);
    for (failures, of_last) in [(1, 1), (64, 64)] {
        let builder = Guarded::builder(MemoryStore::new()).failure_threshold(failures, of_last);
        let builder = builder.on_failure(OnFailure::AllowFor(nano));
        builder.deadline(nano).open_for(nano, nano).half_open_probes(1).build().expect("valid");
    }
    for calls in [1, 16] {
        Coalesced::builder(MemoryStore::new()).max_in_flight(calls).build().expect("valid");
    }
}

/// A client that is denied because of an outage must not retry at once.
#[tokio::test]
async fn a_denial_by_a_policy_has_a_retry_time() {
    let nano = Duration::from_nanos(1);
    let tiny_share = FallbackStore::new(MemoryStore::new(), Share::one_of(1_000));
    for policy in [OnFailure::Deny, tiny_share.into()] {
        let fixture = Fixture::new(|builder| builder.on_failure(policy).open_for(nano, nano));
        let api = Limit::per_second(10).build("api").expect("valid");
        fixture.faulty.inject(Fault::Error(ErrorKind::Unavailable));
        for _ in 0..20 {
            // More than the share, which is one token.
            let denied = fixture.charge(api.charge("a").with_cost(5)).await.expect("a policy");
            assert!(denied.retry_after().is_some_and(|wait| !wait.is_zero()), "{denied:?}");
            assert_eq!(denied.retry_after_secs(), Some(1));
        }
    }
}

#[tokio::test]
async fn an_observer_of_the_limiter_reaches_every_wrapper_below_it() {
    let (faulty, events) = (FaultyStore::new(), Arc::new(EventLog::default()));
    let guarded =
        Guarded::builder(faulty.clone()).name("redis").failure_threshold(1, 1).build().expect("valid");
    let store = Coalesced::new(Switched::new(guarded));
    let limiter = Limiter::with_clock(store, ManualClock::default()).with_observer(Arc::clone(&events) as _);
    let api = Limit::per_second(10).build("api").expect("valid");
    assert!(limiter.check(&api, "a").await.expect("a decision").is_allowed());
    assert_eq!(events.starting_with("called"), ["called: fine"]);
    faulty.inject(Fault::Error(ErrorKind::Unavailable));
    assert!(limiter.check(&api, "a").await.expect("a policy").is_allowed());
    assert_eq!(events.starting_with("called"), ["called: fine", "called: unavailable"]);
    assert_eq!(events.starting_with("breaker"), ["breaker: open of redis"]);
    assert_eq!(events.starting_with("fell back").len(), 1);
    // No policy decides a debit.
    let error = limiter.debit(&api, "a", 1).await.expect_err("the circuit breaker is open");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(events.starting_with("failed"), ["failed: api, unavailable"]);
    // A second limiter on the same store does not double its events.
    let other = Arc::new(EventLog::default());
    let shared = Limiter::with_clock(Arc::new(limiter.into_store()), ManualClock::default());
    let shared = shared.with_observer(Arc::clone(&other) as _);
    assert!(shared.check(&api, "a").await.expect("a policy").is_allowed());
    assert_eq!((events.starting_with("fell back").len(), other.starting_with("fell back").len()), (2, 0));
}
