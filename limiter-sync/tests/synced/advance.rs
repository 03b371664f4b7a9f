//! Tokens in advance: while the central store has some, a node whose share is used up asks it instead of denying.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use futures_util::future::join_all;
use proptest::prelude::*;
use tollgate_conformance::Seed;
use tollgate_core::store::Store;
use tollgate_core::{Limit, LimitBuilder};

use crate::fleet::{Fleet, KEY, LinkState};

/// Returns a fleet whose nodes know of each other, each having spent `each` tokens.
async fn acquainted(nodes: usize, limit: &Limit, each: usize) -> Fleet {
    let fleet = Fleet::of(nodes, |node| node);
    for node in 0..nodes {
        assert_eq!(fleet.passed(node, limit, each).await, each);
    }
    fleet.sync().await;
    fleet
}

fn calls(fleet: &Fleet) -> Vec<usize> {
    fleet.nodes.iter().map(|node| node.store().calls()).collect()
}

async fn debited(fleet: &Fleet, limit: &Limit) -> u32 {
    let central = fleet.peek_central(limit).await;
    limit.capacity() - central.remaining() + u32::try_from(central.debt()).expect("small")
}

/// Limits whose balance is a count for as long as a test takes.
fn slow(kind: usize, count: u32) -> Limit {
    let kinds: [fn(LimitBuilder) -> LimitBuilder; 5] = [
        |limit| limit,
        |limit| limit.refill_by_interval(),
        |limit| limit.fixed_window(),
        |limit| limit.sliding_window(),
        |limit| limit.sliding_counter(3),
    ];
    kinds[kind](Limit::per_day(count)).build("slow").expect("valid")
}

#[tokio::test]
async fn a_burst_on_a_quiet_node_passes_at_once() {
    let limit = Limit::per_second(10).burst(100).build("api").expect("valid");
    let fleet = Fleet::of(10, |node| node);
    // Nine nodes use a fifth of the rate, one after the other.
    for step in 0..100 {
        fleet.advance(Duration::from_millis(50));
        for node in 0..9 {
            if step % 9 == node && step % 10 == 0 {
                assert_eq!(fleet.passed(node, &limit, 1).await, 1);
            }
        }
        if step % 2 == 0 {
            for node in &fleet.nodes {
                node.sync_now().await.expect("the central store answers");
            }
        }
    }
    assert_eq!(fleet.passed(9, &limit, 1).await, 1);
    fleet.sync().await;
    assert_eq!(fleet.passed(9, &limit, 50).await, 50);
    fleet.sync().await;
    assert!(fleet.peek_central(&limit).await.remaining() <= 50, "all of it was debited");
}

#[tokio::test]
async fn a_key_that_is_known_to_be_empty_costs_no_trip() {
    for kind in 0..5 {
        let limit = slow(kind, 40);
        let fleet = acquainted(2, &limit, 4).await;
        for node in [0, 1] {
            fleet.passed(node, &limit, 100).await;
        }
        fleet.sync().await;
        let before = calls(&fleet);
        assert_eq!(
            fleet.passed(0, &limit, 1_000).await + fleet.passed(1, &limit, 1_000).await,
            0,
            "{limit:?}"
        );
        assert_eq!(calls(&fleet), before, "{limit:?}");
        assert!(debited(&fleet, &limit).await >= 40, "{limit:?}: but all of it was spent");
    }
}

#[tokio::test]
async fn all_callers_that_wait_share_one_call() {
    let limit = slow(0, 1_000_000);
    let fleet = acquainted(2, &limit, 100).await;
    fleet.nodes[0].store().set(LinkState::LateAnswer);
    let before = calls(&fleet)[0];
    // Together more than a share, which some of them still get.
    let charge = limit.charge(KEY).with_cost(40_000);
    let checks = (0..20).map(|_| fleet.nodes[0].decide_one(&charge, &fleet.clock));
    let decisions = join_all(checks).await;
    assert!(decisions.into_iter().all(|decision| decision.expect("decided").is_allowed()));
    let made = calls(&fleet)[0] - before;
    assert_eq!(made, 2, "one for the first, and one for all that waited meanwhile");
}

/// A share is used up, a caller asks for tokens, and another one waits for them and goes away.
async fn left_over(fleet: &Fleet, limit: &Limit) {
    fleet.nodes[0].store().set(LinkState::LateAnswer);
    let spent = limit.capacity() / 2;
    let charge = limit.charge(KEY).with_cost(spent);
    let mut context = Context::from_waker(Waker::noop());
    let mut first = pin!(fleet.nodes[0].decide_one(&charge, &fleet.clock));
    assert!(first.as_mut().poll(&mut context).is_pending(), "more than its share");
    let small = limit.charge(KEY).with_cost(limit.capacity() / 8);
    let mut second = Box::pin(fleet.nodes[0].decide_one(&small, &fleet.clock));
    let mut third = Box::pin(fleet.nodes[0].decide_one(&small, &fleet.clock));
    assert!(
        second.as_mut().poll(&mut context).is_pending() && third.as_mut().poll(&mut context).is_pending()
    );
    assert!(first.await.expect("decided").is_allowed());
    // It asks for both.
    assert!(second.as_mut().poll(&mut context).is_pending());
    drop(third);
    assert!(second.await.expect("decided").is_allowed());
    fleet.nodes[0].store().set(LinkState::Up);
}

#[tokio::test]
async fn tokens_that_nobody_spends_are_returned() {
    for kind in 0..5 {
        let limit = slow(kind, 8_000);
        let fleet = acquainted(2, &limit, 100).await;
        left_over(&fleet, &limit).await;
        assert_eq!(debited(&fleet, &limit).await, 200 + 4_000 + 2_000, "{limit:?}");
        fleet.sync().await;
        assert_eq!(debited(&fleet, &limit).await, 200 + 4_000 + 1_000, "{limit:?}");
        assert_eq!(fleet.nodes[0].stats().pending, 0);
    }
}

#[tokio::test]
async fn tokens_in_advance_end_with_their_window() {
    let minutes: [fn(LimitBuilder) -> LimitBuilder; 3] =
        [|limit| limit.fixed_window(), |limit| limit.sliding_window(), |limit| limit.refill_by_interval()];
    for kind in minutes {
        let limit = kind(Limit::per_minute(8_000)).build("api").expect("valid");
        let fleet = acquainted(2, &limit, 100).await;
        left_over(&fleet, &limit).await;
        // All windows end, and the next ones, so that nothing slides.
        fleet.advance(Duration::from_secs(120));
        fleet.sync().await;
        assert_eq!(debited(&fleet, &limit).await, 0, "{limit:?}");
        let passed: u32 = {
            let both = async |node| fleet.take(node, &limit, 4_000).await.granted();
            both(0).await + both(0).await + both(0).await
        };
        assert_eq!(passed, 8_000, "{limit:?}: no more than a window");
        fleet.sync().await;
        assert_eq!(debited(&fleet, &limit).await, 8_000, "{limit:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// What the central store has debited in the end is what was granted, also if it took tokens in advance for calls
    /// whose answer was lost, or whose caller went away before it.
    #[test]
    fn every_token_in_advance_is_granted_or_returned(
        seed in any::<u64>(), kind in 0..5_usize, nodes in 2..4_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (limit, mut random) = (slow(kind, 20_000), Seed::new(seed));
            let fleet = acquainted(nodes, &limit, 10).await;
            let (mut granted, start) = (10 * u32::try_from(nodes).expect("small"), fleet.now());
            for _ in 0..60 {
                let node = &fleet.nodes[usize::try_from(random.below(nodes as u64)).expect("small")];
                let faults = [LinkState::LateAnswer, LinkState::Down, LinkState::LostAnswer];
                let link = if random.once_in(2) { LinkState::Up } else { *random.pick(&faults) };
                node.store().set(link);
                match random.below(4) {
                    0 => drop(node.sync_now().await),
                    1 => fleet.advance(Duration::from_millis(random.below(300))),
                    _ => {
                        let cost = u32::try_from(random.below(1_500)).expect("small");
                        let charge = limit.charge(KEY).with_cost(cost);
                        let mut checks = Vec::new();
                        for _ in 0..=random.below(3) {
                            let mut check = Box::pin(node.decide_one(&charge, &fleet.clock));
                            let polled = check.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                            match polled {
                                std::task::Poll::Ready(decision) => granted += decision.expect("decided").granted(),
                                std::task::Poll::Pending => checks.push(check),
                            }
                        }
                        for check in checks {
                            if !random.once_in(3) {
                                granted += check.await.expect("decided").granted();
                            }
                        }
                    }
                }
            }
            for node in &fleet.nodes {
                node.store().set(LinkState::Up);
            }
            fleet.sync().await;
            fleet.sync().await;
            // A token of the bucket takes 4.3 s.
            let refilled = u32::try_from(fleet.now().since(start).as_secs() / 4).expect("seconds") + 1;
            let debited = debited(&fleet, &limit).await;
            let refilled = if kind == 0 { refilled } else { 0 };
            assert!(debited <= granted && debited + refilled >= granted, "{debited} debited, {granted} granted");
        });
    }
}

/// Nodes that use less than a limit together. The limit takes at least five intervals to fill.
#[derive(Clone, Debug)]
struct Traffic {
    nodes: usize,
    rate: u32,
    burst: u32,
    seed: u64,
}

fn traffic() -> impl Strategy<Value = Traffic> {
    let intervals = 10..100_u32;
    (2..8_usize, 10..400_u32, intervals, any::<u64>()).prop_map(|(nodes, rate, intervals, seed)| {
        let burst = (rate * intervals / 10).max(10);
        Traffic { nodes, rate, burst, seed }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Nothing is denied that would leave a central bucket an eighth of its capacity, however the demand is
    /// distributed over nodes and time. With less left, tokens are scarce: what nodes do not know of each other yet
    /// may be all of it, and once a check was denied, nodes keep to their shares for some rounds. The same is true of
    /// a limit that fills in a few intervals.
    #[test]
    fn nothing_is_denied_while_there_is_plenty(traffic in traffic()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let Traffic { nodes, rate, burst, seed } = traffic;
        let limit = Limit::per_second(rate).burst(burst).build("api").expect("valid");
        let (passed, denied) = runtime.block_on(async {
            let (fleet, mut random) = (Fleet::of(nodes, |node| node), Seed::new(seed));
            let (mut left, mut passed, mut denied) = (f64::from(burst), 0, 0);
            let mut next: Vec<u64> = (0..nodes).map(|_| random.below(100)).collect();
            let mut busy = 0;
            for now in (0..6_000_u64).step_by(5) {
                fleet.advance(Duration::from_millis(5));
                left = (left + f64::from(rate) / 200.0).min(f64::from(burst));
                for (node, next) in next.iter_mut().enumerate() {
                    if now >= *next {
                        fleet.nodes[node].sync_now().await.expect("the central store answers");
                        *next = now + 90 + random.below(21);
                    }
                }
                // Now and then another node is busy, and there are bursts and pauses.
                if random.once_in(40) {
                    busy = usize::try_from(random.below(nodes as u64)).expect("small");
                }
                let requests = if random.once_in(20) { random.below(u64::from(burst)) } else { random.below(3) };
                for _ in 0..requests {
                    let cost = 1 + u32::try_from(random.below(3)).expect("small");
                    if left - f64::from(cost) < f64::from(burst) / 8.0 {
                        break;
                    }
                    let node = if random.once_in(4) { random.below(nodes as u64) } else { busy as u64 };
                    let node = usize::try_from(node).expect("small");
                    let allowed = fleet.take(node, &limit, cost).await.is_allowed();
                    left -= f64::from(cost);
                    passed += u32::from(allowed);
                    denied += u32::from(!allowed);
                }
            }
            (passed, denied)
        });
        prop_assert!(passed > 0);
        prop_assert_eq!(denied, 0, "{} passed", passed);
    }
}
