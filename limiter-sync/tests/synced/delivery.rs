//! Delivery of deltas: none is lost, and none is applied twice.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Action, Limit, LimitBuilder, Limiter, Request};
use tollgate_limiter_sync::SyncPolicy;

use crate::fleet::{BAD, Fleet, KEY, LinkState};

/// Returns a limit that refills so slowly that the central balance is a count.
fn slow(kind: usize) -> Limit {
    let kinds: [fn(LimitBuilder) -> LimitBuilder; 4] = [
        |limit| limit,
        |limit| limit.refill_by_interval(),
        |limit| limit.fixed_window(),
        |limit| limit.sliding_counter(3),
    ];
    kinds[kind](Limit::per_day(1_000_000)).build("slow").expect("valid")
}

/// Returns how much the central store has debited.
async fn debited(fleet: &Fleet, limit: &Limit) -> u32 {
    limit.capacity() - fleet.peek_central(limit).await.remaining()
}

/// Restores all links, and synchronizes all nodes.
async fn reconnect(fleet: &Fleet) {
    for node in &fleet.nodes {
        node.store().set(LinkState::Up);
    }
    fleet.sync().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_delta_is_applied_once_whatever_fails(seed in any::<u64>(), kind in 0..4_usize, nodes in 1..5_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (fleet, limit, mut random) = (Fleet::of(nodes, |builder| builder), slow(kind), Seed::new(seed));
            let (mut granted, start) = (0, fleet.now());
            for _ in 0..300 {
                let node = &fleet.nodes[usize::try_from(random.below(nodes as u64)).expect("small")];
                match random.below(10) {
                    0 => node.store().set(LinkState::Down),
                    1 => node.store().set(LinkState::LostAnswer),
                    2 => node.store().set(LinkState::Up),
                    3..=5 => drop(node.sync_now().await),
                    6 => fleet.advance(Duration::from_millis(random.below(100))),
                    _ => {
                        let cost = u32::try_from(random.below(9)).expect("small");
                        let charge = limit.charge(KEY).with_cost(cost);
                        granted += node.decide_one(&charge, &fleet.now()).await.expect("decided locally").granted();
                    }
                }
            }
            reconnect(&fleet).await;
            // The bucket has refilled a little in the meantime: a token takes 86.4 ms.
            let refilled = u32::try_from(fleet.now().since(start).as_micros() / 86_400).expect("seconds") + 1;
            let refilled = if kind == 0 { refilled } else { 0 };
            let debited = debited(&fleet, &limit).await;
            assert!(debited <= granted && debited + refilled >= granted, "{debited} of {granted}");
            for node in &fleet.nodes {
                assert_eq!(node.stats().pending, 0);
            }
        });
    }
}

#[tokio::test]
async fn deltas_whose_answer_was_lost_are_not_applied_again() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    assert_eq!(fleet.take(0, &limit, 7).await.granted(), 7);
    fleet.nodes[0].store().set(LinkState::LostAnswer);
    for _ in 0..3 {
        assert!(fleet.nodes[0].sync_now().await.is_err());
    }
    assert_eq!(debited(&fleet, &limit).await, 7, "applied once");
    assert_eq!(fleet.take(0, &limit, 5).await.granted(), 5);
    reconnect(&fleet).await;
    assert_eq!(debited(&fleet, &limit).await, 12);
}

#[tokio::test]
async fn a_window_ends_while_the_central_store_is_down() {
    let limit = Limit::per_minute(100).sliding_window().build("api").expect("valid");
    let patient = |policy: SyncPolicy| policy.stale_after(Duration::from_secs(3_600));
    let fleet = Fleet::of(1, |builder| builder.default_policy(patient));
    // In the middle of a window.
    fleet.advance(Duration::from_secs(30));
    fleet.nodes[0].store().set(LinkState::Down);
    assert_eq!(fleet.take(0, &limit, 40).await.granted(), 40);
    fleet.advance(Duration::from_secs(60));
    assert_eq!(fleet.take(0, &limit, 10).await.granted(), 10);
    let local = fleet.take(0, &limit, 0).await;
    reconnect(&fleet).await;
    assert_eq!(fleet.peek_central(&limit).await, local, "each delta in its own window");
}

#[tokio::test]
async fn a_limit_changes_while_deltas_are_pending() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    assert_eq!(fleet.take(0, &limit, 40).await.granted(), 40);
    let larger = Limit::per_day(2_000_000).fixed_window().build("slow").expect("valid");
    assert_eq!(fleet.take(0, &larger, 2).await.remaining(), 2_000_000 - 42, "the count is kept");
    reconnect(&fleet).await;
    assert_eq!(debited(&fleet, &larger).await, 42);
}

#[tokio::test]
async fn keys_without_room_are_decided_centrally() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder.max_keys(64)), slow(2));
    let node = &fleet.nodes[0];
    for key in 0..1_000 {
        let key = format!("key {key}");
        let charge = limit.charge(&key).with_cost(3);
        assert!(node.decide_one(&charge, &fleet.now()).await.expect("decided").is_allowed());
    }
    let stats = node.stats();
    assert!(stats.keys <= 64 && stats.decided_centrally >= 900, "{stats:?}");
    reconnect(&fleet).await;
    for key in 0..1_000 {
        let key = format!("key {key}");
        let seen = fleet
            .central
            .decide_one(&limit.charge(&key).with_cost(0), &fleet.now())
            .await
            .expect("the memory store answers");
        assert_eq!(seen.remaining(), 1_000_000 - 3, "{key}");
    }
    // Entries without pending deltas are evicted.
    let late = limit.charge("late");
    assert!(node.decide_one(&late, &fleet.now()).await.expect("decided").is_allowed());
    assert_eq!(node.stats().decided_centrally, stats.decided_centrally, "decided locally");
}

#[tokio::test]
async fn closing_sends_everything() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    for key in 0..700 {
        let key = format!("key {key}");
        let charge = limit.charge(&key).with_cost(2);
        assert!(
            fleet.nodes[0].decide_one(&charge, &fleet.now()).await.expect("decided locally").is_allowed()
        );
    }
    fleet.nodes[0].close(Duration::from_secs(5)).await.expect("the central store answers");
    let seen = fleet
        .central
        .decide_one(&limit.charge("key 699").with_cost(0), &fleet.now())
        .await
        .expect("the memory store answers");
    assert_eq!(seen.remaining(), 1_000_000 - 2);
    // From now on the central store decides.
    assert!(fleet.take(0, &limit, 4).await.is_allowed());
    assert_eq!(debited(&fleet, &limit).await, 4);
}

#[tokio::test(start_paused = true)]
async fn closing_fails_without_the_central_store_and_loses_nothing() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    assert!(fleet.take(0, &limit, 4).await.is_allowed());
    fleet.nodes[0].store().set(LinkState::Down);
    let error = fleet.nodes[0].close(Duration::from_secs(1)).await.expect_err("the central store is down");
    assert!(error.to_string().contains("tokens: 1;"), "{error}");
    fleet.nodes[0].store().set(LinkState::Up);
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("the central store answers again");
    assert_eq!(debited(&fleet, &limit).await, 4);
}

#[tokio::test]
async fn a_dropped_node_sends_its_pending_deltas() {
    let (mut fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    assert!(fleet.take(0, &limit, 9).await.is_allowed());
    drop(fleet.nodes.pop());
    // The task that sends them does not signal its end.
    while debited(&fleet, &limit).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(debited(&fleet, &limit).await, 9);
}

#[tokio::test]
async fn debits_and_refunds_are_applied_as_requested() {
    let (fleet, limit) = (Fleet::of(2, |builder| builder), slow(2));
    let node = &fleet.nodes[0];
    for (cost, action) in [
        (50, Action::Debit { at: None }),
        (20, Action::Refund { at: None }),
        (5, Action::TakeUpTo),
        (7, Action::Debit { at: Some(fleet.now() - Duration::from_secs(1)) }),
    ] {
        let charge = limit.charge(KEY).with_cost(cost).with_action(action);
        assert!(node.decide_one(&charge, &fleet.now()).await.expect("decided locally").is_allowed());
    }
    fleet.sync().await;
    assert_eq!(debited(&fleet, &limit).await, 50 - 20 + 5 + 7);
    let reset = limit.charge(KEY).with_action(Action::Reset);
    assert!(node.decide_one(&reset, &fleet.now()).await.expect("decided centrally").is_allowed());
    assert_eq!(debited(&fleet, &limit).await, 0);
    assert_eq!(fleet.take(0, &limit, 0).await.remaining(), limit.capacity());
}

#[tokio::test]
async fn grants_during_a_reset_are_sent() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    assert!(fleet.take(0, &limit, 9).await.is_allowed());
    fleet.sync().await;
    fleet.nodes[0].store().set(LinkState::LateAnswer);
    let (charge, clock) = (limit.charge(KEY).with_action(Action::Reset), fleet.clock.clone());
    let mut reset = std::pin::pin!(fleet.nodes[0].decide_one(&charge, &clock));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(reset.as_mut().poll(&mut context).is_pending(), "executed, but not answered");
    assert!(fleet.take(0, &limit, 4).await.is_allowed());
    assert!(reset.await.expect("the central store answers").is_allowed());
    assert_eq!(fleet.take(0, &limit, 0).await.remaining(), limit.capacity() - 4);
    fleet.sync().await;
    assert_eq!(debited(&fleet, &limit).await, 4);
}

#[tokio::test]
async fn refunds_of_a_window_that_is_over_do_not_reduce_pending_debits() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), Limit::per_minute(100).fixed_window());
    let limit = limit.build("api").expect("valid");
    let long_ago = fleet.now();
    fleet.advance(Duration::from_secs(60));
    for milli in 0..9 {
        assert!(fleet.take(0, &limit, 5).await.is_allowed());
        let at = Some(long_ago + Duration::from_millis(milli));
        let refund = limit.charge(KEY).with_cost(5).with_action(Action::Refund { at });
        assert!(
            fleet.nodes[0].decide_one(&refund, &fleet.now()).await.expect("decided locally").is_allowed()
        );
    }
    reconnect(&fleet).await;
    assert_eq!(debited(&fleet, &limit).await, 45);
    assert_eq!(fleet.take(0, &limit, 0).await.remaining(), 55);
}

#[tokio::test]
async fn a_rejected_key_does_not_block_other_keys_in_doubt() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    let (node, good) = (&fleet.nodes[0], ["one", "two", "three"]);
    for key in good.into_iter().chain([BAD]) {
        let charge = limit.charge(key).with_cost(5);
        assert!(node.decide_one(&charge, &fleet.now()).await.expect("decided locally").is_allowed());
    }
    node.store().set(LinkState::LostRequest);
    assert!(node.sync_now().await.is_err());
    node.store().set(LinkState::RejectingBad);
    for _ in 0..20 {
        let _ = node.sync_now().await;
    }
    for key in good {
        let seen = fleet
            .central
            .decide_one(&limit.charge(key).with_cost(0), &fleet.now())
            .await
            .expect("the memory store answers");
        assert_eq!(seen.remaining(), limit.capacity() - 5, "{key}");
    }
    assert_eq!(node.stats().pending, 1, "the bad one stays pending");
}

#[tokio::test]
async fn a_reset_with_an_idempotency_key_reaches_the_central_store() {
    let (mut fleet, limit) = (Fleet::of(2, |builder| builder), slow(2));
    assert!(fleet.take(0, &limit, 9).await.is_allowed());
    fleet.sync().await;
    // A limiter sends an idempotency key with a reset.
    let limiter = Limiter::with_clock(fleet.nodes.remove(0), fleet.clock.clone());
    limiter.reset(&limit, KEY).await.expect("the central store answers");
    limiter.store().sync_now().await.expect("the central store answers");
    assert_eq!(debited(&fleet, &limit).await, 0);
}

#[tokio::test]
async fn reservations_are_made_by_the_central_store() {
    let fleet = Fleet::of(2, |builder| builder);
    let limit = Limit::per_second(10).burst(1).build("api").expect("valid");
    let mut starts = Vec::new();
    for node in [0, 1, 0, 1] {
        let charge = limit.charge(KEY).with_max_wait(Duration::from_secs(5));
        let decision =
            fleet.nodes[node].decide_one(&charge, &fleet.now()).await.expect("the central store answers");
        starts.push(decision.start_after().as_millis());
    }
    assert_eq!(starts, [0, 100, 200, 300], "one after the other, on whichever node");
}

#[tokio::test]
async fn a_refund_counts_centrally_although_the_local_replica_is_full() {
    let (fleet, limit) = (Fleet::of(2, |builder| builder), slow(2));
    assert!(fleet.take(0, &limit, 10).await.is_allowed());
    fleet.sync().await;
    let refund = limit.charge(KEY).with_cost(4).with_action(Action::Refund { at: None });
    assert!(fleet.nodes[1].decide_one(&refund, &fleet.now()).await.expect("decided locally").is_allowed());
    fleet.sync().await;
    assert_eq!(debited(&fleet, &limit).await, 6);
}

#[tokio::test]
async fn a_batch_in_doubt_keeps_its_idempotency_key() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    let node = &fleet.nodes[0];
    for key in ["one", "two", "three"] {
        let charge = limit.charge(key).with_cost(5);
        assert!(node.decide_one(&charge, &fleet.now()).await.expect("decided locally").is_allowed());
    }
    // Applied, but the answer is lost; then rejected, as if because of one of the keys.
    for state in [LinkState::LostAnswer, LinkState::Rejecting, LinkState::Rejecting, LinkState::Up] {
        node.store().set(state);
        let _ = node.sync_now().await;
    }
    for key in ["one", "two", "three"] {
        let seen = fleet
            .central
            .decide_one(&limit.charge(key).with_cost(0), &fleet.now())
            .await
            .expect("the memory store answers");
        assert_eq!(seen.remaining(), limit.capacity() - 5, "{key}");
    }
}

#[tokio::test]
async fn deltas_of_a_caller_are_applied_after_the_pending_ones() {
    let (fleet, limit) = (Fleet::of(1, |builder| builder), slow(2));
    let node = &fleet.nodes[0];
    assert!(fleet.take(0, &limit, 5).await.is_allowed());
    let deltas = [(9, Action::Debit { at: None }), (2, Action::Refund { at: None })]
        .map(|(cost, action)| limit.charge(KEY).with_cost(cost).with_action(action));
    node.store().set(LinkState::Down);
    let error = node.apply_deltas(Request::new(&deltas), fleet.now()).await.expect_err("the link is down");
    assert!(error.to_string().contains("pending deltas could not be sent first"), "{error}");
    node.store().set(LinkState::Up);
    node.sync_now().await.expect("the central store answers");
    assert_eq!(debited(&fleet, &limit).await, 5, "only the pending ones");

    assert!(fleet.take(0, &limit, 5).await.is_allowed());
    let calls = node.store().calls();
    let exports = node.apply_deltas(Request::new(&deltas), fleet.now()).await.expect("applied");
    assert_eq!((exports.len(), node.store().calls() - calls), (2, 2), "the pending deltas, then these");
    assert_eq!(debited(&fleet, &limit).await, 17);
    assert_eq!(fleet.take(0, &limit, 0).await.remaining(), limit.capacity() - 17);
    fleet.sync().await;
    assert_eq!(debited(&fleet, &limit).await, 17, "applied once");
}
