//! Which actions a policy answers, and which are an error.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, ErrorKind, LeaseId, Limit, Source};
use tollgate_resilience::OnFailure;

use super::faulty::{Scene, half};

const DEBIT: Action = Action::Debit { at: None };
const REFUND: Action = Action::Refund { at: None };

#[tokio::test]
async fn what_books_something_is_an_error_where_nobody_books_it() {
    let api = Limit::per_second(10).build("api").expect("valid");
    for policy in [OnFailure::Allow, OnFailure::Deny] {
        let scene = Scene::new(|guarded| guarded.on_failure(policy));
        scene.open(&api).await;
        for action in [DEBIT, REFUND, Action::Reset] {
            let error =
                scene.charge(api.charge("a").with_action(action)).await.expect_err("nobody booked it");
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("try again in"), "{error}");
            let both = [api.charge("a"), api.charge("a").with_action(action)];
            assert!(scene.decide(&both).await.is_err());
        }
    }
}

#[tokio::test]
async fn another_store_books_it() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let api = Limit::per_second(10).build("api").expect("valid");
    scene.open(&api).await;
    let debit = scene.charge(api.charge("a").with_cost(7).with_action(DEBIT)).await.expect("booked");
    assert_eq!((debit.debt(), debit.source()), (2, Source::Fallback));
    let refund = scene.charge(api.charge("a").with_cost(4).with_action(REFUND)).await.expect("booked");
    assert_eq!(refund.remaining(), 2);
    let error =
        scene.charge(api.charge("a").with_action(Action::Reset)).await.expect_err("the store did not");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let wait = api.charge("a").with_cost(3).with_max_wait(Duration::from_secs(1));
    let reserved = scene.charge(wait).await.expect("an answer");
    assert!(reserved.is_allowed() && !reserved.start_after().is_zero(), "{reserved:?}");
    let part =
        scene.charge(api.charge("b").with_cost(50).with_action(Action::TakeUpTo)).await.expect("an answer");
    assert_eq!(part.granted(), 5, "as much as the share has");
}

#[tokio::test]
async fn a_lease_is_not_told_to_be_lost_by_who_cannot_know() {
    let flight = Limit::concurrent(4).build("flight").expect("valid");
    let lease = LeaseId::new(42);
    for (policy, renewed) in [(OnFailure::Allow, true), (OnFailure::Deny, false), (half().into(), true)] {
        let scene = Scene::new(|guarded| guarded.on_failure(policy.clone()));
        assert!(scene.charge(flight.charge("a").with_lease(lease)).await.expect("an answer").is_allowed());
        scene.open(&flight).await;
        let renew = flight.charge("a").with_lease(lease).with_action(Action::Renew);
        assert_eq!(scene.charge(renew).await.expect("an answer").is_allowed(), renewed, "{policy:?}");
    }
    // What another store gave is kept and released there.
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    scene.open(&flight).await;
    let acquire = |number| flight.charge("a").with_lease(LeaseId::new(number));
    assert!(scene.charge(acquire(1)).await.expect("an answer").is_allowed());
    assert!(scene.charge(acquire(2)).await.expect("an answer").is_allowed());
    assert!(scene.charge(acquire(3)).await.expect("an answer").is_denied());
    let renewed = scene.charge(acquire(1).with_action(Action::Renew)).await.expect("an answer");
    assert_eq!((renewed.is_allowed(), renewed.source()), (true, Source::Fallback));
    assert!(scene.charge(acquire(1).with_action(Action::Release)).await.expect("an answer").is_allowed());
    assert!(scene.charge(acquire(3)).await.expect("an answer").is_allowed());
}

#[tokio::test]
async fn what_nobody_waits_for_is_passed_on_or_dropped() {
    use tollgate_core::{Clock, Request};
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let api = Limit::per_hour(10).build("api").expect("valid");
    let take = [api.charge("a").with_cost(4)];
    scene.guarded.decide_detached(Request::new(&take), scene.clock.now());
    assert_eq!(scene.left(&api, "a"), 6);
    scene.open(&api).await;
    scene.guarded.decide_detached(Request::new(&take), scene.clock.now());
    assert_eq!(scene.left(&api, "a"), 6);
}

#[tokio::test]
async fn a_repeated_operation_is_executed_once_by_another_store_too() {
    use tollgate_core::{Clock, IdempotencyKey, Request};
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let api = Limit::per_hour(10).build("api").expect("valid");
    scene.open(&api).await;
    let take = [api.charge("a")];
    let request = Request::new(&take).with_idempotency_key(IdempotencyKey::unique());
    for _ in 0..3 {
        let verdict = scene.guarded.decide(request, scene.clock.now()).await.expect("an answer");
        assert!(verdict.is_allowed());
    }
    assert_eq!(scene.charge(api.charge("a").with_cost(0)).await.expect("an answer").remaining(), 4);
}
