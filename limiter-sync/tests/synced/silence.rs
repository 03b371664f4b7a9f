//! What happens while the centre is silent.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Limit, Request, Source};
use tollgate_limiter_sync::WhenStale;

use crate::fleet::{Fleet, WHO, Way};

const SECOND: Duration = Duration::from_secs(1);

fn limit() -> Limit {
    Limit::per_second(10).build("api").expect("valid")
}

/// A node whose centre has been silent for so long.
async fn silent_for(span: Duration, then: WhenStale) -> Fleet {
    let fleet = Fleet::of(1, |node| node.every(Duration::from_millis(100)).when_stale(then));
    assert_eq!(fleet.passed(0, &limit(), 1).await, 1);
    fleet.nodes[0].store().set(Way::Closed);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    fleet.advance(span);
    fleet
}

#[tokio::test]
async fn a_short_silence_changes_nothing() {
    for then in [WhenStale::GoOn, WhenStale::Deny, WhenStale::one_of(5)] {
        let fleet = silent_for(SECOND, then).await;
        let decision = fleet.take(0, &limit(), 1).await;
        assert_eq!((decision.is_allowed(), decision.source()), (true, Source::Store), "{then:?}");
        assert_eq!(fleet.nodes[0].insight().stale, 0);
    }
}

#[tokio::test]
async fn a_long_one_does_what_was_said() {
    let long = SECOND + Duration::from_millis(1);
    let fleet = silent_for(long, WhenStale::GoOn).await;
    assert_eq!(fleet.passed(0, &limit(), 20).await, 10);
    assert_eq!(fleet.take(0, &limit(), 0).await.source(), Source::Fallback);

    let fleet = silent_for(long, WhenStale::one_of(5)).await;
    assert_eq!(fleet.passed(0, &limit(), 20).await, 2, "a fifth");
    assert_eq!(fleet.take(0, &limit(), 0).await.source(), Source::Fallback);

    let fleet = silent_for(long, WhenStale::Deny).await;
    let denial = fleet.take(0, &limit(), 1).await;
    assert_eq!((denial.is_denied(), denial.source()), (true, Source::Policy));
    assert_eq!(denial.retry_after(), Some(Duration::from_millis(100)), "the next exchange");
    let insight = fleet.nodes[0].insight();
    assert_eq!((insight.stale, insight.silent, insight.failed), (1, long, 1));
}

#[tokio::test]
async fn the_centre_is_back_as_soon_as_it_answers() {
    let fleet = silent_for(10 * SECOND, WhenStale::Deny).await;
    assert!(fleet.take(0, &limit(), 1).await.is_denied());
    fleet.nodes[0].store().set(Way::Open);
    fleet.nodes[0].sync_now().await.expect("it answers");
    let decision = fleet.take(0, &limit(), 1).await;
    assert_eq!((decision.is_allowed(), decision.source()), (true, Source::Store));
    assert_eq!(fleet.nodes[0].insight().silent, Duration::ZERO);
}

#[tokio::test]
async fn each_limit_has_its_own_way() {
    let login = Limit::per_second(10).build("login").expect("valid");
    let fleet = Fleet::of(1, |node| {
        node.terms_of("login", |usual| usual.when_stale(WhenStale::Deny).stale_after(SECOND / 2))
    });
    assert_eq!(fleet.passed(0, &limit(), 1).await + fleet.passed(0, &login, 1).await, 2);
    fleet.nodes[0].store().set(Way::Closed);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    fleet.advance(SECOND);
    assert!(fleet.take(0, &limit(), 1).await.is_allowed());
    assert!(fleet.take(0, &login, 1).await.is_denied());
}

#[tokio::test]
async fn a_centre_that_refuses_something_is_not_silent() {
    let fleet = Fleet::of(1, |node| node.when_stale(WhenStale::Deny));
    assert_eq!(fleet.passed(0, &limit(), 1).await, 1);
    fleet.nodes[0].store().set(Way::Refused);
    for _ in 0..5 {
        assert!(fleet.nodes[0].sync_now().await.is_err());
        fleet.advance(SECOND);
    }
    assert!(fleet.take(0, &limit(), 1).await.is_allowed());
    fleet.nodes[0].store().set(Way::Open);
    fleet.exchange().await;
    assert_eq!(fleet.nodes[0].insight().owing, 0, "and nothing is lost");
}

#[tokio::test]
async fn what_another_charge_stops_is_told_as_it_is() {
    let huge = Limit::per_hour(3_000_000).fixed_window().build("huge").expect("valid");
    let slow = Limit::per_hour(1).build("slow").expect("valid");
    let fleet = Fleet::of(1, |node| node.terms_of("api", |usual| usual.when_stale(WhenStale::Deny)));
    for limit in [&huge, &slow, &limit()] {
        assert!(fleet.take(0, limit, 1).await.is_allowed());
    }
    fleet.nodes[0].store().set(Way::Closed);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    fleet.advance(2 * SECOND);
    let before = [fleet.take(0, &huge, 0).await, fleet.take(0, &slow, 0).await];
    let api = limit();
    let charges = [
        huge.charge(WHO).with_cost(1).with_action(Action::Refund { at: None }),
        slow.charge(WHO).with_cost(3_000_000).with_action(Action::Debit { at: None }),
        api.charge(WHO),
    ];
    let verdict = fleet.nodes[0].decide(Request::new(&charges), fleet.now()).await.expect("decided here");
    assert!(verdict.is_denied());
    for (told, before) in verdict.decisions().iter().zip(before) {
        assert_eq!((told.remaining(), told.granted(), told.debt()), (before.remaining(), 0, 0));
    }
}

#[tokio::test]
async fn a_denial_by_a_part_of_the_limit_changes_nothing_of_it() {
    let limit = Limit::per_hour(100).refill_by_interval().build("api").expect("valid");
    let fleet = Fleet::of(1, |node| node.when_stale(WhenStale::one_of(10)));
    assert!(fleet.take(0, &limit, 50).await.is_allowed());
    fleet.nodes[0].store().set(Way::Closed);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    fleet.advance(2 * SECOND);
    assert!(fleet.take(0, &limit, 1).await.is_denied());
    fleet.nodes[0].store().set(Way::Open);
    // What is known here before anything is told.
    let debit = limit.charge(WHO).with_cost(0).with_action(Action::Debit { at: None });
    let told = fleet.nodes[0].decide_one(&debit, &fleet.now()).await.expect("here");
    assert_eq!(told.remaining(), 50);
}
