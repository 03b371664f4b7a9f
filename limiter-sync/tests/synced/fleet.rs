//! A fleet of nodes around one central store, with one manual clock. The link of each node can fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::{Capability, Export, RawDecision, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, Key, Limit, ManualClock, Request, Source, StoreError, Time, Verdict,
};
use tollgate_limiter_sync::{Synced, SyncedBuilder};
use tollgate_store_memory::MemoryStore;

pub(crate) const KEY: &str = "user";

/// What happens to the calls of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// They succeed.
    #[default]
    Up,
    /// They fail at once, without an effect.
    Down,
    /// They fail after a second, without an effect.
    SlowFailure,
    /// They never return.
    Hanging,
    /// The request is lost; the caller cannot know whether it took effect.
    LostRequest,
    /// The request is executed, and the answer is lost.
    LostAnswer,
    /// The request is executed, and the answer arrives after other tasks have run.
    LateAnswer,
    /// They are rejected because of one of their keys.
    Rejecting,
    /// They are rejected if [`BAD`] is among their keys.
    RejectingBad,
    /// They do not arrive, and a fallback of a wrapper allows everything.
    Fallback,
}

/// A key whose state is corrupt.
pub(crate) const BAD: &str = "bad";

/// The link of a node to the central store.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) central: Arc<MemoryStore>,
    clock: ManualClock,
    state: Arc<Mutex<LinkState>>,
    calls: Arc<AtomicUsize>,
}

impl Link {
    pub(crate) fn to(central: &Arc<MemoryStore>, clock: &ManualClock) -> Self {
        let (central, clock) = (Arc::clone(central), clock.clone());
        Self { central, clock, state: Arc::default(), calls: Arc::default() }
    }

    pub(crate) fn set(&self, state: LinkState) {
        *self.state.lock().expect("not poisoned") = state;
    }

    fn state(&self) -> LinkState {
        *self.state.lock().expect("not poisoned")
    }

    /// Returns how many calls were made.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    async fn call<T>(
        &self,
        mut keys: impl Iterator<Item = Key<'_>>,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let unreachable = StoreError::new(ErrorKind::Unavailable, "the central store cannot be reached");
        let rejected = StoreError::new(ErrorKind::Corrupt, "the stored state is corrupt");
        let lost = StoreError::new(ErrorKind::Timeout, "no answer").with_unknown_effect();
        match self.state() {
            LinkState::RejectingBad if keys.any(|key| key == BAD.into()) => Err(rejected),
            LinkState::Up | LinkState::RejectingBad => call.await,
            LinkState::Down | LinkState::Fallback => Err(unreachable),
            LinkState::SlowFailure => {
                self.clock.advance(Duration::from_secs(1));
                Err(unreachable)
            }
            LinkState::Hanging => std::future::pending().await,
            LinkState::LostRequest => Err(lost),
            LinkState::LostAnswer => call.await.and(Err(lost)),
            LinkState::LateAnswer => {
                let answer = call.await;
                tokio::task::yield_now().await;
                answer
            }
            LinkState::Rejecting => Err(rejected),
        }
    }

    /// Returns the verdict of a fallback, if one answers.
    fn fallback(&self, request: Request<'_>, now: Time) -> Option<Verdict> {
        let allow = |charge| RawDecision::allow(charge, Source::Fallback).into();
        (self.state() == LinkState::Fallback).then(|| Verdict::new(request.charges().iter().map(allow), now))
    }
}

fn keys(request: Request<'_>) -> impl Iterator<Item = Key<'_>> {
    request.charges().iter().map(Charge::key)
}

impl Store for Link {
    fn capability(&self) -> Capability {
        self.central.capability().with_unknown_effects()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        match self.fallback(request, now) {
            Some(verdict) => Ok(verdict),
            None => self.call(keys(request), self.central.decide(request, now)).await,
        }
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        if self.state() == LinkState::Fallback {
            let fallback = |run: &Run<'_>| self.fallback(run.request(), now).into_iter().collect();
            return batch.iter().map(|run| Ok(RunVerdict::from_verdicts(fallback(run)))).collect();
        }
        let all = batch.iter().flat_map(|run| keys(run.request()));
        match self.call(all, async { Ok(self.central.decide_batch(batch, now).await) }).await {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.call([key].into_iter(), self.central.export(limit, key, now)).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.call(keys(request), self.central.apply_deltas(request, now)).await
    }
}

pub(crate) type Node = Synced<Link, ManualClock>;
pub(crate) type NodeBuilder = SyncedBuilder<Link, ManualClock>;

/// Nodes and their central store.
pub(crate) struct Fleet {
    pub(crate) clock: ManualClock,
    pub(crate) central: Arc<MemoryStore>,
    pub(crate) nodes: Vec<Node>,
}

impl Fleet {
    pub(crate) fn of(nodes: usize, configure: impl Fn(NodeBuilder) -> NodeBuilder) -> Self {
        let (clock, central) =
            (ManualClock::default(), Arc::new(MemoryStore::config().max_keys(10_000).build()));
        let link = || Link::to(&central, &clock);
        let node =
            |_| configure(Synced::builder(link()).clock(clock.clone()).manual()).build().expect("valid");
        let nodes = (0..nodes).map(node).collect();
        Self { clock, central, nodes }
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

    /// Returns how many of so many checks pass on a node.
    pub(crate) async fn passed(&self, node: usize, limit: &Limit, checks: usize) -> usize {
        let mut passed = 0;
        for _ in 0..checks {
            passed += usize::from(self.take(node, limit, 1).await.is_allowed());
        }
        passed
    }

    /// Runs sync rounds until all nodes know everything: a node receives in its next round what the others sent after
    /// its first, and checks once more after that.
    pub(crate) async fn sync(&self) {
        for _ in 0..3 {
            for node in &self.nodes {
                let _ = node.sync_now().await;
            }
        }
    }

    /// Returns the central balance.
    pub(crate) async fn peek_central(&self, limit: &Limit) -> Decision {
        let charge = limit.charge(KEY).with_cost(0);
        self.central.decide_one(&charge, &self.now()).await.expect("the memory store answers")
    }
}

pub(crate) async fn take(node: &Node, limit: &Limit, cost: u32) -> Decision {
    let clock = ManualClock::at(node_now(node));
    node.decide_one(&limit.charge(KEY).with_cost(cost), &clock).await.expect("decided, or denied by policy")
}

fn node_now(node: &Node) -> Time {
    node.clock().now()
}
