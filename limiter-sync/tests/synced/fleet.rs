//! Some nodes around one centre, by one clock that moves by hand; the way to the centre can be broken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::{Capability, Export, RawDecision, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, Key, Limit, ManualClock, Request, Source, StoreError, Time, Verdict,
};
use tollgate_limiter_sync::Synced;
use tollgate_store_memory::MemoryStore;

pub(crate) const WHO: &str = "somebody";

/// What becomes of a node's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    /// They arrive, and so do the answers.
    #[default]
    Open,
    /// They don't arrive.
    Closed,
    /// They don't arrive, after a second.
    Slow,
    /// They don't arrive, and nobody ever hears of them.
    Hanging,
    /// They don't arrive, but nobody can tell.
    Vanishing,
    /// They arrive, but the answers get lost.
    ThereOnly,
    /// They arrive, and the answers come when others have had their turn.
    Late,
    /// They arrive, and are refused because of something about their keys.
    Refused,
    /// The same, if [`BAD`] is among their keys.
    RefusedIfBad,
    /// They don't arrive, and a stand-in lets everything pass.
    StoodIn,
}

/// A key that something is wrong with.
pub(crate) const BAD: &str = "bad";

/// A node's way to the centre.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) centre: Arc<MemoryStore>,
    clock: ManualClock,
    way: Arc<Mutex<Way>>,
    calls: Arc<AtomicUsize>,
}

impl Link {
    pub(crate) fn to(centre: &Arc<MemoryStore>, clock: &ManualClock) -> Self {
        let (centre, clock) = (Arc::clone(centre), clock.clone());
        Self { centre, clock, way: Arc::default(), calls: Arc::default() }
    }

    pub(crate) fn set(&self, way: Way) {
        *self.way.lock().expect("nobody panics") = way;
    }

    fn way(&self) -> Way {
        *self.way.lock().expect("nobody panics")
    }

    /// How many calls were made.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    async fn call<T>(
        &self,
        mut keys: impl Iterator<Item = Key<'_>>,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let unreachable = StoreError::new(ErrorKind::Unavailable, "the centre cannot be reached");
        let strange = StoreError::new(ErrorKind::Corrupt, "something strange is there");
        let lost = StoreError::new(ErrorKind::Timeout, "no answer").with_unknown_effect();
        match self.way() {
            Way::RefusedIfBad if keys.any(|key| key == BAD.into()) => Err(strange),
            Way::Open | Way::RefusedIfBad => call.await,
            Way::Closed | Way::StoodIn => Err(unreachable),
            Way::Slow => {
                self.clock.advance(Duration::from_secs(1));
                Err(unreachable)
            }
            Way::Hanging => std::future::pending().await,
            Way::Vanishing => Err(lost),
            Way::ThereOnly => call.await.and(Err(lost)),
            Way::Late => {
                let answer = call.await;
                tokio::task::yield_now().await;
                answer
            }
            Way::Refused => Err(strange),
        }
    }

    /// What a stand-in says.
    fn stood_in(&self, request: Request<'_>, now: Time) -> Option<Verdict> {
        let pass = |charge| RawDecision::allow(charge, Source::Fallback).into();
        (self.way() == Way::StoodIn).then(|| Verdict::new(request.charges().iter().map(pass), now))
    }
}

fn keys(request: Request<'_>) -> impl Iterator<Item = Key<'_>> {
    request.charges().iter().map(Charge::key)
}

impl Store for Link {
    fn capability(&self) -> Capability {
        self.centre.capability().with_unknown_effects()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        match self.stood_in(request, now) {
            Some(verdict) => Ok(verdict),
            None => self.call(keys(request), self.centre.decide(request, now)).await,
        }
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        if self.way() == Way::StoodIn {
            let stood_in = |run: &Run<'_>| self.stood_in(run.request(), now).into_iter().collect();
            return batch.iter().map(|run| Ok(RunVerdict::from_verdicts(stood_in(run)))).collect();
        }
        let all = batch.iter().flat_map(|run| keys(run.request()));
        match self.call(all, async { Ok(self.centre.decide_batch(batch, now).await) }).await {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.call([key].into_iter(), self.centre.export(limit, key, now)).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.call(keys(request), self.centre.apply_deltas(request, now)).await
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
        let node = |_| with(Synced::with_clock(Link::to(&centre, &clock), clock.clone()).by_hand());
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
        let charge = limit.charge(WHO).with_cost(0);
        self.centre.decide_one(&charge, &self.now()).await.expect("memory answers")
    }
}

pub(crate) async fn take(node: &Node, limit: &Limit, cost: u32) -> Decision {
    let clock = ManualClock::at(node_now(node));
    node.decide_one(&limit.charge(WHO).with_cost(cost), &clock).await.expect("decided, or refused by policy")
}

fn node_now(node: &Node) -> Time {
    node.clock().now()
}
