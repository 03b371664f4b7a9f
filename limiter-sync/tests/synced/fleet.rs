//! Some nodes around one centre, by one clock that moves by hand; the way to the centre can be broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use tollgate_core::{
    Capability, Clock, Decision, ErrorKind, Export, Key, Limit, ManualClock, Request, Run, RunVerdict,
    Snapshot, Store, StoreError, Time, Verdict,
};
use tollgate_limiter_sync::Synced;
use tollgate_store_memory::MemoryStore;

pub(crate) const WHO: &str = "somebody";

/// What becomes of a node's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Way {
    /// They arrive, and so do the answers.
    Open = 0,
    /// They don't arrive.
    Closed = 1,
    /// They arrive, but the answers get lost.
    ThereOnly = 2,
    /// They arrive, and are refused because of something about their keys.
    Refused = 3,
}

/// A node's way to the centre.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) centre: Arc<MemoryStore>,
    way: Arc<AtomicU8>,
    calls: Arc<AtomicUsize>,
}

impl Link {
    pub(crate) fn to(centre: &Arc<MemoryStore>) -> Self {
        Self { centre: Arc::clone(centre), way: Arc::default(), calls: Arc::default() }
    }

    pub(crate) fn set(&self, way: Way) {
        self.way.store(way as u8, Ordering::Relaxed);
    }

    /// How many calls were made.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.way.load(Ordering::Relaxed) {
            0 => call.await,
            1 => Err(StoreError::new(ErrorKind::Unavailable, "the centre cannot be reached")),
            3 => Err(StoreError::new(ErrorKind::Corrupt, "something strange is there")),
            _ => {
                call.await?;
                Err(StoreError::new(ErrorKind::Timeout, "no answer").with_unknown_effect())
            }
        }
    }
}

impl Store for Link {
    fn capability(&self) -> Capability {
        self.centre.capability().may_lose_answers()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.call(self.centre.decide(request, now)).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        match self.call(async { Ok(self.centre.decide_batch(batch, now).await) }).await {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.call(self.centre.export(limit, key, now)).await
    }

    async fn merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), StoreError> {
        self.call(self.centre.merge(limit, key, snapshot, now)).await
    }

    async fn exchange(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.call(self.centre.exchange(request, now)).await
    }
}

pub(crate) type Node = Synced<Link, ManualClock>;

/// Nodes and their centre.
pub(crate) struct Fleet {
    pub(crate) clock: ManualClock,
    pub(crate) centre: Arc<MemoryStore>,
    pub(crate) nodes: Vec<Node>,
}

impl Fleet {
    pub(crate) fn of(nodes: usize, with: impl Fn(Node) -> Node) -> Self {
        let (clock, centre) = (ManualClock::default(), Arc::new(MemoryStore::config().keys(10_000).build()));
        let node = |_| with(Synced::with_clock(Link::to(&centre), clock.clone()).by_hand());
        let nodes = (0..nodes).map(node).collect();
        Self { clock, centre, nodes }
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn advance(&self, span: Duration) {
        self.clock.advance(span);
    }

    pub(crate) async fn take(&self, node: usize, limit: &Limit, cost: u32) -> Decision {
        take(&self.nodes[node], limit, cost).await
    }

    /// How many of so many checks pass on a node.
    pub(crate) async fn passed(&self, node: usize, limit: &Limit, checks: usize) -> usize {
        let mut passed = 0;
        for _ in 0..checks {
            passed += usize::from(self.take(node, limit, 1).await.is_allowed());
        }
        passed
    }

    /// Everybody tells, and everybody is told: whoever told first is told by its next exchange what the others told after
    /// it, and looks once more after that.
    pub(crate) async fn exchange(&self) {
        for _ in 0..3 {
            for node in &self.nodes {
                let _ = node.sync_now().await;
            }
        }
    }

    /// What the centre has.
    pub(crate) async fn at_centre(&self, limit: &Limit) -> Decision {
        let charge = limit.charge(WHO).cost(0);
        self.centre.decide_one(&charge, &self.now()).await.expect("memory answers")
    }
}

pub(crate) async fn take(node: &Node, limit: &Limit, cost: u32) -> Decision {
    let clock = ManualClock::at(node_now(node));
    node.decide_one(&limit.charge(WHO).cost(cost), &clock).await.expect("decided, or refused by policy")
}

fn node_now(node: &Node) -> Time {
    node.clock().now()
}
