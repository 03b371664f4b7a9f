//! The task that exchanges by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Event, Limit, ManualClock, Observer, Source};
use tollgate_limiter_sync::{Synced, WhenStale};

use crate::fleet::{Fleet, Link, Node, WHO};

/// Nodes with a task of their own.
fn at_work(count: usize, with: impl Fn(Node) -> Node) -> Fleet {
    let mut fleet = Fleet::of(0, |node| node);
    let node = |_| with(Synced::with_clock(Link::to(&fleet.centre, &fleet.clock), fleet.clock.clone()));
    fleet.nodes = (0..count).map(node).collect();
    fleet
}

/// Lets everybody run until they wait for the clock again.
async fn settled(clock: &ManualClock, tasks: usize) {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    for _ in 0..100_000 {
        if clock.sleepers() >= tasks {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{} tasks wait for the clock, and {tasks} should", clock.sleepers());
}

#[tokio::test]
async fn nodes_converge_within_two_intervals() {
    let fleet = at_work(2, |node| node.every(Duration::from_millis(100)));
    let limit = Limit::per_hour(10).build("api").expect("valid");
    assert_eq!(fleet.passed(0, &limit, 6).await + fleet.passed(1, &limit, 2).await, 8);
    settled(&fleet.clock, 2).await;
    for _ in 0..24 {
        fleet.advance(Duration::from_millis(10));
        settled(&fleet.clock, 2).await;
    }
    for node in 0..2 {
        assert_eq!(fleet.take(node, &limit, 0).await.remaining(), 2, "node {node}");
    }
}

#[tokio::test]
async fn each_limit_has_its_own_interval() {
    let fleet = at_work(1, |node| {
        node.every(Duration::from_millis(50)).terms_of("slow", |usual| usual.every(Duration::from_secs(60)))
    });
    let (fast, slow) = (Limit::per_hour(10).build("fast"), Limit::per_hour(10).build("slow"));
    let (fast, slow) = (fast.expect("valid"), slow.expect("valid"));
    assert_eq!(fleet.passed(0, &fast, 3).await + fleet.passed(0, &slow, 3).await, 6);
    settled(&fleet.clock, 2).await;
    let left = async |limit: &Limit| fleet.at_centre(limit).await.remaining();
    // The first exchange comes at a random moment of an interval, the second no sooner than nine tenths of one after it.
    while left(&slow).await == 10 {
        fleet.advance(Duration::from_secs(1));
        settled(&fleet.clock, 2).await;
    }
    assert_eq!(left(&fast).await, 7);
    assert_eq!(fleet.passed(0, &fast, 3).await + fleet.passed(0, &slow, 3).await, 6);
    for _ in 0..12 {
        fleet.advance(Duration::from_millis(10));
        settled(&fleet.clock, 2).await;
    }
    assert_eq!((left(&fast).await, left(&slow).await), (4, 7));
    fleet.advance(Duration::from_secs(66));
    settled(&fleet.clock, 2).await;
    assert_eq!(left(&slow).await, 4);
}

#[tokio::test]
async fn a_dropped_node_ends_its_task() {
    let mut fleet = at_work(1, |node| node);
    let limit = Limit::per_hour(10).fixed_window().build("api").expect("valid");
    assert_eq!(fleet.passed(0, &limit, 4).await, 4);
    settled(&fleet.clock, 1).await;
    drop(fleet.nodes.pop());
    while fleet.clock.sleepers() > 0 {
        tokio::task::yield_now().await;
    }
    while fleet.at_centre(&limit).await.remaining() == 10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 6);
}

/// Something of the program's own that goes wrong once.
#[derive(Default)]
struct PanicsOnce(AtomicBool);

impl Observer for PanicsOnce {
    fn observe(&self, _: Event<'_>) {
        assert!(self.0.swap(true, Ordering::Relaxed), "what somebody else wrote goes wrong");
    }
}

#[tokio::test]
async fn a_task_that_somebody_else_has_ended_is_noticed_and_started_again() {
    let fleet = at_work(1, |node| {
        node.every(Duration::from_millis(50))
            .when_stale(WhenStale::Deny)
            .observed_by(Arc::new(PanicsOnce::default()))
    });
    let limit = Limit::per_hour(10).build("api").expect("valid");
    assert_eq!(fleet.passed(0, &limit, 3).await, 3);
    settled(&fleet.clock, 1).await;
    while fleet.clock.sleepers() > 0 {
        fleet.advance(Duration::from_millis(10));
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 7, "it was told before");
    assert_eq!(
        fleet.passed(0, &limit, 2).await,
        2,
        "nothing is wrong with the centre, as far as anybody knows"
    );
    assert_eq!(fleet.clock.sleepers(), 0);
    fleet.advance(Duration::from_secs(1));
    assert_eq!(fleet.passed(0, &limit, 1).await, 1, "another is on its way");
    settled(&fleet.clock, 1).await;
    for _ in 0..12 {
        fleet.advance(Duration::from_millis(10));
        settled(&fleet.clock, 1).await;
    }
    assert_eq!(fleet.at_centre(&limit).await.remaining(), 4);
    assert_eq!(fleet.nodes[0].insight().silent, Duration::ZERO);
}

#[test]
fn without_a_task_the_centre_is_as_good_as_silent() {
    let fleet = at_work(1, |node| node.when_stale(WhenStale::Deny));
    let limit = Limit::per_hour(10).build("api").expect("valid");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    assert!(runtime.block_on(fleet.take(0, &limit, 1)).is_allowed());
    drop(runtime);
    fleet.advance(Duration::from_millis(1_001));
    let charge = limit.charge(WHO);
    let mut decided = std::pin::pin!(fleet.nodes[0].decide_one(&charge, &fleet.clock));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(Ok(told)) = decided.as_mut().poll(&mut context) else {
        panic!("nobody has to be waited for")
    };
    assert_eq!((told.is_denied(), told.source()), (true, Source::Policy));
}

#[test]
fn without_a_runtime_it_decides_all_the_same() {
    let fleet = at_work(1, |node| node);
    let limit = Limit::per_hour(10).build("api").expect("valid");
    let charge = limit.charge(WHO);
    let mut decided = std::pin::pin!(fleet.nodes[0].decide_one(&charge, &fleet.clock));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(decided.as_mut().poll(&mut context).is_ready());
}
