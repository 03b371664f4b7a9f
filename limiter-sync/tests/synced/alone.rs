//! Nodes without a sync task at work: checks without a runtime, on one that has ended, and on one that is driven during
//! checks only.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate_core::store::Store;
use tollgate_core::{Decision, Limit, Request, Source};
use tollgate_limiter_sync::{Mode, WhenStale};

use crate::background::{SLEEPERS, at_work, settled};
use crate::fleet::{Fleet, KEY, LinkState, NodeBuilder};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn limit() -> Limit {
    Limit::per_hour(100).build("api").expect("valid")
}

fn denying(node: NodeBuilder) -> NodeBuilder {
    node.when_stale(WhenStale::Deny)
}

/// Returns a runtime that is driven by `block_on` only.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// Decides without a runtime, and without waiting.
fn take_alone(fleet: &Fleet, node: usize, limit: &Limit) -> Decision {
    let charge = limit.charge(KEY);
    let decided = std::pin::pin!(fleet.nodes[node].decide_one(&charge, &fleet.clock));
    let Poll::Ready(Ok(decision)) = decided.poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("expected a decision without waiting")
    };
    decision
}

fn is_denied_by_policy(decision: &Decision) -> bool {
    decision.is_denied() && decision.source() == Source::Policy
}

/// Lets sync tasks run for two intervals and a half.
async fn run(fleet: &Fleet, tasks: usize) {
    settled(&fleet.clock, tasks * SLEEPERS).await;
    for _ in 0..25 {
        fleet.advance(Duration::from_millis(10));
        settled(&fleet.clock, tasks * SLEEPERS).await;
    }
}

async fn central_balance(fleet: &Fleet, limit: &Limit) -> u32 {
    fleet.peek_central(limit).await.remaining()
}

#[test]
fn the_first_check_on_a_runtime_starts_the_task() {
    let (fleet, limit) = (at_work(2, denying), limit());
    for node in 0..2 {
        assert!(take_alone(&fleet, node, &limit).is_allowed());
    }
    runtime().block_on(async {
        assert_eq!(fleet.passed(0, &limit, 100).await, 99);
        run(&fleet, 1).await;
        assert_eq!(central_balance(&fleet, &limit).await, 0);
        assert_eq!(fleet.passed(1, &limit, 100).await, 0, "it knows of the other node at once");
        run(&fleet, 2).await;
        assert_eq!(fleet.nodes[1].stats().pending, 0);
    });
}

#[test]
fn every_kind_of_call_starts_the_task() {
    let (limit, other) = (limit(), Limit::per_hour(100).build("other").expect("valid"));
    let charges = [limit.charge(KEY), other.charge(KEY)];
    for (mode, detached) in [(Mode::Deltas, false), (Mode::Deltas, true), (Mode::Lease, false)] {
        let fleet = at_work(1, |node| node.mode(mode));
        for limit in [&limit, &other] {
            assert!(take_alone(&fleet, 0, limit).is_allowed());
        }
        runtime().block_on(async {
            if detached {
                fleet.nodes[0].decide_detached(Request::new(&charges), fleet.now());
            } else {
                let verdict = fleet.nodes[0].decide(Request::new(&charges), fleet.now()).await;
                assert!(verdict.expect("decided locally").is_allowed());
            }
            run(&fleet, 1).await;
            if mode == Mode::Deltas {
                assert_eq!(central_balance(&fleet, &limit).await, 98);
            }
        });
    }
}

#[test]
fn without_a_runtime_decisions_become_stale() {
    let (fleet, limit) = (at_work(1, denying), limit());
    assert!(take_alone(&fleet, 0, &limit).is_allowed());
    fleet.advance(SECOND);
    assert!(take_alone(&fleet, 0, &limit).is_allowed());
    fleet.advance(MILLISECOND);
    assert!(is_denied_by_policy(&take_alone(&fleet, 0, &limit)));
    assert_eq!(fleet.nodes[0].stats().stale_for, SECOND + MILLISECOND);
    runtime().block_on(async {
        assert!(fleet.take(0, &limit, 1).await.is_allowed(), "the central store answers");
        run(&fleet, 1).await;
        assert_eq!(central_balance(&fleet, &limit).await, 97);
    });
}

#[test]
fn after_the_end_of_the_runtime_decisions_become_stale() {
    let (fleet, limit) = (at_work(1, denying), limit());
    assert!(runtime().block_on(fleet.take(0, &limit, 1)).is_allowed());
    fleet.advance(SECOND + MILLISECOND);
    assert!(is_denied_by_policy(&take_alone(&fleet, 0, &limit)));
}

#[test]
fn a_check_without_a_runtime_does_not_keep_the_task_from_being_started() {
    let (fleet, limit) = (at_work(1, denying), limit());
    assert!(runtime().block_on(fleet.take(0, &limit, 1)).is_allowed());
    fleet.advance(2 * SECOND);
    assert!(is_denied_by_policy(&take_alone(&fleet, 0, &limit)));
    fleet.advance(2 * SECOND);
    runtime().block_on(async {
        assert!(fleet.take(0, &limit, 1).await.is_allowed(), "the central store answers");
        run(&fleet, 1).await;
        assert_eq!(central_balance(&fleet, &limit).await, 98);
    });
}

#[test]
fn an_idle_node_is_not_stale_after_the_end_of_the_runtime() {
    let (fleet, limit) = (at_work(1, denying), limit());
    runtime().block_on(async {
        assert!(fleet.take(0, &limit, 1).await.is_allowed());
        run(&fleet, 1).await;
    });
    fleet.advance(60 * SECOND);
    assert_eq!(fleet.nodes[0].stats().stale_for, Duration::ZERO);
    let calls = fleet.nodes[0].store().calls();
    runtime().block_on(async {
        assert!(fleet.take(0, &limit, 1).await.is_allowed());
        assert_eq!(fleet.nodes[0].store().calls(), calls, "nothing to wait for");
        run(&fleet, 1).await;
    });
}

#[test]
fn on_a_runtime_that_is_driven_during_checks_only_checks_synchronize() {
    let (fleet, limit) = (at_work(2, denying), limit());
    let runtimes = [runtime(), runtime()];
    let mut passed = 0;
    for step in 0..400 {
        let node = step % 2;
        passed += usize::from(runtimes[node].block_on(fleet.take(node, &limit, 1)).is_allowed());
        fleet.advance(Duration::from_millis(50));
    }
    // Twenty seconds: the nodes know of each other after a second at the latest.

    assert!((95..=110).contains(&passed), "{passed}");
}

#[test]
fn on_a_runtime_that_is_driven_during_checks_only_decisions_become_stale() {
    let (fleet, limit, runtime) = (at_work(1, denying), limit(), runtime());
    fleet.nodes[0].store().set(LinkState::Down);
    let mut passed = 0;
    for _ in 0..100 {
        passed += usize::from(runtime.block_on(fleet.take(0, &limit, 1)).is_allowed());
        fleet.advance(Duration::from_millis(100));
    }
    // Two intervals and a second.
    assert_eq!(passed, 13);
    assert!(is_denied_by_policy(&runtime.block_on(fleet.take(0, &limit, 1))));
}

#[test]
fn a_check_waits_for_a_short_time_only() {
    let (fleet, limit) = (at_work(1, |node| node), limit());
    assert!(take_alone(&fleet, 0, &limit).is_allowed());
    fleet.nodes[0].store().set(LinkState::Hanging);
    runtime().block_on(async {
        let waited = async {
            settled(&fleet.clock, SLEEPERS + 1).await;
            fleet.advance(Duration::from_millis(50));
        };
        let (decision, ()) = tokio::join!(fleet.take(0, &limit, 1), waited);
        assert!(decision.is_allowed());
        assert!(fleet.take(0, &limit, 1).await.is_allowed(), "the next one does not wait");
    });
}

#[test]
fn a_replaced_task_ends_and_loses_nothing() {
    let (fleet, limit) = (at_work(1, |node| node), limit());
    let (idle, driven) = (runtime(), runtime());
    let link = fleet.nodes[0].store();
    link.set(LinkState::Hanging);
    idle.block_on(async {
        assert!(fleet.take(0, &limit, 1).await.is_allowed());
        settled(&fleet.clock, SLEEPERS).await;
        while link.calls() == 0 {
            fleet.advance(Duration::from_millis(10));
            settled(&fleet.clock, SLEEPERS - 1).await;
        }
    });
    link.set(LinkState::Up);
    fleet.advance(2 * SECOND);
    driven.block_on(async {
        assert!(fleet.take(0, &limit, 1).await.is_allowed());
        for _ in 0..5 {
            run(&fleet, 1).await;
        }
        assert_eq!(fleet.nodes[0].stats().pending, 1, "still in flight");
    });
    idle.block_on(async {
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(fleet.clock.sleepers(), SLEEPERS, "of the new task");
    let calls = link.calls();
    driven.block_on(async {
        assert!(fleet.take(0, &limit, 1).await.is_allowed());
        assert_eq!(link.calls(), calls, "the new task has not ended");
        run(&fleet, 1).await;
        assert_eq!(central_balance(&fleet, &limit).await, 97);
        assert_eq!(fleet.nodes[0].stats().pending, 0);
    });
}

#[tokio::test]
async fn a_task_whose_call_hangs_is_at_work() {
    let (fleet, limit) = (at_work(1, denying), limit());
    fleet.nodes[0].store().set(LinkState::Hanging);
    assert!(fleet.take(0, &limit, 1).await.is_allowed());
    settled(&fleet.clock, SLEEPERS).await;
    for _ in 0..300 {
        fleet.advance(Duration::from_millis(10));
        settled(&fleet.clock, SLEEPERS - 1).await;
    }
    assert!(is_denied_by_policy(&fleet.take(0, &limit, 1).await));
    settled(&fleet.clock, SLEEPERS - 1).await;
    assert_eq!(fleet.nodes[0].store().calls(), 1);
}

#[test]
fn a_node_sends_its_deltas_when_it_is_dropped_on_another_runtime() {
    let (mut fleet, limit) = (at_work(1, |node| node), limit());
    let idle = runtime();
    assert!(idle.block_on(fleet.take(0, &limit, 1)).is_allowed());
    fleet.advance(2 * SECOND);
    runtime().block_on(async {
        drop(fleet.nodes.pop());
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(central_balance(&fleet, &limit).await, 99);
    });
    idle.block_on(tokio::task::yield_now());
    assert_eq!(Arc::strong_count(&fleet.central), 1, "the task has ended, too");
}
