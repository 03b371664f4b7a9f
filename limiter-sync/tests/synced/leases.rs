//! Tokens that are taken ahead of need: never more than the limit passes, all in all.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Action, Limit, LimitBuilder, Source};
use tollgate_limiter_sync::{Mode, WhenStale};

use crate::fleet::{Fleet, Node, WHO, Way};

fn leasing(nodes: usize) -> Fleet {
    Fleet::of(nodes, Node::leasing)
}

/// A node that has leased something of a thousand an hour, of which 120 are spent.
async fn holding(with: impl Fn(Node) -> Node) -> (Fleet, Limit) {
    let (fleet, limit) = (Fleet::of(1, |node| with(node.leasing())), Limit::per_hour(1_000));
    let limit = limit.build("api").expect("valid");
    for _ in 0..3 {
        assert_eq!(fleet.passed(0, &limit, 40).await, 40);
        fleet.exchange().await;
    }
    let there = fleet.at_centre(&limit).await.remaining();
    assert!(there < 1_000 - 120 - 10, "{there}");
    (fleet, limit)
}

#[tokio::test]
async fn nodes_that_never_met_share_what_there_is() {
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
async fn what_is_not_used_goes_back() {
    let (fleet, limit) = (leasing(2), Limit::per_hour(1_000).build("api").expect("valid"));
    for _ in 0..5 {
        assert_eq!(fleet.passed(0, &limit, 50).await, 50);
        fleet.exchange().await;
        fleet.advance(Duration::from_millis(100));
    }
    let there = fleet.at_centre(&limit).await.remaining();
    assert!(there < 1_000 - 250, "{there}: some are held for what is to come");
    for _ in 0..20 {
        fleet.exchange().await;
        fleet.advance(Duration::from_millis(100));
    }
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 1_000 - 250);
    assert_eq!(fleet.passed(1, &limit, 2_000).await, 750);
}

#[tokio::test]
async fn closing_gives_everything_back() {
    let (fleet, limit) = holding(|node| node).await;
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the centre is there");
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 1_000 - 120);
}

#[tokio::test]
async fn without_a_centre_only_what_is_leased_passes() {
    let (fleet, limit) = holding(|node| node).await;
    let held = usize::try_from(1_000 - 120 - fleet.at_centre(&limit).await.remaining()).expect("small");
    assert!(held > 0);
    fleet.nodes[0].store().set(Way::Closed);
    assert_eq!(fleet.passed(0, &limit, 1_000).await, held);
    let denial = fleet.take(0, &limit, 1).await;
    assert!(denial.is_denied() && denial.retry_after().is_some());
    assert_eq!(denial.source(), Source::Store);
}

#[tokio::test]
async fn large_costs_and_requests_of_several() {
    let (fleet, wide) = (leasing(1), Limit::per_hour(100).build("wide").expect("valid"));
    let narrow = Limit::per_hour(3).build("narrow").expect("valid");
    assert_eq!(fleet.take(0, &wide, 60).await.granted(), 60);
    assert!(fleet.take(0, &wide, 60).await.is_denied());
    assert!(fleet.take(0, &wide, 101).await.retry_after().is_none(), "never");
    for expected in [true, true, true, false] {
        let charges = [wide.charge(WHO).with_cost(2), narrow.charge(WHO)];
        let verdict = fleet.nodes[0].decide(tollgate_core::Request::new(&charges), fleet.now()).await;
        assert_eq!(verdict.expect("decided").is_allowed(), expected);
    }
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the centre is there");
    assert_eq!(fleet.at_centre(&wide).await.remaining(), 100 - 66);
    let debit = wide.charge(WHO).with_cost(5).with_action(Action::Debit { at: None });
    assert!(fleet.nodes[0].decide_one(&debit, &fleet.now()).await.expect("the centre").is_allowed());
    assert_eq!(fleet.at_centre(&wide).await.remaining(), 100 - 71);
}

#[tokio::test(start_paused = true)]
async fn closing_without_a_centre_says_so_and_keeps_what_is_leased() {
    let (fleet, limit) = holding(|node| node).await;
    fleet.nodes[0].store().set(Way::Closed);
    let error = fleet.nodes[0].close(Duration::from_secs(1)).await.expect_err("nobody there");
    assert!(error.to_string().starts_with("1 keys owe"), "{error}");
    fleet.nodes[0].store().set(Way::Open);
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("now it is there");
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 1_000 - 120);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_even_sent_back_is_not_lost() {
    let (fleet, limit) = holding(|node| node.terms_of("deltas", |usual| usual.mode(Mode::Deltas))).await;
    let deltas = Limit::per_hour(1_000).build("deltas").expect("valid");
    assert!(fleet.take(0, &deltas, 1).await.is_allowed());
    fleet.nodes[0].store().set(Way::Hanging);
    let error = fleet.nodes[0].close(Duration::from_secs(1)).await.expect_err("nobody there");
    assert!(error.to_string().starts_with("2 keys owe"), "{error}");
    fleet.nodes[0].store().set(Way::Open);
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("now it is there");
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 1_000 - 120);
}

#[tokio::test]
async fn a_smaller_limit_passes_no_more_than_it_has() {
    let (fleet, limit) = holding(|node| node).await;
    let smaller = Limit::per_hour(8).build("api").expect("valid");
    let passed = fleet.passed(0, &smaller, 1_000).await;
    assert!(passed <= 8, "{passed}");
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the centre is there");
    assert!(fleet.at_centre(&limit).await.remaining() > 0, "the rest went back");
}

#[tokio::test]
async fn nobody_asks_a_centre_again_that_has_just_taken_long_not_to_answer() {
    let (fleet, limit) = (leasing(1), Limit::per_hour(1_000).build("api").expect("valid"));
    fleet.nodes[0].store().set(Way::Slow);
    for _ in 0..5 {
        assert!(fleet.take(0, &limit, 1).await.is_denied());
    }
    assert_eq!(fleet.nodes[0].store().calls(), 1);
}

#[tokio::test]
async fn a_stand_in_is_not_the_centre() {
    let (fleet, limit) =
        holding(|node| node.when_stale(WhenStale::Deny).terms_of("deltas", |usual| usual.mode(Mode::Deltas)))
            .await;
    let deltas = Limit::per_hour(1_000).build("deltas").expect("valid");
    assert!(fleet.take(0, &deltas, 1).await.is_allowed());
    fleet.nodes[0].store().set(Way::StoodIn);
    for _ in 0..12 {
        let _ = fleet.nodes[0].sync_now().await;
        fleet.advance(Duration::from_millis(100));
    }
    assert!(fleet.take(0, &deltas, 1).await.is_denied(), "silent for more than a second");
    fleet.nodes[0].store().set(Way::Open);
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("now it is there");
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 1_000 - 120, "everything went back");
}

#[tokio::test]
async fn a_new_key_that_many_want_takes_few_trips() {
    let (fleet, limit) = (leasing(1), Limit::per_hour(1_000).build("api").expect("valid"));
    assert_eq!(fleet.passed(0, &limit, 100).await, 100);
    let calls = fleet.nodes[0].store().calls();
    assert!(calls <= 10, "{calls} calls for a hundred");
}

#[tokio::test]
async fn to_look_takes_nothing() {
    let (fleet, limit) = (leasing(2), Limit::per_hour(10).build("api").expect("valid"));
    for node in [0, 1, 0] {
        assert_eq!(fleet.take(node, &limit, 0).await.remaining(), 10, "node {node}");
    }
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 10);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// All in all never more than C + L·t, whatever happens on the way; and in any shorter time not more than that and
    /// what can be leased at once.
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
            let begin = fleet.now();
            let mut passed: Vec<(f64, f64)> = Vec::new();
            for _ in 0..600 {
                fleet.advance(Duration::from_millis(random.below(30)));
                for (node, synced) in fleet.nodes.iter().enumerate() {
                    match random.below(12) {
                        0 => drop(synced.sync_now().await),
                        1 if random.once_in(8) => synced.store().set(Way::Closed),
                        1 if random.once_in(8) => synced.store().set(Way::ThereOnly),
                        1 => synced.store().set(Way::Open),
                        _ => {}
                    }
                    for _ in 0..random.below(pressure) {
                        let cost = if random.once_in(5) { 2.min(burst) } else { 1 };
                        let granted = fleet.take(node, &limit, cost).await.granted();
                        passed.push((fleet.now().since(begin).as_secs_f64(), f64::from(granted)));
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
async fn nearly_all_of_the_limit_is_used() {
    let limit = Limit::per_second(1_000).build("api").expect("valid");
    for pressure in [10, 30] {
        let fleet = leasing(10);
        let mut passed = 0;
        for milli in 0..10_000 {
            fleet.advance(Duration::from_millis(1));
            for node in 0..10 {
                if milli % 100 == node * 10 {
                    fleet.nodes[node].sync_now().await.expect("the centre answers");
                }
                if milli >= 2_000 && (milli + node) % 100 < pressure {
                    passed += fleet.passed(node, &limit, 1).await;
                }
            }
        }
        assert!((7_600..=9_000).contains(&passed), "{passed} in eight seconds, at pressure {pressure}");
    }
}
