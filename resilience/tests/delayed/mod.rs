//! A store that never replies at once, and that counts direct and batched requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, IdempotencyKey, Key, Limit, Observer, Request, StoreError, Time, Verdict,
};

/// Yields before each call, so that calls overlap.
pub(crate) struct DelayedStore<S> {
    store: S,
    direct: AtomicU64,
    batched: AtomicU64,
}

impl<S> DelayedStore<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store, direct: AtomicU64::new(0), batched: AtomicU64::new(0) }
    }

    /// Returns the number of direct requests, without background requests.
    pub(crate) fn direct(&self) -> u64 {
        self.direct.load(Ordering::Relaxed)
    }

    /// Returns the number of batched requests, without background requests.
    pub(crate) fn batched(&self) -> u64 {
        self.batched.load(Ordering::Relaxed)
    }
}

/// The limit of background requests, which are not counted.
pub(crate) const BACKGROUND: &str = "background";

fn is_background(charge: &Charge<'_>) -> bool {
    charge.limit().name() == BACKGROUND
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for DelayedStore<S> {
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.direct.fetch_add(u64::from(!request.charges().iter().any(is_background)), Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.store.decide(request, now).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        self.direct.fetch_add(u64::from(!is_background(charge)), Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.store.decide_one(charge, clock).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let own = batch.iter().filter(|run| !run.request().charges().iter().any(is_background));
        self.batched.fetch_add(own.map(|run| u64::from(run.count())).sum(), Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.store.decide_batch(batch, now).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store.route(charge)
    }

    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.store.attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.store.decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.store.export(limit, key, now).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.store.apply_deltas(request, now).await
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        self.store.forget_idempotency_keys(answered).await;
    }
}
