//! Token leases: in total, never more than the limit passes.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Action, Limit, LimitBuilder, Source};
use tollgate_limiter_sync::{Mode, WhenStale};

use crate::fleet::{Fleet, KEY, LinkState, NodeBuilder};

fn leasing(nodes: usize) -> Fleet {
    Fleet::of(nodes, |builder| builder.mode(Mode::Lease))
}

/// Returns a node with leased tokens of a limit of 1,000 per hour, of which 120 are spent.
async fn with_leased_tokens(configure: impl Fn(NodeBuilder) -> NodeBuilder) -> (Fleet, Limit) {
    let (fleet, limit) = (Fleet::of(1, |node| configure(node.mode(Mode::Lease))), Limit::per_hour(1_000));
    let limit = limit.build("api").expect("valid");
    for _ in 0..3 {
        assert_eq!(fleet.passed(0, &limit, 40).await, 40);
        fleet.sync().await;
    }
    let central = fleet.peek_central(&limit).await.remaining();
    assert!(central < 1_000 - 120 - 10, "{central}");
    (fleet, limit)
}

#[tokio::test]
async fn nodes_share_the_whole_limit() {
    let (fleet, limit) = (leasing(3), Limit::per_hour(12).build("api").expect("valid"));
    let mut passed = 0;
    for _ in 0..12 {
        for node in 0..3 {
            passed += fleet.passed(node, &limit, 1).await;
        }
    }
    assert_eq!(passed, 12);
    let denial = fleet.take(0, &limit, 1).await;
    assert!(denial.is_denied() && denial.retry_after().is_some());
}

#[tokio::test]
async fn unused_tokens_are_returned() {
    let (fleet, limit) = (leasing(2), Limit::per_hour(1_000).build("api").expect("valid"));
    for _ in 0..5 {
        assert_eq!(fleet.passed(0, &limit, 50).await, 50);
        fleet.sync().await;
        fleet.advance(Duration::from_millis(100));
    }
    let central = fleet.peek_central(&limit).await.remaining();
    assert!(central < 1_000 - 250, "{central}: some are leased in advance");
    for _ in 0..20 {
        fleet.sync().await;
        fleet.advance(Duration::from_millis(100));
    }
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 1_000 - 250);
    assert_eq!(fleet.passed(1, &limit, 2_000).await, 750);
}

#[tokio::test]
async fn closing_returns_all_tokens() {
    let (fleet, limit) = with_leased_tokens(|node| node).await;
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the central store answers");
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 1_000 - 120);
}

#[tokio::test]
async fn without_the_central_store_only_leased_tokens_pass() {
    let (fleet, limit) = with_leased_tokens(|node| node).await;
    let held = usize::try_from(1_000 - 120 - fleet.peek_central(&limit).await.remaining()).expect("small");
    assert!(held > 0);
    fleet.nodes[0].store().set(LinkState::Down);
    assert_eq!(fleet.passed(0, &limit, 1_000).await, held);
    let denial = fleet.take(0, &limit, 1).await;
    assert!(denial.is_denied() && denial.retry_after().is_some());
    assert_eq!(denial.source(), Source::Store);
}

#[tokio::test]
async fn large_costs_and_several_charges() {
    let (fleet, wide) = (leasing(1), Limit::per_hour(100).build("wide").expect("valid"));
    let narrow = Limit::per_hour(3).build("narrow").expect("valid");
    assert_eq!(fleet.take(0, &wide, 60).await.granted(), 60);
    assert!(fleet.take(0, &wide, 60).await.is_denied());
    assert!(fleet.take(0, &wide, 101).await.retry_after().is_none(), "never");
    for expected in [true, true, true, false] {
        let charges = [wide.charge(KEY).with_cost(2), narrow.charge(KEY)];
        let verdict = fleet.nodes[0].decide(tollgate_core::Request::new(&charges), fleet.now()).await;
        assert_eq!(verdict.expect("decided").is_allowed(), expected);
    }
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the central store answers");
    assert_eq!(fleet.peek_central(&wide).await.remaining(), 100 - 66);
    let debit = wide.charge(KEY).with_cost(5).with_action(Action::Debit { at: None });
    assert!(fleet.nodes[0].decide_one(&debit, &fleet.now()).await.expect("decided centrally").is_allowed());
    assert_eq!(fleet.peek_central(&wide).await.remaining(), 100 - 71);
}

#[tokio::test(start_paused = true)]
async fn closing_fails_without_the_central_store_and_keeps_the_tokens() {
    let (fleet, limit) = with_leased_tokens(|node| node).await;
    fleet.nodes[0].store().set(LinkState::Down);
    let error = fleet.nodes[0].close(Duration::from_secs(1)).await.expect_err("the central store is down");
    assert!(error.to_string().contains("tokens: 1;"), "{error}");
    fleet.nodes[0].store().set(LinkState::Up);
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the central store answers again");
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 1_000 - 120);
}

#[tokio::test(start_paused = true)]
async fn tokens_whose_return_was_not_sent_are_not_lost() {
    let deltas = Limit::per_hour(1_000).build("deltas").expect("valid");
    let (fleet, limit) =
        with_leased_tokens(|builder| builder.policy(&deltas, |policy| policy.mode(Mode::Deltas))).await;
    assert!(fleet.take(0, &deltas, 1).await.is_allowed());
    fleet.nodes[0].store().set(LinkState::Hanging);
    let error = fleet.nodes[0].close(Duration::from_secs(1)).await.expect_err("the central store is down");
    assert!(error.to_string().contains("tokens: 2;"), "{error}");
    fleet.nodes[0].store().set(LinkState::Up);
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the central store answers again");
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 1_000 - 120);
}

#[tokio::test]
async fn a_reduced_limit_applies_to_leased_tokens() {
    let (fleet, limit) = with_leased_tokens(|node| node).await;
    let smaller = Limit::per_hour(8).build("api").expect("valid");
    let passed = fleet.passed(0, &smaller, 1_000).await;
    assert!(passed <= 8, "{passed}");
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the central store answers");
    assert!(fleet.peek_central(&limit).await.remaining() > 0, "the rest was returned");
}

#[tokio::test]
async fn no_second_call_right_after_a_slow_failure() {
    let (fleet, limit) = (leasing(1), Limit::per_hour(1_000).build("api").expect("valid"));
    fleet.nodes[0].store().set(LinkState::SlowFailure);
    for _ in 0..5 {
        assert!(fleet.take(0, &limit, 1).await.is_denied());
    }
    assert_eq!(fleet.nodes[0].store().calls(), 1);
}

#[tokio::test]
async fn a_fallback_is_not_the_central_store() {
    let deltas = Limit::per_hour(1_000).build("deltas").expect("valid");
    let (fleet, limit) = with_leased_tokens(|builder| {
        builder.when_stale(WhenStale::Deny).policy(&deltas, |policy| policy.mode(Mode::Deltas))
    })
    .await;
    assert!(fleet.take(0, &deltas, 1).await.is_allowed());
    fleet.nodes[0].store().set(LinkState::Fallback);
    for _ in 0..12 {
        let _ = fleet.nodes[0].sync_now().await;
        fleet.advance(Duration::from_millis(100));
    }
    assert!(fleet.take(0, &deltas, 1).await.is_denied(), "stale for more than a second");
    fleet.nodes[0].store().set(LinkState::Up);
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the central store answers again");
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 1_000 - 120, "everything was returned");
}

#[tokio::test]
async fn a_new_key_in_high_demand_takes_few_calls() {
    let (fleet, limit) = (leasing(1), Limit::per_hour(1_000).build("api").expect("valid"));
    assert_eq!(fleet.passed(0, &limit, 100).await, 100);
    let calls = fleet.nodes[0].store().calls();
    assert!(calls <= 10, "{calls} calls for 100 checks");
}

#[tokio::test]
async fn a_peek_takes_nothing() {
    let (fleet, limit) = (leasing(2), Limit::per_hour(10).build("api").expect("valid"));
    for node in [0, 1, 0] {
        assert_eq!(fleet.take(node, &limit, 0).await.remaining(), 10, "node {node}");
    }
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// In total never more than C + L·t, whatever the links do; in any shorter time, at most that plus what can be
    /// leased at once.
    #[test]
    fn never_more_than_the_limit(
        seed in any::<u64>(),
        nodes in 1..6_usize,
        rate in 1..60_u32,
        burst in 1..100_u32,
        pressure in 1..5_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let limit: LimitBuilder = Limit::per_second(rate).burst(burst);
            let limit = limit.build("api").expect("valid");
            let (fleet, mut random) = (leasing(nodes), Seed::new(seed));
            let start = fleet.now();
            let mut passed: Vec<(f64, f64)> = Vec::new();
            for _ in 0..600 {
                fleet.advance(Duration::from_millis(random.below(30)));
                for (node, synced) in fleet.nodes.iter().enumerate() {
                    match random.below(12) {
                        0 => drop(synced.sync_now().await),
                        1 if random.once_in(8) => synced.store().set(LinkState::Down),
                        1 if random.once_in(8) => synced.store().set(LinkState::LostAnswer),
                        1 => synced.store().set(LinkState::Up),
                        _ => {}
                    }
                    for _ in 0..random.below(pressure) {
                        let cost = if random.once_in(5) { 2.min(burst) } else { 1 };
                        let granted = fleet.take(node, &limit, cost).await.granted();
                        passed.push((fleet.now().since(start).as_secs_f64(), f64::from(granted)));
                    }
                }
            }
            let (rate, burst) = (f64::from(rate), f64::from(burst));
            let leased = f64::from(u32::try_from(nodes).expect("small")) * (burst / 4.0).max(2.0);
            for first in (0..passed.len()).step_by(41) {
                let (since, held) = if first == 0 { (0.0, 0.0) } else { (passed[first].0, leased) };
                let mut sum = 0.0;
                for (at, granted) in &passed[first..] {
                    sum += granted;
                    let most = burst + rate * (at - since) + held;
                    assert!(sum <= most + 1e-6, "{sum} from {since} to {at} s, at most {most}");
                }
            }
        });
    }
}

#[tokio::test]
async fn nearly_the_whole_limit_is_used() {
    let limit = Limit::per_second(1_000).build("api").expect("valid");
    for pressure in [10, 30] {
        let fleet = leasing(10);
        let mut passed = 0;
        for milli in 0..10_000 {
            fleet.advance(Duration::from_millis(1));
            for node in 0..10 {
                if milli % 100 == node * 10 {
                    fleet.nodes[node].sync_now().await.expect("the central store answers");
                }
                if milli >= 2_000 && (milli + node) % 100 < pressure {
                    passed += fleet.passed(node, &limit, 1).await;
                }
            }
        }
        assert!((7_600..=9_000).contains(&passed), "{passed} in 8 s, at pressure {pressure}");
    }
}
