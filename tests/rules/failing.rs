//! A store that fails when a test says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tollgate::memory::MemoryStore;
use tollgate::store::{Capability, Export, Run, RunVerdict, Store, decide_one_by_one};
use tollgate::{ErrorKind, Key, Limit, Request, StoreError, Time, Verdict};

/// A memory store that fails. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failing(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    store: MemoryStore,
    fails: AtomicBool,
    /// Requests with a limit whose name contains this text fail.
    limits: Mutex<Option<&'static str>>,
}

impl Failing {
    pub(crate) fn fail(&self, fails: bool) {
        self.0.fails.store(fails, Ordering::SeqCst);
    }

    /// Fails requests with a limit whose name contains this text.
    pub(crate) fn fail_on(&self, limits: &'static str) {
        *self.0.limits.lock().expect("no panic") = Some(limits);
    }

    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.0.store
    }

    fn check(&self, request: Request<'_>) -> Result<(), StoreError> {
        let limits = *self.0.limits.lock().expect("no panic");
        let names = request.charges().iter().map(|charge| charge.limit().name());
        let fails = limits.is_some_and(|text| names.into_iter().any(|name| name.contains(text)));
        if fails || self.0.fails.load(Ordering::SeqCst) {
            return Err(StoreError::new(ErrorKind::Unavailable, "injected"));
        }
        Ok(())
    }
}

impl Store for Failing {
    fn capability(&self) -> Capability {
        self.0.store.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.check(request)?;
        self.0.store.decide(request, now).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        decide_one_by_one(self, batch, now).await
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.0.store.decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.0.store.export(limit, key, now).await
    }
}
