//! The failure policy of each limit.

use std::time::Duration;

use tollgate_core::{ErrorKind, Limit, Outcome, Source};
use tollgate_resilience::{FallbackStore, OnFailure, Share};
use tollgate_store_memory::MemoryStore;

use super::faulty::{Fault, Fixture, half};

fn limit(name: &str) -> Limit {
    Limit::per_second(10).build(name).expect("valid")
}

#[tokio::test]
async fn every_limit_has_its_own_policy() {
    let (shared, open, closed) = (limit("shared"), limit("open"), limit("closed"));
    let fixture = Fixture::new(|builder| {
        builder
            .on_failure(half())
            .on_failure_of(&open, OnFailure::Allow)
            .on_failure_of(&closed, OnFailure::Deny)
            .failure_threshold(64, 64)
    });
    for limit in [&shared, &open, &closed] {
        assert_eq!(fixture.check(limit, "a").await.source(), Source::Store);
    }
    fixture.faulty.inject(Fault::Error(ErrorKind::Unavailable));
    for _ in 0..20 {
        let passed = fixture.check(&open, "a").await;
        assert_eq!((passed.is_allowed(), passed.source()), (true, Source::Policy));
        let denied = fixture.check(&closed, "a").await;
        assert_eq!((denied.is_denied(), denied.source()), (true, Source::Policy));
        assert_eq!(
            denied.retry_after(),
            Some(Duration::from_millis(500)),
            "when the store may be called again"
        );
    }
    let mut passed = 0;
    for _ in 0..10 {
        let decision = fixture.check(&shared, "a").await;
        assert_eq!(decision.source(), Source::Fallback);
        passed += u32::from(decision.is_allowed());
    }
    assert_eq!(passed, 5, "half of ten");
    assert!(fixture.check(&shared, "b").await.is_allowed(), "another key has a share of its own");
    let stats = fixture.guarded.stats();
    assert_eq!((stats.allowed_by_policy, stats.denied_by_policy), (20, 20));
    assert_eq!((stats.decided_by_fallback, stats.failed_calls), (11, 51));
    assert_eq!(fixture.events.starting_with("fell back: open")[0], "fell back: open, unavailable, policy");
    assert_eq!(fixture.events.starting_with("fell back").len(), 51);

    fixture.faulty.inject(Fault::None);
    assert_eq!(fixture.check(&closed, "a").await.source(), Source::Store);
}

#[tokio::test]
async fn the_default_policy_is_allow() {
    let fixture = Fixture::new(|builder| builder);
    fixture.faulty.inject(Fault::Error(ErrorKind::Refused));
    assert!(fixture.check(&limit("api"), "a").await.is_allowed());
}

#[tokio::test]
async fn a_request_passes_if_all_policies_allow_it_and_debits_nothing_otherwise() {
    let (shared, open, closed, other_store) =
        (limit("shared"), limit("open"), limit("closed"), limit("other store"));
    let fixture = Fixture::new(|builder| {
        builder
            .on_failure(half())
            .on_failure_of(&open, OnFailure::Allow)
            .on_failure_of(&closed, OnFailure::Deny)
            .on_failure_of(&other_store, FallbackStore::new(MemoryStore::new(), Share::one_of(5)))
    });
    fixture.open_breaker(&shared).await;

    let verdict =
        fixture.decide(&[open.charge("a"), shared.charge("a").with_cost(2)]).await.expect("a decision");
    let sources: Vec<_> = verdict.decisions().iter().map(tollgate_core::Decision::source).collect();
    assert!(verdict.is_allowed());
    assert_eq!(sources, [Source::Policy, Source::Fallback]);
    assert_eq!(verdict.decisions()[1].remaining(), 3);

    let denied = fixture
        .decide(&[shared.charge("a"), closed.charge("a"), open.charge("a")])
        .await
        .expect("a decision");
    assert_eq!((denied.is_denied(), denied.most_restrictive_index()), (true, Some(1)));
    let granted: Vec<_> = denied.decisions().iter().map(tollgate_core::Decision::granted).collect();
    assert_eq!(granted, [0, 0, 0]);

    // The first fallback store has room, the second has not: the first one is refunded.
    let both = [shared.charge("a").with_cost(3), other_store.charge("a").with_cost(3), shared.charge("b")];
    let denied = fixture.decide(&both).await.expect("a decision");
    assert_eq!((denied.is_denied(), denied.most_restrictive_index()), (true, Some(1)));
    assert_eq!(denied.decisions()[0].granted(), 0);
    let both = [shared.charge("a").with_cost(3), other_store.charge("a").with_cost(2)];
    assert!(fixture.decide(&both).await.expect("a decision").is_allowed(), "nothing was debited");
    assert!(fixture.decide(&both).await.expect("a decision").is_denied());
}

#[tokio::test]
async fn a_cost_larger_than_the_share_is_not_denied_for_ever() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let api = limit("api");
    fixture.open_breaker(&api).await;
    let decision = fixture.charge(api.charge("a").with_cost(8)).await.expect("a decision");
    assert_eq!(decision.outcome(), Outcome::Denied);
    assert!(decision.retry_after().is_some_and(|wait| !wait.is_zero()), "when the store may be called again");
    let decision = fixture.charge(api.charge("a").with_cost(11)).await.expect("a decision");
    assert_eq!(decision.outcome(), Outcome::NeverFits, "more than the capacity of the limit");
}

#[tokio::test]
async fn a_share_that_is_too_small_denies() {
    let fixture = Fixture::new(|builder| {
        builder.on_failure(FallbackStore::new(MemoryStore::new(), Share::one_of(1_000)))
    });
    let slow = Limit::per_day(1).build("slow").expect("valid");
    fixture.open_breaker(&slow).await;
    let decision = fixture.check(&slow, "a").await;
    assert_eq!((decision.is_denied(), decision.source()), (true, Source::Policy));
}

#[tokio::test]
async fn a_limit_that_changes_during_an_outage_has_a_share_of_its_new_parameters() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    fixture.open_breaker(&limit("api")).await;
    assert_eq!(fixture.check(&limit("api"), "a").await.limit(), 5);
    let upgraded = Limit::per_second(100).build("api").expect("valid");
    assert_eq!(fixture.check(&upgraded, "b").await.limit(), 50);
    assert_eq!(fixture.check(&limit("api"), "c").await.limit(), 5);
}

#[tokio::test]
async fn an_unsupported_request_is_an_error_and_no_failure() {
    let fixture = Fixture::new(|builder| builder.failure_threshold(1, 1));
    let window = Limit::per_second(10).fixed_window().build("window").expect("valid");
    let reserve = window.charge("a").with_max_wait(Duration::from_secs(1));
    let error = fixture.charge(reserve).await.expect_err("windows cannot reserve");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    fixture.faulty.inject(Fault::Error(ErrorKind::Unsupported));
    assert_eq!(
        fixture.charge(window.charge("a")).await.expect_err("forwarded").kind(),
        ErrorKind::Unsupported
    );
    assert_eq!(fixture.guarded.stats().failed_calls, 0);

    // The corrupt state of one key says nothing about other keys.
    fixture.faulty.inject(Fault::Error(ErrorKind::Corrupt));
    assert_eq!(fixture.check(&window, "a").await.source(), Source::Policy);
    assert_eq!(fixture.guarded.breaker_state(), tollgate_core::BreakerState::Closed);

    fixture.faulty.inject(Fault::Error(ErrorKind::Unavailable));
    let _ = fixture.check(&window, "a").await;
    assert_eq!(fixture.guarded.breaker_state(), tollgate_core::BreakerState::Open);
    let error = fixture.charge(reserve).await.expect_err("windows cannot reserve on a fallback store either");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
