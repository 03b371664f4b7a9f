//! Nothing is lost, and nothing is booked twice.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Action, Limit, LimitBuilder, Limiter};

use crate::fleet::{BAD, Fleet, WHO, Way};

/// Limits that refill so slowly that the centre's balance is a count.
fn slow(kind: usize) -> Limit {
    let kinds: [fn(LimitBuilder) -> LimitBuilder; 4] = [
        |limit| limit,
        |limit| limit.refill_by_interval(),
        |limit| limit.fixed_window(),
        |limit| limit.sliding_counter(3),
    ];
    kinds[kind](Limit::per_day(1_000_000)).build("slow").expect("valid")
}

/// What the centre counts, against what the nodes granted.
async fn booked(fleet: &Fleet, limit: &Limit) -> u32 {
    limit.capacity() - fleet.at_centre(limit).await.remaining()
}

async fn settle(fleet: &Fleet) {
    for node in &fleet.nodes {
        node.store().set(Way::Open);
    }
    fleet.exchange().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_on_the_way(seed in any::<u64>(), kind in 0..4_usize, nodes in 1..5_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (fleet, limit, mut random) = (Fleet::of(nodes, |node| node), slow(kind), Seed::new(seed));
            let (mut granted, begin) = (0, fleet.now());
            for _ in 0..300 {
                let node = &fleet.nodes[usize::try_from(random.below(nodes as u64)).expect("small")];
                match random.below(10) {
                    0 => node.store().set(Way::Closed),
                    1 => node.store().set(Way::ThereOnly),
                    2 => node.store().set(Way::Open),
                    3..=5 => drop(node.sync_now().await),
                    6 => fleet.advance(Duration::from_millis(random.below(100))),
                    _ => {
                        let cost = u32::try_from(random.below(9)).expect("small");
                        let charge = limit.charge(WHO).with_cost(cost);
                        granted += node.decide_one(&charge, &fleet.now()).await.expect("here").granted();
                    }
                }
            }
            settle(&fleet).await;
            // A bucket that drips has dripped a little meanwhile: a token takes 86.4 ms.
            let dripped = u32::try_from(fleet.now().since(begin).as_micros() / 86_400).expect("seconds") + 1;
            let dripped = if kind == 0 { dripped } else { 0 };
            let booked = booked(&fleet, &limit).await;
            assert!(booked <= granted && booked + dripped >= granted, "{booked} of {granted}");
            for node in &fleet.nodes {
                assert_eq!(node.insight().owing, 0);
            }
        });
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_is_not_booked_again() {
    let (fleet, limit) = (Fleet::of(1, |node| node), slow(2));
    assert_eq!(fleet.take(0, &limit, 7).await.granted(), 7);
    fleet.nodes[0].store().set(Way::ThereOnly);
    for _ in 0..3 {
        assert!(fleet.nodes[0].sync_now().await.is_err());
    }
    assert_eq!(booked(&fleet, &limit).await, 7, "it arrived, and once");
    assert_eq!(fleet.take(0, &limit, 5).await.granted(), 5);
    settle(&fleet).await;
    assert_eq!(booked(&fleet, &limit).await, 12);
}

#[tokio::test]
async fn a_window_that_rolls_over_while_the_centre_is_away() {
    let limit = Limit::per_minute(100).sliding_window().build("api").expect("valid");
    let fleet = Fleet::of(1, |node| node);
    // The window of a minute that is half over.
    fleet.advance(Duration::from_secs(30));
    fleet.nodes[0].store().set(Way::Closed);
    assert_eq!(fleet.take(0, &limit, 40).await.granted(), 40);
    fleet.advance(Duration::from_secs(60));
    assert_eq!(fleet.take(0, &limit, 10).await.granted(), 10);
    let here = fleet.take(0, &limit, 0).await;
    settle(&fleet).await;
    assert_eq!(fleet.at_centre(&limit).await, here, "each in its own window");
}

#[tokio::test]
async fn a_limit_that_changes_while_something_is_owed() {
    let (fleet, limit) = (Fleet::of(1, |node| node), slow(2));
    assert_eq!(fleet.take(0, &limit, 40).await.granted(), 40);
    let larger = Limit::per_day(2_000_000).fixed_window().build("slow").expect("valid");
    assert_eq!(fleet.take(0, &larger, 2).await.remaining(), 2_000_000 - 42, "the count is kept");
    settle(&fleet).await;
    assert_eq!(booked(&fleet, &larger).await, 42);
}

#[tokio::test]
async fn more_keys_than_there_is_room_for_are_decided_at_the_centre() {
    let (fleet, limit) = (Fleet::of(1, |node| node.keys(64)), slow(2));
    let node = &fleet.nodes[0];
    for key in 0..1_000 {
        let key = format!("key {key}");
        let charge = limit.charge(&key).with_cost(3);
        assert!(node.decide_one(&charge, &fleet.now()).await.expect("decided").is_allowed());
    }
    let insight = node.insight();
    assert!(insight.keys <= 64 && insight.at_centre >= 900, "{insight:?}");
    settle(&fleet).await;
    for key in 0..1_000 {
        let key = format!("key {key}");
        let seen =
            fleet.centre.decide_one(&limit.charge(&key).with_cost(0), &fleet.now()).await.expect("memory");
        assert_eq!(seen.remaining(), 1_000_000 - 3, "{key}");
    }
    // What has been told makes room for others.
    let late = limit.charge("late");
    assert!(node.decide_one(&late, &fleet.now()).await.expect("decided").is_allowed());
    assert_eq!(node.insight().at_centre, insight.at_centre, "decided here");
}

#[tokio::test]
async fn closing_books_everything() {
    let (fleet, limit) = (Fleet::of(1, |node| node), slow(2));
    for key in 0..700 {
        let key = format!("key {key}");
        let charge = limit.charge(&key).with_cost(2);
        assert!(fleet.nodes[0].decide_one(&charge, &fleet.now()).await.expect("here").is_allowed());
    }
    fleet.nodes[0].close(Duration::from_secs(5)).await.expect("the centre is there");
    let seen =
        fleet.centre.decide_one(&limit.charge("key 699").with_cost(0), &fleet.now()).await.expect("memory");
    assert_eq!(seen.remaining(), 1_000_000 - 2);
    // From now on the centre decides itself.
    assert!(fleet.take(0, &limit, 4).await.is_allowed());
    assert_eq!(booked(&fleet, &limit).await, 4);
}

#[tokio::test(start_paused = true)]
async fn closing_without_a_centre_says_so_and_loses_nothing() {
    let (fleet, limit) = (Fleet::of(1, |node| node), slow(2));
    assert!(fleet.take(0, &limit, 4).await.is_allowed());
    fleet.nodes[0].store().set(Way::Closed);
    let error = fleet.nodes[0].close(Duration::from_secs(1)).await.expect_err("nobody there");
    assert!(error.to_string().starts_with("1 keys owe"), "{error}");
    fleet.nodes[0].store().set(Way::Open);
    fleet.nodes[0].close(Duration::from_secs(1)).await.expect("now it is there");
    assert_eq!(booked(&fleet, &limit).await, 4);
}

#[tokio::test]
async fn an_instance_that_is_dropped_books_what_it_owes() {
    let (mut fleet, limit) = (Fleet::of(1, |node| node), slow(2));
    assert!(fleet.take(0, &limit, 9).await.is_allowed());
    drop(fleet.nodes.pop());
    // The task that does it has no other way to say that it is done.
    while booked(&fleet, &limit).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(booked(&fleet, &limit).await, 9);
}

#[tokio::test]
async fn debits_and_refunds_arrive_as_they_were_meant() {
    let (fleet, limit) = (Fleet::of(2, |node| node), slow(2));
    let node = &fleet.nodes[0];
    for (cost, action) in [
        (50, Action::Debit { at: None }),
        (20, Action::Refund { at: None }),
        (5, Action::TakeUpTo),
        (7, Action::Debit { at: Some(fleet.now() - Duration::from_secs(1)) }),
    ] {
        let charge = limit.charge(WHO).with_cost(cost).with_action(action);
        assert!(node.decide_one(&charge, &fleet.now()).await.expect("here").is_allowed());
    }
    fleet.exchange().await;
    assert_eq!(booked(&fleet, &limit).await, 50 - 20 + 5 + 7);
    let forget = limit.charge(WHO).with_action(Action::Reset);
    assert!(node.decide_one(&forget, &fleet.now()).await.expect("the centre").is_allowed());
    assert_eq!(booked(&fleet, &limit).await, 0);
    assert_eq!(fleet.take(0, &limit, 0).await.remaining(), limit.capacity());
}

#[tokio::test]
async fn what_is_granted_while_somebody_forgets_is_told_all_the_same() {
    let (fleet, limit) = (Fleet::of(1, |node| node), slow(2));
    assert!(fleet.take(0, &limit, 9).await.is_allowed());
    fleet.exchange().await;
    fleet.nodes[0].store().set(Way::Late);
    let (charge, clock) = (limit.charge(WHO).with_action(Action::Reset), fleet.clock.clone());
    let mut forget = std::pin::pin!(fleet.nodes[0].decide_one(&charge, &clock));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(forget.as_mut().poll(&mut context).is_pending(), "done, but not answered");
    assert!(fleet.take(0, &limit, 4).await.is_allowed());
    assert!(forget.await.expect("the centre answers").is_allowed());
    assert_eq!(fleet.take(0, &limit, 0).await.remaining(), limit.capacity() - 4);
    fleet.exchange().await;
    assert_eq!(booked(&fleet, &limit).await, 4);
}

#[tokio::test]
async fn refunds_of_a_window_that_is_over_take_nothing_off_what_is_owed() {
    let (fleet, limit) = (Fleet::of(1, |node| node), Limit::per_minute(100).fixed_window());
    let limit = limit.build("api").expect("valid");
    let long_ago = fleet.now();
    fleet.advance(Duration::from_secs(60));
    for milli in 0..9 {
        assert!(fleet.take(0, &limit, 5).await.is_allowed());
        let at = Some(long_ago + Duration::from_millis(milli));
        let back = limit.charge(WHO).with_cost(5).with_action(Action::Refund { at });
        assert!(fleet.nodes[0].decide_one(&back, &fleet.now()).await.expect("here").is_allowed());
    }
    settle(&fleet).await;
    assert_eq!(booked(&fleet, &limit).await, 45);
    assert_eq!(fleet.take(0, &limit, 0).await.remaining(), 55);
}

#[tokio::test]
async fn a_key_that_is_refused_does_not_hold_up_others_that_are_in_doubt() {
    let (fleet, limit) = (Fleet::of(1, |node| node), slow(2));
    let (node, good) = (&fleet.nodes[0], ["one", "two", "three"]);
    for key in good.into_iter().chain([BAD]) {
        let charge = limit.charge(key).with_cost(5);
        assert!(node.decide_one(&charge, &fleet.now()).await.expect("here").is_allowed());
    }
    node.store().set(Way::Vanishing);
    assert!(node.sync_now().await.is_err());
    node.store().set(Way::RefusedIfBad);
    for _ in 0..20 {
        let _ = node.sync_now().await;
    }
    for key in good {
        let seen =
            fleet.centre.decide_one(&limit.charge(key).with_cost(0), &fleet.now()).await.expect("memory");
        assert_eq!(seen.remaining(), limit.capacity() - 5, "{key}");
    }
    assert_eq!(node.insight().owing, 1, "and the bad one is kept");
}

#[tokio::test]
async fn forgetting_reaches_the_centre_by_every_way() {
    let (mut fleet, limit) = (Fleet::of(2, |node| node), slow(2));
    assert!(fleet.take(0, &limit, 9).await.is_allowed());
    fleet.exchange().await;
    // A limiter names what it must not lose.
    let limiter = Limiter::with_clock(fleet.nodes.remove(0), fleet.clock.clone());
    limiter.reset(&limit, WHO).await.expect("the centre answers");
    limiter.store().sync_now().await.expect("the centre answers");
    assert_eq!(booked(&fleet, &limit).await, 0);
}

#[tokio::test]
async fn what_is_promised_for_later_is_promised_by_the_centre() {
    let fleet = Fleet::of(2, |node| node);
    let limit = Limit::per_second(10).burst(1).build("api").expect("valid");
    let mut starts = Vec::new();
    for node in [0, 1, 0, 1] {
        let charge = limit.charge(WHO).with_max_wait(Duration::from_secs(5));
        let told = fleet.nodes[node].decide_one(&charge, &fleet.now()).await.expect("the centre answers");
        starts.push(told.start_after().as_millis());
    }
    assert_eq!(starts, [0, 100, 200, 300], "one after the other, whomever they asked");
}

#[tokio::test]
async fn a_refund_counts_although_nothing_is_known_here_to_give_back() {
    let (fleet, limit) = (Fleet::of(2, |node| node), slow(2));
    assert!(fleet.take(0, &limit, 10).await.is_allowed());
    fleet.exchange().await;
    let back = limit.charge(WHO).with_cost(4).with_action(Action::Refund { at: None });
    assert!(fleet.nodes[1].decide_one(&back, &fleet.now()).await.expect("here").is_allowed());
    fleet.exchange().await;
    assert_eq!(booked(&fleet, &limit).await, 6);
}

#[tokio::test]
async fn what_may_have_been_booked_keeps_its_name() {
    let (fleet, limit) = (Fleet::of(1, |node| node), slow(2));
    let node = &fleet.nodes[0];
    for key in ["one", "two", "three"] {
        let charge = limit.charge(key).with_cost(5);
        assert!(node.decide_one(&charge, &fleet.now()).await.expect("here").is_allowed());
    }
    // Booked, but nobody knows; then refused, as if it were for one of the keys.
    for way in [Way::ThereOnly, Way::Refused, Way::Refused, Way::Open] {
        node.store().set(way);
        let _ = node.sync_now().await;
    }
    for key in ["one", "two", "three"] {
        let seen =
            fleet.centre.decide_one(&limit.charge(key).with_cost(0), &fleet.now()).await.expect("memory");
        assert_eq!(seen.remaining(), limit.capacity() - 5, "{key}");
    }
}
