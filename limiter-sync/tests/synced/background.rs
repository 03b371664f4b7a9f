//! The background task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_core::store::Store as _;
use tollgate_core::{Event, Limit, ManualClock, Observer};
use tollgate_limiter_sync::{Synced, WhenStale};

use crate::fleet::{Fleet, Link, NodeBuilder};

/// How many futures of a node's task with one interval sleep: its schedule, and its heartbeat.
pub(crate) const SLEEPERS: usize = 2;

/// Returns nodes with a background task.
pub(crate) fn at_work(count: usize, configure: impl Fn(NodeBuilder) -> NodeBuilder) -> Fleet {
    let mut fleet = Fleet::of(0, |builder| builder);
    let link = || Link::to(&fleet.central, &fleet.clock);
    let node = |_| configure(Synced::builder(link()).clock(fleet.clock.clone())).build().expect("valid");
    fleet.nodes = (0..count).map(node).collect();
    fleet
}

/// Lets all tasks run until so many futures wait for the clock again.
pub(crate) async fn settled(clock: &ManualClock, sleepers: usize) {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    for _ in 0..100_000 {
        if clock.sleepers() >= sleepers {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} futures wait for the clock, expected {sleepers}", clock.sleepers());
}

#[tokio::test]
async fn nodes_converge_within_two_intervals() {
    let fleet = at_work(2, |builder| builder.interval(Duration::from_millis(100)));
    let limit = Limit::per_hour(10).build("api").expect("valid");
    assert_eq!(fleet.passed(0, &limit, 6).await + fleet.passed(1, &limit, 2).await, 8);
    settled(&fleet.clock, 2 * SLEEPERS).await;
    for _ in 0..24 {
        fleet.advance(Duration::from_millis(10));
        settled(&fleet.clock, 2 * SLEEPERS).await;
    }
    for node in 0..2 {
        assert_eq!(fleet.take(node, &limit, 0).await.remaining(), 2, "node {node}");
    }
}

#[tokio::test]
async fn each_limit_has_its_own_interval() {
    let (fast, slow) = (Limit::per_hour(10).build("fast"), Limit::per_hour(10).build("slow"));
    let (fast, slow) = (fast.expect("valid"), slow.expect("valid"));
    let fleet = at_work(1, |node| {
        node.interval(Duration::from_millis(50))
            .policy(&slow, |policy| policy.interval(Duration::from_secs(60)))
    });
    assert_eq!(fleet.passed(0, &fast, 3).await + fleet.passed(0, &slow, 3).await, 6);
    settled(&fleet.clock, SLEEPERS + 1).await;
    let left = async |limit: &Limit| fleet.peek_central(limit).await.remaining();
    // The first round is at a random moment of an interval, the second at least nine tenths of an interval later.
    while left(&slow).await == 10 {
        fleet.advance(Duration::from_secs(1));
        settled(&fleet.clock, SLEEPERS + 1).await;
    }
    assert_eq!(left(&fast).await, 7);
    assert_eq!(fleet.passed(0, &fast, 3).await + fleet.passed(0, &slow, 3).await, 6);
    for _ in 0..12 {
        fleet.advance(Duration::from_millis(10));
        settled(&fleet.clock, SLEEPERS + 1).await;
    }
    assert_eq!((left(&fast).await, left(&slow).await), (4, 7));
    fleet.advance(Duration::from_secs(66));
    settled(&fleet.clock, SLEEPERS + 1).await;
    assert_eq!(left(&slow).await, 4);
}

#[tokio::test]
async fn a_dropped_node_stops_its_task() {
    let mut fleet = at_work(1, |builder| builder);
    let limit = Limit::per_hour(10).fixed_window().build("api").expect("valid");
    assert_eq!(fleet.passed(0, &limit, 4).await, 4);
    settled(&fleet.clock, SLEEPERS).await;
    drop(fleet.nodes.pop());
    while fleet.clock.sleepers() > 0 {
        tokio::task::yield_now().await;
    }
    while fleet.peek_central(&limit).await.remaining() == 10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 6);
}

/// An observer that panics once.
#[derive(Default)]
struct PanicsOnce(AtomicBool);

impl Observer for PanicsOnce {
    fn observe(&self, _: Event<'_>) {
        assert!(self.0.swap(true, Ordering::Relaxed), "the first event");
    }
}

#[tokio::test]
async fn a_task_that_panicked_is_detected_and_restarted() {
    let fleet = at_work(1, |node| node.interval(Duration::from_millis(50)).when_stale(WhenStale::Deny));
    fleet.nodes[0].attach_observer(&(Arc::new(PanicsOnce::default()) as _));
    let limit = Limit::per_hour(10).build("api").expect("valid");
    assert_eq!(fleet.passed(0, &limit, 3).await, 3);
    settled(&fleet.clock, SLEEPERS).await;
    while fleet.clock.sleepers() > 0 {
        fleet.advance(Duration::from_millis(10));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 7, "sent before the panic");
    assert_eq!(fleet.passed(0, &limit, 2).await, 2, "not stale yet");
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fleet.clock.sleepers(), 0, "not started again yet");
    fleet.advance(Duration::from_secs(1));
    assert_eq!(fleet.passed(0, &limit, 1).await, 1, "starts another task");
    settled(&fleet.clock, SLEEPERS).await;
    for _ in 0..12 {
        fleet.advance(Duration::from_millis(10));
        settled(&fleet.clock, SLEEPERS).await;
    }
    assert_eq!(fleet.peek_central(&limit).await.remaining(), 4);
    assert_eq!(fleet.nodes[0].stats().stale_for, Duration::ZERO);
}
