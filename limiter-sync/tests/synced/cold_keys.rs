//! Keys without a local entry, and keys that are known to be empty.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Limit};
use tollgate_limiter_sync::{ColdKeys, WhenStale};

use crate::fleet::{Fleet, KEY, LinkState};

fn limit() -> Limit {
    Limit::per_minute(10).build("api").expect("valid")
}

#[tokio::test]
async fn optimistic_allows_what_the_central_store_would_deny() {
    let fleet = Fleet::of(2, |builder| builder);
    assert_eq!(fleet.passed(0, &limit(), 10).await, 10);
    fleet.sync().await;
    assert_eq!(fleet.passed(1, &limit(), 20).await, 10);
    fleet.sync().await;
    assert_eq!(fleet.peek_central(&limit()).await.debt(), 10);
    assert_eq!(fleet.nodes[1].stats().max_debt, 10);
}

#[tokio::test]
async fn fetch_first_does_not() {
    let fleet =
        Fleet::of(2, |builder| builder.default_policy(|policy| policy.cold_keys(ColdKeys::FetchFirst)));
    assert_eq!(fleet.passed(0, &limit(), 7).await, 7);
    fleet.sync().await;
    let calls = fleet.nodes[1].store().calls();
    assert_eq!(fleet.passed(1, &limit(), 20).await, 3);
    assert_eq!(fleet.nodes[1].store().calls(), calls + 1, "fetched once");
}

#[tokio::test]
async fn fetching_from_a_central_store_that_does_not_answer() {
    let fetching = |when_stale| {
        Fleet::of(1, move |node| {
            node.when_stale(when_stale).default_policy(|policy| policy.cold_keys(ColdKeys::FetchFirst))
        })
    };
    let fleet = fetching(WhenStale::Continue);
    fleet.nodes[0].store().set(LinkState::Down);
    assert!(fleet.take(0, &limit(), 1).await.is_allowed());
    let fleet = fetching(WhenStale::Deny);
    fleet.nodes[0].store().set(LinkState::Down);
    let error = fleet.nodes[0].decide_one(&limit().charge(KEY), &fleet.now()).await;
    assert!(error.expect_err("the state is unknown").is_retryable());
}

#[tokio::test]
async fn an_empty_key_is_denied_without_a_call() {
    let fleet = Fleet::of(1, |builder| builder);
    assert_eq!(fleet.passed(0, &limit(), 10).await, 10);
    fleet.sync().await;
    let calls = fleet.nodes[0].store().calls();
    for _ in 0..50 {
        let denial = fleet.take(0, &limit(), 1).await;
        assert!(denial.is_denied() && denial.retry_after() <= Some(Duration::from_secs(6)));
        fleet.sync().await;
        fleet.advance(Duration::from_millis(100));
    }
    assert_eq!(fleet.nodes[0].store().calls(), calls, "no call in five seconds of denials");
    fleet.advance(Duration::from_secs(1));
    assert!(fleet.take(0, &limit(), 1).await.is_allowed(), "one token was refilled");
}

#[tokio::test]
async fn an_empty_key_learns_that_another_node_refunded_or_reset_it() {
    let daily = Limit::per_day(10).fixed_window().build("quota").expect("valid");
    for action in [Action::Reset, Action::Refund { at: None }] {
        let fleet = Fleet::of(2, |builder| builder);
        assert_eq!(fleet.passed(0, &daily, 10).await, 10);
        fleet.sync().await;
        assert!(fleet.take(1, &daily, 0).await.is_allowed());
        assert_eq!(fleet.passed(1, &daily, 20).await, 10, "it does not know of those yet");
        fleet.sync().await;
        let more = daily.charge(KEY).with_cost(15).with_action(action);
        assert!(fleet.nodes[0].decide_one(&more, &fleet.now()).await.expect("decided").is_allowed());
        fleet.sync().await;
        let (mut denied, mut calls) = (0, fleet.nodes[1].store().calls());
        while fleet.take(1, &daily, 1).await.is_denied() {
            denied += 1;
            fleet.sync().await;
            fleet.advance(Duration::from_millis(100));
            assert!(denied < 200, "still denied after twenty seconds");
        }
        calls = fleet.nodes[1].store().calls() - calls;
        assert!(calls <= 3, "{calls} calls for {denied} denials");
    }
}

#[tokio::test]
async fn an_evicted_key_is_fetched_when_it_is_used_again() {
    let hourly = Limit::per_hour(10).fixed_window().build("quota").expect("valid");
    let fleet = Fleet::of(1, |builder| builder.max_keys(1));
    let node = &fleet.nodes[0];
    let mut passed = [0, 0];
    for round in 0..6 {
        for _ in 0..20 {
            let key = ["one", "two"][round % 2];
            let decision = node.decide_one(&hourly.charge(key), &fleet.now()).await.expect("decided");
            passed[round % 2] += usize::from(decision.is_allowed());
        }
        fleet.sync().await;
    }
    assert_eq!((passed, node.stats().evicted), ([10, 10], 5));
    assert_eq!(node.stats().max_debt, 0);
}

#[tokio::test]
async fn idle_keys_are_removed() {
    let fleet = Fleet::of(1, |builder| builder.max_keys(6_400));
    let brief = Limit::per_second(10).build("brief").expect("valid");
    for key in 0..20_000 {
        let key = format!("key {key}");
        assert!(
            fleet.nodes[0]
                .decide_one(&brief.charge(&key), &fleet.now())
                .await
                .expect("decided locally")
                .is_allowed()
        );
        if key.ends_with("00") {
            fleet.sync().await;
            fleet.advance(Duration::from_millis(50));
        }
    }
    let stats = fleet.nodes[0].stats();
    assert_eq!(stats.decided_centrally, 0, "there was always room");
    assert!(stats.keys < 6_000, "{} keys of the last 300 ms", stats.keys);
}
