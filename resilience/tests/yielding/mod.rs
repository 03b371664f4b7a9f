//! A store that never answers at once, and that counts how requests come.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{Charge, Clock, Decision, Key, Limit, Request, StoreError, Time, Verdict};

/// Around a store, so that calls overlap.
pub(crate) struct Yielding<S> {
    store: S,
    direct: AtomicU64,
    gathered: AtomicU64,
}

impl<S> Yielding<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store, direct: AtomicU64::new(0), gathered: AtomicU64::new(0) }
    }

    /// Requests that came alone, companions left out.
    pub(crate) fn direct(&self) -> u64 {
        self.direct.load(Ordering::Relaxed)
    }

    /// Requests that came in batches, companions left out.
    pub(crate) fn gathered(&self) -> u64 {
        self.gathered.load(Ordering::Relaxed)
    }
}

/// A limit of this name is asked for company only, and does not count.
pub(crate) const COMPANION: &str = "companion";

fn is_companion(charge: &Charge<'_>) -> bool {
    charge.limit().name() == COMPANION
}

impl<S: Store> Store for Yielding<S> {
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.direct.fetch_add(u64::from(!request.charges().iter().any(is_companion)), Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.store.decide(request, now).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        self.direct.fetch_add(u64::from(!is_companion(charge)), Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.store.decide_one(charge, clock).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let own = batch.iter().filter(|run| !run.request().charges().iter().any(is_companion));
        self.gathered.fetch_add(own.map(|run| u64::from(run.count())).sum(), Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.store.decide_batch(batch, now).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store.route(charge)
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.store.export(limit, key, now).await
    }
}
