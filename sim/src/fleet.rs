//! Nodes around one central store, on one manual clock. Each node can be partitioned from the central store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, IdempotencyKey, Key, Limit, ManualClock, Observer, Request,
    StoreError, Time, Verdict,
};
use tollgate_limiter_sync::{Mode as SyncMode, Synced, SyncedBuilder, WhenStale};
use tollgate_store_memory::MemoryStore;

/// How the nodes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// On replicas, which are synchronized by deltas.
    Deltas(WhenStale),
    /// On tokens that are leased in advance.
    Lease,
    /// Every check calls the central store: the reference for the other modes.
    Central,
}

impl Mode {
    /// Deltas with the default policy.
    pub(crate) const DELTAS: Self = Self::Deltas(WhenStale::Continue);
    /// Deltas, where a node without the central store enforces a tenth of the limit.
    pub(crate) const DELTAS_TENTH: Self = Self::Deltas(WhenStale::share_of(10));
    /// Deltas, where a node without the central store denies.
    pub(crate) const DELTAS_DENY: Self = Self::Deltas(WhenStale::Deny);

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deltas(_) => "deltas",
            Self::Lease => "lease",
            Self::Central => "central",
        }
    }
}

/// A node's connection to the central store.
#[derive(Clone, Debug)]
struct Link {
    central: Arc<MemoryStore>,
    cut: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

impl Link {
    async fn call<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.cut.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Unavailable, "the central store is unreachable"));
        }
        call.await
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Link {
    fn capability(&self) -> Capability {
        self.central.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.call(self.central.decide(without_idempotency_key(request), now)).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        self.call(self.central.decide_one(charge, clock)).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        match self.call(async { Ok(self.central.decide_batch(batch, now).await) }).await {
            Ok(verdicts) => verdicts,
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.central.route(charge)
    }

    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.central.attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !self.cut.load(Ordering::Relaxed) {
            self.central.decide_detached(request, now);
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.call(self.central.export(limit, key, now)).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.call(self.central.apply_deltas(without_idempotency_key(request), now)).await
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        if !self.cut.load(Ordering::Relaxed) {
            self.central.forget_idempotency_keys(answered).await;
        }
    }
}

/// No answer is lost here, and the memory store has no room for the idempotency keys of a thousand nodes.
fn without_idempotency_key(request: Request<'_>) -> Request<'_> {
    Request::new(request.charges())
}

/// Creates a node that synchronizes when the simulation says so.
fn synced(link: &Link, clock: &ManualClock, interval: Duration) -> SyncedBuilder<Link, ManualClock> {
    // There is one key, and a thousand nodes need small tables.
    Synced::builder(link.clone()).clock(clock.clone()).interval(interval).max_keys(1).manual()
}

enum Decider {
    Synced(Box<Synced<Link, ManualClock>>),
    Central(Link),
}

struct Node {
    decider: Decider,
    link: Link,
}

/// Nodes and their clock.
pub(crate) struct Fleet {
    pub(crate) clock: ManualClock,
    nodes: Vec<Node>,
}

impl Fleet {
    pub(crate) fn new(nodes: usize, mode: Mode, interval: Duration) -> Self {
        let clock = ManualClock::default();
        let central = Arc::new(MemoryStore::config().max_keys(64).build());
        let node = |_| {
            let link = Link { central: Arc::clone(&central), cut: Arc::default(), calls: Arc::default() };
            let synced = || synced(&link, &clock, interval);
            let decider = match mode {
                Mode::Deltas(when_stale) => {
                    Decider::Synced(Box::new(synced().when_stale(when_stale).build().expect("valid")))
                }
                Mode::Lease => {
                    Decider::Synced(Box::new(synced().mode(SyncMode::Lease).build().expect("valid")))
                }
                Mode::Central => Decider::Central(link.clone()),
            };
            Node { decider, link }
        };
        Self { nodes: (0..nodes).map(node).collect(), clock }
    }

    /// Decides a request on a node, and returns whether it is allowed. A failed call denies it.
    pub(crate) async fn check(&self, node: usize, charge: &Charge<'_>) -> bool {
        let decision = match &self.nodes[node].decider {
            Decider::Synced(synced) => synced.decide_one(charge, &self.clock).await,
            Decider::Central(link) => link.decide_one(charge, &self.clock).await,
        };
        decision.is_ok_and(|decision| decision.is_allowed())
    }

    /// Runs a sync round of a node. Returns an error if the central store failed although the node is not partitioned.
    pub(crate) async fn sync(&self, node: usize) -> Result<(), StoreError> {
        let Node { decider: Decider::Synced(synced), link } = &self.nodes[node] else { return Ok(()) };
        match synced.sync_now().await {
            Err(error) if !link.cut.load(Ordering::Relaxed) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Cuts a node off from the central store, or reconnects it.
    pub(crate) fn cut(&self, node: usize, cut: bool) {
        self.nodes[node].link.cut.store(cut, Ordering::Relaxed);
    }

    /// Returns the number of calls to the central store, by all nodes.
    pub(crate) fn calls(&self) -> u64 {
        self.nodes.iter().map(|node| node.link.calls.load(Ordering::Relaxed)).sum()
    }
}
