//! Which actions a policy decides, and which are an error.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, ErrorKind, LeaseId, Limit, Source};
use tollgate_resilience::OnFailure;

use super::faulty::{Fixture, half};

const DEBIT: Action = Action::Debit { at: None };
const REFUND: Action = Action::Refund { at: None };

#[tokio::test]
async fn allow_and_deny_return_an_error_for_debits_refunds_and_resets() {
    let api = Limit::per_second(10).build("api").expect("valid");
    for policy in [OnFailure::Allow, OnFailure::Deny] {
        let fixture = Fixture::new(|builder| builder.on_failure(policy));
        fixture.open_breaker(&api).await;
        for action in [DEBIT, REFUND, Action::Reset] {
            let error =
                fixture.charge(api.charge("a").with_action(action)).await.expect_err("no policy applies");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("try again in"), "{error}");
            let both = [api.charge("a"), api.charge("a").with_action(action)];
            assert!(fixture.decide(&both).await.is_err());
        }
    }
}

#[tokio::test]
async fn a_fallback_store_applies_debits_and_refunds() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let api = Limit::per_second(10).build("api").expect("valid");
    fixture.open_breaker(&api).await;
    let debit = fixture.charge(api.charge("a").with_cost(7).with_action(DEBIT)).await.expect("applied");
    assert_eq!((debit.debt(), debit.source()), (2, Source::Fallback));
    let refund = fixture.charge(api.charge("a").with_cost(4).with_action(REFUND)).await.expect("applied");
    assert_eq!(refund.remaining(), 2);
    let error = fixture
        .charge(api.charge("a").with_action(Action::Reset))
        .await
        .expect_err("a reset needs the store");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let wait = api.charge("a").with_cost(3).with_max_wait(Duration::from_secs(1));
    let reserved = fixture.charge(wait).await.expect("a decision");
    assert!(reserved.is_allowed() && !reserved.start_after().is_zero(), "{reserved:?}");
    let part = fixture
        .charge(api.charge("b").with_cost(50).with_action(Action::TakeUpTo))
        .await
        .expect("a decision");
    assert_eq!(part.granted(), 5, "all that the share has");
}

#[tokio::test]
async fn the_renewal_of_an_unknown_lease_is_not_reported_as_lost() {
    let flight = Limit::concurrent(4).build("flight").expect("valid");
    let lease = LeaseId::new(42);
    for (policy, renewed) in [(OnFailure::Allow, true), (OnFailure::Deny, false), (half().into(), true)] {
        let fixture = Fixture::new(|builder| builder.on_failure(policy.clone()));
        assert!(fixture.charge(flight.charge("a").with_lease(lease)).await.expect("a decision").is_allowed());
        fixture.open_breaker(&flight).await;
        let renew = flight.charge("a").with_lease(lease).with_action(Action::Renew);
        assert_eq!(fixture.charge(renew).await.expect("a decision").is_allowed(), renewed, "{policy:?}");
    }
    // A lease of the fallback store is renewed and released there.
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    fixture.open_breaker(&flight).await;
    let acquire = |id| flight.charge("a").with_lease(LeaseId::new(id));
    assert!(fixture.charge(acquire(1)).await.expect("a decision").is_allowed());
    assert!(fixture.charge(acquire(2)).await.expect("a decision").is_allowed());
    assert!(fixture.charge(acquire(3)).await.expect("a decision").is_denied());
    let renewed = fixture.charge(acquire(1).with_action(Action::Renew)).await.expect("a decision");
    assert_eq!((renewed.is_allowed(), renewed.source()), (true, Source::Fallback));
    assert!(fixture.charge(acquire(1).with_action(Action::Release)).await.expect("a decision").is_allowed());
    assert!(fixture.charge(acquire(3)).await.expect("a decision").is_allowed());
}

#[tokio::test]
async fn a_slot_of_the_fallback_store_is_released_in_the_background() {
    use tollgate_core::{Clock, Request};
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let flight = Limit::concurrent(2).build("flight").expect("valid");
    fixture.open_breaker(&flight).await;
    for id in 1..=5 {
        let acquire = flight.charge("a").with_lease(LeaseId::new(id));
        assert!(fixture.charge(acquire).await.expect("a decision").is_allowed(), "the share has one slot");
        let release = [acquire.with_action(Action::Release)];
        fixture.guarded.decide_detached(Request::new(&release), fixture.clock.now());
    }
}

#[tokio::test]
async fn detached_requests_are_forwarded_or_dropped() {
    use tollgate_core::{Clock, Request};
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let api = Limit::per_hour(10).build("api").expect("valid");
    let take = [api.charge("a").with_cost(4)];
    fixture.guarded.decide_detached(Request::new(&take), fixture.clock.now());
    assert_eq!(fixture.remaining(&api, "a"), 6);
    fixture.open_breaker(&api).await;
    fixture.guarded.decide_detached(Request::new(&take), fixture.clock.now());
    assert_eq!(fixture.remaining(&api, "a"), 6);
}

#[tokio::test]
async fn a_fallback_store_executes_a_repeated_idempotency_key_once() {
    use tollgate_core::{Clock, IdempotencyKey, Request};
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let api = Limit::per_hour(10).build("api").expect("valid");
    fixture.open_breaker(&api).await;
    let take = [api.charge("a")];
    let request = Request::new(&take).with_idempotency_key(IdempotencyKey::unique());
    for _ in 0..3 {
        let verdict = fixture.guarded.decide(request, fixture.clock.now()).await.expect("a decision");
        assert!(verdict.is_allowed());
    }
    assert_eq!(fixture.charge(api.charge("a").with_cost(0)).await.expect("a decision").remaining(), 4);
}
