//! Nodes that know of each other spend only their shares.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Action, Limit};

use crate::fleet::{Fleet, WHO, Way};

const STEP: Duration = Duration::from_millis(1);

/// Ten nodes at three times the limit, each exchanging every 100 ms at a moment of its own. What passes in each
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
                // An outage is a part of some courses.
                let _ = fleet.nodes[node].sync_now().await;
            }
            sum += fleet.passed(node, limit, demand(node, milli)).await;
        }
        passed.push(sum);
    }
    passed
}

/// The most that passed in any so many milliseconds.
fn most_within(passed: &[usize], span: usize) -> usize {
    passed.windows(span).map(|window| window.iter().sum()).max().unwrap_or_default()
}

#[tokio::test]
async fn steady_overload_settles_at_the_limit() {
    let limit = Limit::per_second(1_000).burst(100).build("api").expect("valid");
    let fleet = Fleet::of(10, |node| node);
    // Three thousand a second: each node has one request in each of three out of ten milliseconds.
    let demand = |node: usize, milli: usize| usize::from((milli + node) % 10 < 3);
    let passed = overloaded(&fleet, &limit, demand, 25_000).await;
    let most = most_within(&passed[2_000..], 10_000);
    assert!(most <= 10_200, "{most} within ten seconds of a thousand each");
    let all: usize = passed[5_000..].iter().sum();
    assert!(all >= 19_000, "{all} in twenty seconds");
    // Not by turns of too much and of nothing, which would come to the same.
    let swing = most_within(&passed[2_000..], 100);
    assert!(swing <= 150, "{swing} within a tenth of a second of a hundred each");
}

#[tokio::test]
async fn a_node_that_comes_late_gets_its_share() {
    let limit = Limit::per_second(1_000).burst(100).build("api").expect("valid");
    let fleet = Fleet::of(2, |node| node);
    // The first asks for all of it, and after five seconds the second does as well.
    let demand = |node: usize, milli: usize| usize::from(node == 0 || milli >= 5_000) * 2;
    let _ = overloaded(&fleet, &limit, demand, 10_000).await;
    let mut each = [0, 0];
    for milli in 0..5_000 {
        fleet.advance(STEP);
        for (node, passed) in each.iter_mut().enumerate() {
            if milli % 100 == node * 50 {
                fleet.nodes[node].sync_now().await.expect("the centre answers");
            }
            *passed += fleet.passed(node, &limit, 2).await;
        }
    }
    let part = each[1] * 100 / (each[0] + each[1]);
    assert!(part >= 20, "{part} percent after ten seconds: {each:?}");
}

#[tokio::test]
async fn who_takes_what_there_is_takes_no_more_than_a_share() {
    let limit = Limit::per_hour(1_000).build("api").expect("valid");
    let fleet = Fleet::of(2, |node| node);
    for _ in 0..10 {
        assert!(fleet.passed(0, &limit, 20).await > 0 && fleet.passed(1, &limit, 20).await > 0);
        fleet.exchange().await;
    }
    let left = fleet.at_centre(&limit).await.remaining();
    assert!(left > 500, "{left}");
    let all = limit.charge(WHO).with_cost(1_000).with_action(Action::TakeUpTo);
    let told = fleet.nodes[0].decide_one(&all, &fleet.now()).await.expect("here");
    assert!((1..=left / 2 + 10).contains(&told.granted()), "{} of {left}", told.granted());
}

#[tokio::test]
async fn a_small_limit_is_shared_as_well() {
    // Ten a second for ten nodes: less than a token each between two exchanges.
    let limit = Limit::per_second(10).build("api").expect("valid");
    let fleet = Fleet::of(10, |node| node);
    let demand = |node: usize, milli: usize| usize::from(milli % 100 == node * 7);
    let passed = overloaded(&fleet, &limit, demand, 60_000).await;
    let all: usize = passed[20_000..].iter().sum();
    assert!((360..=440).contains(&all), "{all} in forty seconds");
}

#[tokio::test]
async fn less_than_a_token_for_each_of_many_nodes_is_used_as_well() {
    // A share of the whole bucket is half a token.
    let limit = Limit::per_second(10).build("api").expect("valid");
    let fleet = Fleet::of(20, |node| node);
    let demand = |node: usize, milli: usize| usize::from((milli + node * 31).is_multiple_of(300));
    let passed = overloaded(&fleet, &limit, demand, 60_000).await;
    let all: usize = passed[20_000..].iter().sum();
    assert!((360..=440).contains(&all), "{all} in forty seconds");
}

#[tokio::test]
async fn an_outage_of_all_nodes_is_paid_for_once() {
    let limit = Limit::per_second(1_000).burst(100).build("api").expect("valid");
    let fleet = Fleet::of(10, |node| node);
    let demand = |node: usize, milli: usize| usize::from((milli + node) % 10 < 3);
    let _ = overloaded(&fleet, &limit, demand, 5_000).await;
    for node in &fleet.nodes {
        node.store().set(Way::Closed);
    }
    let meanwhile: usize = overloaded(&fleet, &limit, demand, 10_000).await.iter().sum();
    assert!((9_000..=11_500).contains(&meanwhile), "{meanwhile} in ten seconds, each by its last share");
    for node in &fleet.nodes {
        node.store().set(Way::Open);
    }
    let after: usize = overloaded(&fleet, &limit, demand, 5_000).await.iter().sum();
    let due = 15_000 - meanwhile;
    assert!((due - 500..=due + 500).contains(&after), "{after} in the next five, after {meanwhile} in ten");
}
