//! The store: its methods, and what it decides locally or forwards.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::{
    Capability, Export, IdempotencyRetention, Run, RunVerdict, Store, decide_one_by_one,
};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, IdempotencyKey, Key, Limit, Observer, Request, StoreError,
    SystemClock, Time, Timer, Verdict,
};

use crate::config::{CENTRAL, SyncedBuilder};
use crate::local::decide::NotLocal;
use crate::node::Node;
use crate::stats::Stats;
use crate::sync::task::SyncTask;

/// A store that decides locally, at memory speed, and periodically synchronizes with a central store. The
/// [crate documentation](crate) says how much passes when.
pub struct Synced<S: Store + 'static, C: Timer + 'static = SystemClock> {
    task: SyncTask<S, C>,
}

impl<S: Store + 'static> Synced<S> {
    /// Creates a store with all defaults around a central store: deltas, synchronized every 100 ms.
    pub fn new(store: S) -> Self {
        Self::builder(store).build_valid()
    }

    /// Returns a builder for a store around a central store.
    pub fn builder(store: S) -> SyncedBuilder<S> {
        SyncedBuilder::new(store)
    }
}

impl<S: Store + 'static, C: Timer + 'static> Synced<S, C> {
    pub(crate) fn from_node(node: Arc<Node<S, C>>) -> Self {
        Self { task: SyncTask::new(node) }
    }

    /// Returns the central store.
    pub fn store(&self) -> &S {
        &self.node().store
    }

    /// Returns the clock of the sync rounds.
    pub fn clock(&self) -> &C {
        &self.node().clock
    }

    /// Returns statistics.
    pub fn stats(&self) -> Stats {
        self.node().stats()
    }

    /// Runs a sync round for all keys that are due. An error if the central store did not answer everything; what it
    /// did not answer stays due.
    pub async fn sync_now(&self) -> Result<(), StoreError> {
        self.node().sync_rounds().await
    }

    /// Sends all pending deltas and returns all leased tokens, for at most `timeout`. From then on, everything is
    /// decided by the central store. An error contains the number of keys that are left; `close` can be called again.
    pub async fn close(&self, timeout: Duration) -> Result<(), StoreError> {
        self.node().close();
        let flushed = tokio::time::timeout(timeout, self.node().flush()).await.is_ok();
        // Idempotency keys that are not forgotten in time expire.
        if flushed || self.node().is_synchronized() {
            return Ok(());
        }
        let pending = self.stats().pending;
        let why = format!(
            "keys with pending deltas or leased tokens: {pending}; the central store did not accept them within \
             {timeout:?}; call close again once it is reachable"
        );
        Err(StoreError::new(ErrorKind::Timeout, why))
    }

    #[inline]
    pub(crate) fn node(&self) -> &Node<S, C> {
        self.task.node()
    }

    pub(crate) fn task(&self) -> &SyncTask<S, C> {
        &self.task
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + 'static, C: Timer + 'static> Store for Synced<S, C> {
    /// Exact for algorithms that are always decided centrally. Idempotency keys are recognized by the central store
    /// only: the result of a local decision cannot be lost.
    fn capability(&self) -> Capability {
        let central = self.store().capability();
        central.with_exact(central.exact.and(CENTRAL)).with_idempotency(IdempotencyRetention::None)
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        let node = self.node();
        if let ([charge], None) = (request.charges(), request.idempotency_key()) {
            let decision = self.decide_one(charge, &now).await?;
            return Ok(Verdict::one(decision, node.to_central(now)));
        }
        if request.charges().is_empty() {
            return Ok(Verdict::new([], now));
        }
        let reason = match node.decide_locally(request.charges(), now) {
            Ok(verdict) => return Ok(verdict),
            Err(_) if request.charges().iter().any(|charge| node.is_always_central(charge)) => {
                NotLocal::Central
            }
            Err(reason) => reason,
        };
        self.decide_with_central(request, now, reason).await
    }

    #[inline]
    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        charge.supported()?;
        let reason = match self.node().decide_one_locally(charge, clock, false) {
            Ok(decision) => return Ok(decision),
            Err(reason) => reason,
        };
        let charges = [*charge];
        self.decide_with_central(Request::new(&charges), clock.now(), reason).await?.into_single()
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let node = self.node();
        let mut charges = batch.iter().flat_map(|run| run.request().charges());
        if charges.all(|charge| node.is_always_central(charge)) {
            return node.store.decide_batch(batch, node.to_store(now)).await;
        }
        decide_one_by_one(self, batch, now).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store().route(charge)
    }

    /// Keeps the first observer, and attaches it to the central store.
    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        let _ = self.node().observer.set(Arc::clone(observer));
        self.store().attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        let node = self.node();
        if request.supported().is_err() {
            return;
        }
        let mut decided = node.decide_locally(request.charges(), now);
        if let Err(NotLocal::TaskStopped) = decided {
            self.task.start();
            decided = node.decide_locally(request.charges(), now);
        }
        if decided.is_err() {
            node.store.decide_detached(request, node.to_store(now));
        }
    }

    /// Returns the central state, after the pending deltas of the key were sent.
    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        let node = self.node();
        node.send_pending(&[limit.charge(key)]).await?;
        node.store.export(limit, key, node.to_store(now)).await
    }

    /// Applies the deltas centrally, in one call, after the pending deltas of their keys were sent. Returns the central
    /// states.
    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        request.supported()?;
        let (node, charges) = (self.node(), request.charges());
        node.counters.decided_centrally(charges.len());
        node.send_pending(charges).await?;
        let exports = node.store.apply_deltas(request, node.to_store(now)).await?;
        node.deltas_applied(charges, &exports);
        Ok(exports)
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        self.store().forget_idempotency_keys(answered).await;
    }
}

impl<S: Store + 'static, C: Timer + 'static> fmt::Debug for Synced<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synced").field("policies", self.node().limits.policies()).finish_non_exhaustive()
    }
}
