//! Decisions while the central store does not answer.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Limit, Request, Source};
use tollgate_limiter_sync::{Mode, SyncPolicy, WhenStale};

use crate::fleet::{Fleet, KEY, LinkState};

const SECOND: Duration = Duration::from_secs(1);

fn limit() -> Limit {
    Limit::per_second(10).build("api").expect("valid")
}

/// Returns a node whose central store has not answered for so long.
async fn stale_for(span: Duration, when_stale: WhenStale) -> Fleet {
    let fleet = Fleet::of(1, |builder| builder.interval(Duration::from_millis(100)).when_stale(when_stale));
    assert_eq!(fleet.passed(0, &limit(), 1).await, 1);
    fleet.nodes[0].store().set(LinkState::Down);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    fleet.advance(span);
    fleet
}

#[tokio::test]
async fn a_short_outage_changes_nothing() {
    for when_stale in [WhenStale::Continue, WhenStale::Deny, WhenStale::share_of(5)] {
        let fleet = stale_for(SECOND, when_stale).await;
        let decision = fleet.take(0, &limit(), 1).await;
        assert_eq!((decision.is_allowed(), decision.source()), (true, Source::Store), "{when_stale:?}");
        assert_eq!(fleet.nodes[0].stats().decided_stale, 0);
    }
}

#[tokio::test]
async fn a_long_outage_applies_the_policy() {
    let long = SECOND + Duration::from_millis(1);
    let fleet = stale_for(long, WhenStale::Continue).await;
    assert_eq!(fleet.passed(0, &limit(), 20).await, 10);
    assert_eq!(fleet.take(0, &limit(), 0).await.source(), Source::Fallback);

    let fleet = stale_for(long, WhenStale::share_of(5)).await;
    assert_eq!(fleet.passed(0, &limit(), 20).await, 2, "a fifth");
    assert_eq!(fleet.take(0, &limit(), 0).await.source(), Source::Fallback);

    let fleet = stale_for(long, WhenStale::Deny).await;
    let denial = fleet.take(0, &limit(), 1).await;
    assert_eq!((denial.is_denied(), denial.source()), (true, Source::Policy));
    assert_eq!(denial.retry_after(), Some(Duration::from_millis(100)), "the next sync round");
    let stats = fleet.nodes[0].stats();
    assert_eq!((stats.decided_stale, stats.stale_for, stats.failed_rounds), (1, long, 1));
}

#[tokio::test]
async fn staleness_ends_with_the_first_answer() {
    let fleet = stale_for(10 * SECOND, WhenStale::Deny).await;
    assert!(fleet.take(0, &limit(), 1).await.is_denied());
    fleet.nodes[0].store().set(LinkState::Up);
    fleet.nodes[0].sync_now().await.expect("the central store answers");
    let decision = fleet.take(0, &limit(), 1).await;
    assert_eq!((decision.is_allowed(), decision.source()), (true, Source::Store));
    assert_eq!(fleet.nodes[0].stats().stale_for, Duration::ZERO);
}

#[tokio::test]
async fn each_limit_has_its_own_policy() {
    let login = Limit::per_second(10).build("login").expect("valid");
    let fleet = Fleet::of(1, |node| {
        node.policy(&login, |policy| policy.when_stale(WhenStale::Deny).stale_after(SECOND / 2))
    });
    assert_eq!(fleet.passed(0, &limit(), 1).await + fleet.passed(0, &login, 1).await, 2);
    fleet.nodes[0].store().set(LinkState::Down);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    fleet.advance(SECOND);
    assert!(fleet.take(0, &limit(), 1).await.is_allowed());
    assert!(fleet.take(0, &login, 1).await.is_denied());
}

#[tokio::test]
async fn a_missing_sync_round_counts_as_no_answer() {
    for limit in [limit(), Limit::per_hour(10).fixed_window().build("api").expect("valid")] {
        let fleet = Fleet::of(1, |builder| builder.when_stale(WhenStale::Deny));
        assert_eq!(fleet.passed(0, &limit, 1).await, 1);
        // Two intervals, and a second.
        fleet.advance(SECOND + Duration::from_millis(200));
        assert_eq!(fleet.passed(0, &limit, 1).await, 1);
        fleet.advance(Duration::from_millis(1));
        assert!(fleet.take(0, &limit, 1).await.is_denied());
        assert_eq!(fleet.nodes[0].store().calls(), 0);
        fleet.nodes[0].sync_now().await.expect("the central store answers");
        assert_eq!(fleet.passed(0, &limit, 1).await, 1);
        fleet.advance(60 * SECOND);
        fleet.nodes[0].sync_now().await.expect("the central store answers");
        fleet.advance(60 * SECOND);
        assert_eq!(fleet.passed(0, &limit, 1).await, 1, "nothing to send, no round is missing");
    }
}

#[tokio::test]
async fn a_request_of_several_charges_expects_a_sync_round() {
    let fleet = Fleet::of(1, |builder| builder.when_stale(WhenStale::Deny));
    let (api, other) = (limit(), Limit::per_second(10).build("other").expect("valid"));
    let charges = [api.charge(KEY), other.charge(KEY)];
    let decide = async || {
        let verdict = fleet.nodes[0].decide(Request::new(&charges), fleet.now()).await;
        verdict.expect("decided locally").is_allowed()
    };
    assert!(decide().await);
    fleet.advance(SECOND + Duration::from_millis(200));
    assert!(decide().await);
    fleet.advance(Duration::from_millis(1));
    assert!(!decide().await);
}

#[tokio::test]
async fn a_lease_expects_no_sync_round() {
    let leased = Limit::per_hour(1_000_000).build("leased").expect("valid");
    let fleet = Fleet::of(1, |node| {
        node.when_stale(WhenStale::Deny).policy(&leased, |policy| policy.mode(Mode::Lease))
    });
    for _ in 0..10 {
        assert!(fleet.take(0, &leased, 10).await.is_allowed());
        fleet.nodes[0].sync_now().await.expect("the central store answers");
    }
    // There are enough leased tokens: the round has nothing to send.
    let calls = fleet.nodes[0].store().calls();
    assert!(fleet.take(0, &leased, 0).await.is_allowed());
    fleet.nodes[0].sync_now().await.expect("nothing to send");
    assert_eq!(fleet.nodes[0].store().calls(), calls);
    fleet.advance(2 * SECOND);
    assert!(fleet.take(0, &limit(), 1).await.is_allowed());
}

#[tokio::test]
async fn a_bound_shorter_than_the_interval_is_no_constant_staleness() {
    let short = |policy: SyncPolicy| policy.interval(SECOND).stale_after(Duration::from_millis(10));
    let fleet = Fleet::of(1, |builder| builder.default_policy(short).when_stale(WhenStale::Deny));
    for step in 0..100 {
        assert!(fleet.take(0, &limit(), 1).await.is_allowed(), "step {step}");
        fleet.advance(Duration::from_millis(110));
        if step % 10 == 9 {
            fleet.nodes[0].sync_now().await.expect("the central store answers");
        }
    }
}

#[tokio::test]
async fn a_round_is_missing_after_its_own_interval() {
    let slow = Limit::per_hour(100).build("slow").expect("valid");
    let fleet = Fleet::of(1, |node| {
        node.when_stale(WhenStale::Deny).policy(&slow, |policy| policy.interval(60 * SECOND))
    });
    assert_eq!(fleet.passed(0, &slow, 1).await, 1);
    fleet.advance(60 * SECOND);
    assert_eq!(fleet.passed(0, &limit(), 1).await, 1, "the round of the other limit is not missing yet");
    fleet.advance(SECOND + Duration::from_millis(201));
    assert!(fleet.take(0, &limit(), 1).await.is_denied(), "its own round is");
    assert!(fleet.take(0, &slow, 1).await.is_allowed(), "not for so long");
}

#[tokio::test]
async fn a_rejection_is_an_answer() {
    let fleet = Fleet::of(1, |builder| builder.when_stale(WhenStale::Deny));
    assert_eq!(fleet.passed(0, &limit(), 1).await, 1);
    fleet.nodes[0].store().set(LinkState::Rejecting);
    for _ in 0..5 {
        assert!(fleet.nodes[0].sync_now().await.is_err());
        fleet.advance(SECOND);
    }
    assert!(fleet.take(0, &limit(), 1).await.is_allowed());
    fleet.nodes[0].store().set(LinkState::Up);
    fleet.sync().await;
    assert_eq!(fleet.nodes[0].stats().pending, 0, "and nothing is lost");
}

#[tokio::test]
async fn a_charge_stopped_by_another_reports_its_balance() {
    let huge = Limit::per_hour(3_000_000).fixed_window().build("huge").expect("valid");
    let slow = Limit::per_hour(1).build("slow").expect("valid");
    let fleet = Fleet::of(1, |builder| builder.policy(&limit(), |policy| policy.when_stale(WhenStale::Deny)));
    for limit in [&huge, &slow, &limit()] {
        assert!(fleet.take(0, limit, 1).await.is_allowed());
    }
    fleet.nodes[0].store().set(LinkState::Down);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    fleet.advance(2 * SECOND);
    let before = [fleet.take(0, &huge, 0).await, fleet.take(0, &slow, 0).await];
    let api = limit();
    let charges = [
        huge.charge(KEY).with_cost(1).with_action(Action::Refund { at: None }),
        slow.charge(KEY).with_cost(3_000_000).with_action(Action::Debit { at: None }),
        api.charge(KEY),
    ];
    let verdict = fleet.nodes[0].decide(Request::new(&charges), fleet.now()).await.expect("decided locally");
    assert!(verdict.is_denied());
    for (decision, before) in verdict.decisions().iter().zip(before) {
        assert_eq!((decision.remaining(), decision.granted(), decision.debt()), (before.remaining(), 0, 0));
    }
}

#[tokio::test]
async fn a_denial_by_a_share_of_the_limit_does_not_change_the_state() {
    let limit = Limit::per_hour(100).refill_by_interval().build("api").expect("valid");
    let fleet = Fleet::of(1, |builder| builder.when_stale(WhenStale::share_of(10)));
    assert!(fleet.take(0, &limit, 50).await.is_allowed());
    fleet.nodes[0].store().set(LinkState::Down);
    assert!(fleet.nodes[0].sync_now().await.is_err());
    fleet.advance(2 * SECOND);
    assert!(fleet.take(0, &limit, 1).await.is_denied());
    fleet.nodes[0].store().set(LinkState::Up);
    // The local state, before anything is synchronized.
    let debit = limit.charge(KEY).with_cost(0).with_action(Action::Debit { at: None });
    let decision = fleet.nodes[0].decide_one(&debit, &fleet.now()).await.expect("decided locally");
    assert_eq!(decision.remaining(), 50);
}
