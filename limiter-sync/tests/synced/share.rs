//! Nodes that know of each other spend only their shares.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Action, Limit};

use crate::fleet::{Fleet, KEY, LinkState};

const STEP: Duration = Duration::from_millis(1);

/// Runs nodes under load, each synchronizing every 100 ms at a different moment. Returns what passes in each
/// millisecond.
async fn overloaded(
    fleet: &Fleet,
    limit: &Limit,
    demand: impl Fn(usize, usize) -> usize,
    millis: usize,
) -> Vec<usize> {
    let nodes = fleet.nodes.len();
    let mut passed = Vec::with_capacity(millis);
    for milli in 0..millis {
        fleet.advance(STEP);
        let mut sum = 0;
        for node in 0..nodes {
            if milli % 100 == node * 100 / nodes {
                // Some tests include an outage.
                let _ = fleet.nodes[node].sync_now().await;
            }
            sum += fleet.passed(node, limit, demand(node, milli)).await;
        }
        passed.push(sum);
    }
    passed
}

/// Returns the most that passed in any `span` milliseconds.
fn most_within(passed: &[usize], span: usize) -> usize {
    passed.windows(span).map(|window| window.iter().sum()).max().unwrap_or_default()
}

#[tokio::test]
async fn steady_overload_settles_at_the_limit() {
    let limit = Limit::per_second(1_000).burst(100).build("api").expect("valid");
    let fleet = Fleet::of(10, |builder| builder);
    // 3,000 per second: each node has one request in three out of ten milliseconds.
    let demand = |node: usize, milli: usize| usize::from((milli + node) % 10 < 3);
    let passed = overloaded(&fleet, &limit, demand, 25_000).await;
    let most = most_within(&passed[2_000..], 10_000);
    assert!(most <= 10_200, "{most} in 10 s at 1,000 per second");
    let all: usize = passed[5_000..].iter().sum();
    assert!(all >= 19_000, "{all} in 20 s");
    // Without alternating between too much and nothing, which would have the same sum.
    let swing = most_within(&passed[2_000..], 100);
    assert!(swing <= 150, "{swing} in 100 ms at 100 per 100 ms");
}

#[tokio::test]
async fn a_node_that_joins_late_gets_its_share() {
    let limit = Limit::per_second(1_000).burst(100).build("api").expect("valid");
    let fleet = Fleet::of(2, |builder| builder);
    // The first node uses the whole limit; after five seconds the second one tries to as well.
    let demand = |node: usize, milli: usize| usize::from(node == 0 || milli >= 5_000) * 2;
    let _ = overloaded(&fleet, &limit, demand, 10_000).await;
    let mut each = [0, 0];
    for milli in 0..5_000 {
        fleet.advance(STEP);
        for (node, passed) in each.iter_mut().enumerate() {
            if milli % 100 == node * 50 {
                fleet.nodes[node].sync_now().await.expect("the central store answers");
            }
            *passed += fleet.passed(node, &limit, 2).await;
        }
    }
    let part = each[1] * 100 / (each[0] + each[1]);
    assert!(part >= 20, "{part} % after 10 s: {each:?}");
}

#[tokio::test]
async fn take_up_to_takes_no_more_than_a_share() {
    let limit = Limit::per_hour(1_000).build("api").expect("valid");
    let fleet = Fleet::of(2, |builder| builder);
    for _ in 0..10 {
        assert!(fleet.passed(0, &limit, 20).await > 0 && fleet.passed(1, &limit, 20).await > 0);
        fleet.sync().await;
    }
    let left = fleet.peek_central(&limit).await.remaining();
    assert!(left > 500, "{left}");
    let all = limit.charge(KEY).with_cost(1_000).with_action(Action::TakeUpTo);
    let decision = fleet.nodes[0].decide_one(&all, &fleet.now()).await.expect("decided locally");
    assert!((1..=left / 2 + 10).contains(&decision.granted()), "{} of {left}", decision.granted());
}

#[tokio::test]
async fn a_small_limit_is_shared() {
    // 10 per second for ten nodes: less than a token each per interval.
    let limit = Limit::per_second(10).build("api").expect("valid");
    let fleet = Fleet::of(10, |builder| builder);
    let demand = |node: usize, milli: usize| usize::from(milli % 100 == node * 7);
    let passed = overloaded(&fleet, &limit, demand, 60_000).await;
    let all: usize = passed[20_000..].iter().sum();
    assert!((360..=440).contains(&all), "{all} in 40 s");
}

#[tokio::test]
async fn shares_below_one_token_are_used() {
    // A share of the full bucket is half a token.
    let limit = Limit::per_second(10).build("api").expect("valid");
    let fleet = Fleet::of(20, |builder| builder);
    let demand = |node: usize, milli: usize| usize::from((milli + node * 31).is_multiple_of(300));
    let passed = overloaded(&fleet, &limit, demand, 60_000).await;
    let all: usize = passed[20_000..].iter().sum();
    assert!((360..=440).contains(&all), "{all} in 40 s");
}

#[tokio::test]
async fn an_outage_of_all_nodes_is_repaid_once() {
    let limit = Limit::per_second(1_000).burst(100).build("api").expect("valid");
    let fleet = Fleet::of(10, |builder| builder);
    let demand = |node: usize, milli: usize| usize::from((milli + node) % 10 < 3);
    let _ = overloaded(&fleet, &limit, demand, 5_000).await;
    for node in &fleet.nodes {
        node.store().set(LinkState::Down);
    }
    let during: usize = overloaded(&fleet, &limit, demand, 10_000).await.iter().sum();
    assert!((9_000..=11_500).contains(&during), "{during} in 10 s, each node with its last share");
    for node in &fleet.nodes {
        node.store().set(LinkState::Up);
    }
    let after: usize = overloaded(&fleet, &limit, demand, 5_000).await.iter().sum();
    let expected = 15_000 - during;
    assert!(
        (expected - 500..=expected + 500).contains(&after),
        "{after} in the next 5 s, after {during} in 10 s"
    );
}

#[tokio::test]
async fn nodes_that_are_back_first_leave_the_others_their_parts() {
    let limit = Limit::per_second(1_000).burst(100).build("api").expect("valid");
    let fleet = Fleet::of(5, |builder| builder);
    let demand = |_: usize, milli: usize| usize::from(milli.is_multiple_of(2));
    let _ = overloaded(&fleet, &limit, demand, 5_000).await;
    for node in &fleet.nodes {
        node.store().set(LinkState::Down);
    }
    let _ = overloaded(&fleet, &limit, demand, 10_000).await;
    // The first to be back finds a full bucket, and the last one its share of the limit.
    let mut while_returning = 0;
    for node in &fleet.nodes {
        node.store().set(LinkState::Up);
        while_returning += overloaded(&fleet, &limit, demand, 300).await.iter().sum::<usize>();
    }
    assert!((1_200..=1_600).contains(&while_returning), "{while_returning} in 1.5 s");
    for second in 1..=5 {
        let passed: usize = overloaded(&fleet, &limit, demand, 1_000).await.iter().sum();
        assert!((900..=1_100).contains(&passed), "{passed} in second {second} after the last node is back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whoever comes first keeps nothing: from a second after the last start, nodes with equal demand get equal parts.
    #[test]
    fn equal_demand_gets_equal_parts(
        nodes in 2..=6_usize, rate in 100..600_u32, percent in 150..400_u64, seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let limit = Limit::per_second(rate).burst(rate / 2).build("api").expect("valid");
        let each = runtime.block_on(async {
            let (fleet, mut random) = (Fleet::of(nodes, |node| node), Seed::new(seed));
            let starts: Vec<u64> = (0..nodes).map(|_| random.below(2_000)).collect();
            let mut next = starts.clone();
            let measured = starts.iter().max().expect("nodes") + 1_000;
            let mut each = vec![0; nodes];
            for now in (0..measured + 5_000).step_by(5) {
                fleet.advance(5 * STEP);
                for node in 0..nodes {
                    if now < starts[node] {
                        continue;
                    }
                    if now >= next[node] {
                        fleet.nodes[node].sync_now().await.expect("the central store answers");
                        next[node] = now + 90 + random.below(21);
                    }
                    let per_mille = u64::from(rate) * percent * 5 / 100 / nodes as u64;
                    let requests = per_mille / 1_000 + u64::from(random.below(1_000) < per_mille % 1_000);
                    for _ in 0..requests {
                        let granted = fleet.take(node, &limit, 1).await.granted();
                        each[node] += if now >= measured { granted } else { 0 };
                    }
                }
            }
            each
        });
        let fair = f64::from(rate) * 5.0 / f64::from(u32::try_from(nodes).expect("small"));
        for granted in &each {
            prop_assert!(f64::from(*granted) >= 0.85 * fair, "{each:?}, {fair} each would be fair");
        }
    }
}
