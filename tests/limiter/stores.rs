//! Stores whose answers come late, or get lost.

use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::memory::MemoryStore;
use tollgate::store::{Capability, Export, ImmediateStore, Run, RunVerdict, Store, decide_one_by_one};
use tollgate::{ErrorKind, Key, Limit, ManualClock, Request, StoreError, Time, Verdict};

/// Decides at once, and answers when it is polled again.
#[derive(Debug, Default)]
pub(crate) struct AnswersLater(MemoryStore);

impl AnswersLater {
    pub(crate) fn remaining(&self, limit: &Limit, key: &str) -> u32 {
        self.0.charge_now(&limit.charge(key).with_cost(0), &ManualClock::default()).remaining()
    }
}

impl Store for AnswersLater {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let verdict = self.0.decide(request, now).await;
        tokio::task::yield_now().await;
        verdict
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        decide_one_by_one(self, batch, now).await
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.0.decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.0.export(limit, key, now).await
    }
}

/// Executes every call, and loses the answer while told to.
#[derive(Debug, Default)]
pub(crate) struct LosesAnswers {
    store: MemoryStore,
    losing: AtomicBool,
}

impl LosesAnswers {
    pub(crate) fn lose(&self, losing: bool) {
        self.losing.store(losing, Ordering::Relaxed);
    }
}

impl Store for LosesAnswers {
    fn capability(&self) -> Capability {
        self.store.capability().with_unknown_effects()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let verdict = self.store.decide(request, now).await?;
        if self.losing.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Unavailable, "injected").with_unknown_effect());
        }
        Ok(verdict)
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        decide_one_by_one(self, batch, now).await
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.store.decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.store.export(limit, key, now).await
    }
}
