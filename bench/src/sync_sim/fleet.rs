//! Nodes around one centre, by one clock that moves by hand; each node's way to the centre can be cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tollgate::memory::MemoryStore;
use tollgate::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate::{Charge, ErrorKind, Key, Limit, ManualClock, Request, StoreError, Time, Verdict};
use tollgate_limiter_sync::{Synced, WhenStale};

/// How the nodes decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By copies, which are exchanged.
    Deltas(WhenStale),
    /// By tokens that are leased ahead of need.
    Lease,
    /// Each check asks the centre: what the others are compared with.
    Central,
}

impl Mode {
    /// As a program gets it unless it says more.
    pub const DELTAS: Self = Self::Deltas(WhenStale::GoOn);

    pub fn name(self) -> &'static str {
        match self {
            Self::Deltas(_) => "deltas",
            Self::Lease => "lease",
            Self::Central => "central",
        }
    }
}

/// A node's way to the centre.
#[derive(Clone, Debug)]
struct Link {
    centre: Arc<MemoryStore>,
    cut: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

impl Link {
    async fn call<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.cut.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Unavailable, "the centre cannot be reached"));
        }
        call.await
    }
}

impl Store for Link {
    fn capability(&self) -> Capability {
        self.centre.capability()
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

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.call(self.centre.apply_deltas(request, now)).await
    }
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
pub struct Fleet {
    pub clock: ManualClock,
    nodes: Vec<Node>,
}

impl Fleet {
    pub fn new(nodes: usize, mode: Mode, interval: Duration) -> Self {
        let clock = ManualClock::default();
        let centre = Arc::new(MemoryStore::config().keys(64).build());
        let node = |_| {
            let link = Link { centre: Arc::clone(&centre), cut: Arc::default(), calls: Arc::default() };
            // There is one key, and a small table is one that a thousand nodes can have.
            let synced = || Synced::with_clock(link.clone(), clock.clone()).every(interval).keys(1).by_hand();
            let decider = match mode {
                Mode::Deltas(then) => Decider::Synced(Box::new(synced().when_stale(then))),
                Mode::Lease => Decider::Synced(Box::new(synced().leasing())),
                Mode::Central => Decider::Central(link.clone()),
            };
            Node { decider, link }
        };
        Self { nodes: (0..nodes).map(node).collect(), clock }
    }

    /// Whether a node lets a request pass. One that cannot ask lets nothing pass.
    pub async fn passes(&self, node: usize, charge: &Charge<'_>) -> bool {
        let decided = match &self.nodes[node].decider {
            Decider::Synced(synced) => synced.decide_one(charge, &self.clock).await,
            Decider::Central(link) => link.decide_one(charge, &self.clock).await,
        };
        decided.is_ok_and(|decision| decision.is_allowed())
    }

    /// A node exchanges. An error if the centre refused although nothing was cut.
    pub async fn exchange(&self, node: usize) -> Result<(), StoreError> {
        let Node { decider: Decider::Synced(synced), link } = &self.nodes[node] else { return Ok(()) };
        match synced.sync_now().await {
            Err(error) if !link.cut.load(Ordering::Relaxed) => Err(error),
            _ => Ok(()),
        }
    }

    /// Cuts off the first `nodes` nodes, or nobody.
    pub fn cut_off(&self, nodes: usize) {
        for (number, node) in self.nodes.iter().enumerate() {
            node.link.cut.store(number < nodes, Ordering::Relaxed);
        }
    }

    /// How often the centre was asked, by all of them.
    pub fn calls(&self) -> u64 {
        self.nodes.iter().map(|node| node.link.calls.load(Ordering::Relaxed)).sum()
    }
}
