//! Converge, diverge, reconverge: three nodes that share 4 per second.

use std::time::Duration;

use tollgate_core::Limit;

use crate::fleet::Fleet;

fn four_per_second() -> Limit {
    Limit::per_second(4).build("api").expect("valid")
}

#[tokio::test]
async fn after_a_sync_round_all_nodes_know_what_was_spent() {
    let (fleet, limit) = (Fleet::of(3, |builder| builder), four_per_second());
    for (node, requests) in [(0, 2), (1, 1), (2, 1)] {
        assert_eq!(fleet.passed(node, &limit, requests).await, requests);
    }
    fleet.sync().await;
    for node in 0..3 {
        assert_eq!(fleet.take(node, &limit, 0).await.remaining(), 0, "node {node}");
        assert_eq!(fleet.passed(node, &limit, 4).await, 0, "node {node}");
    }
}

#[tokio::test]
async fn what_passed_beyond_the_limit_is_repaid() {
    let (fleet, limit) = (Fleet::of(3, |builder| builder), four_per_second());
    for node in 0..3 {
        assert_eq!(fleet.passed(node, &limit, 6).await, 4, "the nodes do not know of each other yet");
    }
    fleet.sync().await;
    assert_eq!(fleet.peek_central(&limit).await.debt(), 8);
    for node in 0..3 {
        assert_eq!(fleet.take(node, &limit, 0).await.debt(), 8, "node {node}");
    }
    // Nothing passes for two seconds, with or without sync rounds.
    let step = Duration::from_millis(50);
    for moment in 0..40 {
        for node in 0..3 {
            assert_eq!(fleet.passed(node, &limit, 2).await, 0, "node {node} after {:?}", moment * step);
        }
        fleet.advance(step);
        if moment % 4 == 0 {
            fleet.sync().await;
        }
    }
    assert_eq!(fleet.peek_central(&limit).await.debt(), 0, "repaid after two seconds");
    // Then 4 per second again, on all nodes together.
    let mut passed = 0;
    for _ in 0..400 {
        fleet.advance(step);
        for node in 0..3 {
            passed += fleet.passed(node, &limit, 1).await;
        }
        fleet.sync().await;
    }
    let debt = usize::try_from(fleet.peek_central(&limit).await.debt()).expect("small");
    assert!((76..=80 + debt).contains(&passed), "{passed} in 20 s, {debt} of them as debt");
}
