//! Keys that nothing is known of, and keys that are known to be empty.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Limit};
use tollgate_limiter_sync::{ColdKeys, WhenStale};

use crate::fleet::{Fleet, WHO, Way};

fn limit() -> Limit {
    Limit::per_minute(10).build("api").expect("valid")
}

#[tokio::test]
async fn an_optimist_lets_pass_what_the_centre_would_not() {
    let fleet = Fleet::of(2, |node| node);
    assert_eq!(fleet.passed(0, &limit(), 10).await, 10);
    fleet.exchange().await;
    assert_eq!(fleet.passed(1, &limit(), 20).await, 10);
    fleet.exchange().await;
    assert_eq!(fleet.at_centre(&limit()).await.debt(), 10);
    assert_eq!(fleet.nodes[1].insight().overshoot, 10);
}

#[tokio::test]
async fn who_asks_first_does_not() {
    let fleet = Fleet::of(2, |node| node.terms(|usual| usual.cold_keys(ColdKeys::AskFirst)));
    assert_eq!(fleet.passed(0, &limit(), 7).await, 7);
    fleet.exchange().await;
    let calls = fleet.nodes[1].store().calls();
    assert_eq!(fleet.passed(1, &limit(), 20).await, 3);
    assert_eq!(fleet.nodes[1].store().calls(), calls + 1, "once");
}

#[tokio::test]
async fn asking_a_centre_that_does_not_answer() {
    let ask = |then| {
        Fleet::of(1, move |node| node.when_stale(then).terms(|usual| usual.cold_keys(ColdKeys::AskFirst)))
    };
    let fleet = ask(WhenStale::GoOn);
    fleet.nodes[0].store().set(Way::Closed);
    assert!(fleet.take(0, &limit(), 1).await.is_allowed());
    let fleet = ask(WhenStale::Deny);
    fleet.nodes[0].store().set(Way::Closed);
    let error = fleet.nodes[0].decide_one(&limit().charge(WHO), &fleet.now()).await;
    assert!(error.expect_err("it cannot know").is_retryable());
}

#[tokio::test]
async fn known_to_be_empty_needs_no_trip() {
    let fleet = Fleet::of(1, |node| node);
    assert_eq!(fleet.passed(0, &limit(), 10).await, 10);
    fleet.exchange().await;
    let calls = fleet.nodes[0].store().calls();
    for _ in 0..50 {
        let denial = fleet.take(0, &limit(), 1).await;
        assert!(denial.is_denied() && denial.retry_after() <= Some(Duration::from_secs(6)));
        fleet.exchange().await;
        fleet.advance(Duration::from_millis(100));
    }
    assert_eq!(fleet.nodes[0].store().calls(), calls, "five seconds of denials");
    fleet.advance(Duration::from_secs(1));
    assert!(fleet.take(0, &limit(), 1).await.is_allowed(), "one has come in");
}

#[tokio::test]
async fn known_to_be_empty_hears_that_somebody_else_has_made_room() {
    let daily = Limit::per_day(10).fixed_window().build("quota").expect("valid");
    for action in [Action::Reset, Action::Refund { at: None }] {
        let fleet = Fleet::of(2, |node| node);
        assert_eq!(fleet.passed(0, &daily, 10).await, 10);
        fleet.exchange().await;
        assert!(fleet.take(1, &daily, 0).await.is_allowed());
        assert_eq!(fleet.passed(1, &daily, 20).await, 10, "it had not heard of that");
        fleet.exchange().await;
        let more = daily.charge(WHO).with_cost(15).with_action(action);
        assert!(fleet.nodes[0].decide_one(&more, &fleet.now()).await.expect("decided").is_allowed());
        fleet.exchange().await;
        let (mut denied, mut calls) = (0, fleet.nodes[1].store().calls());
        while fleet.take(1, &daily, 1).await.is_denied() {
            denied += 1;
            fleet.exchange().await;
            fleet.advance(Duration::from_millis(100));
            assert!(denied < 200, "twenty seconds, and still nothing");
        }
        calls = fleet.nodes[1].store().calls() - calls;
        assert!(calls <= 3, "{calls} calls for {denied} denials");
    }
}

#[tokio::test]
async fn a_key_that_had_to_go_is_asked_about_when_it_comes_back() {
    let hourly = Limit::per_hour(10).fixed_window().build("quota").expect("valid");
    let fleet = Fleet::of(1, |node| node.keys(1));
    let node = &fleet.nodes[0];
    let mut passed = [0, 0];
    for round in 0..6 {
        for _ in 0..20 {
            let whom = ["one", "two"][round % 2];
            let told = node.decide_one(&hourly.charge(whom), &fleet.now()).await.expect("decided");
            passed[round % 2] += usize::from(told.is_allowed());
        }
        fleet.exchange().await;
    }
    assert_eq!((passed, node.insight().forgotten), ([10, 10], 5));
    assert_eq!(node.insight().overshoot, 0);
}

#[tokio::test]
async fn idle_keys_leave() {
    let fleet = Fleet::of(1, |node| node.keys(6_400));
    let brief = Limit::per_second(10).build("brief").expect("valid");
    for key in 0..20_000 {
        let key = format!("key {key}");
        assert!(
            fleet.nodes[0].decide_one(&brief.charge(&key), &fleet.now()).await.expect("here").is_allowed()
        );
        if key.ends_with("00") {
            fleet.exchange().await;
            fleet.advance(Duration::from_millis(50));
        }
    }
    let insight = fleet.nodes[0].insight();
    assert_eq!(insight.at_centre, 0, "there was always room");
    assert!(insight.keys < 6_000, "{} keys of the last three hundred milliseconds", insight.keys);
}
