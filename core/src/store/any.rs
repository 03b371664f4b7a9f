//! Stores whose type is erased, and pointers to stores.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;

use async_trait::async_trait;

use super::{Capability, Export, ImmediateStore, Run, RunVerdict, Store};
use crate::charge::{Charge, IdempotencyKey, Request};
use crate::clock::Clock;
use crate::decision::{Decision, Verdict};
use crate::error::StoreError;
use crate::event::Observer;
use crate::key::Key;
use crate::limit::Limit;
use crate::time::Time;

/// The object-safe form of [`Store`]. Every store implements it; [`AnyStore`] wraps it as a store again.
#[async_trait]
pub trait DynStore: Send + Sync {
    /// See [`Store::capability`].
    fn dyn_capability(&self) -> Capability;
    /// See [`Store::decide`].
    async fn dyn_decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError>;
    /// See [`Store::decide_one`].
    async fn dyn_decide_one(&self, charge: &Charge<'_>, clock: &dyn Clock) -> Result<Decision, StoreError>;
    /// See [`Store::decide_batch`].
    async fn dyn_decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>>;
    /// See [`Store::route`].
    fn dyn_route(&self, charge: &Charge<'_>) -> u64;
    /// See [`Store::attach_observer`].
    fn dyn_attach_observer(&self, observer: &Arc<dyn Observer>);
    /// See [`Store::decide_detached`].
    fn dyn_decide_detached(&self, request: Request<'_>, now: Time);
    /// See [`Store::export`].
    async fn dyn_export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError>;
    /// See [`Store::apply_deltas`].
    async fn dyn_apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError>;
    /// See [`Store::forget_idempotency_keys`].
    async fn dyn_forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]);
}

#[async_trait]
impl<S: Store> DynStore for S {
    fn dyn_capability(&self) -> Capability {
        self.capability()
    }

    async fn dyn_decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.decide(request, now).await
    }

    async fn dyn_decide_one(&self, charge: &Charge<'_>, clock: &dyn Clock) -> Result<Decision, StoreError> {
        self.decide_one(charge, &clock).await
    }

    async fn dyn_decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.decide_batch(batch, now).await
    }

    fn dyn_route(&self, charge: &Charge<'_>) -> u64 {
        self.route(charge)
    }

    fn dyn_attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.attach_observer(observer);
    }

    fn dyn_decide_detached(&self, request: Request<'_>, now: Time) {
        self.decide_detached(request, now);
    }

    async fn dyn_export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.export(limit, key, now).await
    }

    async fn dyn_apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.apply_deltas(request, now).await
    }

    async fn dyn_forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        self.forget_idempotency_keys(answered).await;
    }
}

/// Any store, chosen at run time. Clones share the store.
#[derive(Clone)]
pub struct AnyStore(Arc<dyn DynStore>);

impl AnyStore {
    /// Erases the type of a store.
    pub fn new(store: impl Store + 'static) -> Self {
        Self(Arc::new(store))
    }
}

impl From<Arc<dyn DynStore>> for AnyStore {
    fn from(store: Arc<dyn DynStore>) -> Self {
        Self(store)
    }
}

impl core::fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("AnyStore").finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for AnyStore {
    fn capability(&self) -> Capability {
        self.0.dyn_capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.0.dyn_decide(request, now).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        self.0.dyn_decide_one(charge, clock).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.0.dyn_decide_batch(batch, now).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.0.dyn_route(charge)
    }

    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.0.dyn_attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.0.dyn_decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.0.dyn_export(limit, key, now).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.0.dyn_apply_deltas(request, now).await
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        self.0.dyn_forget_idempotency_keys(answered).await;
    }
}

/// A shared store is a store.
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Arc<S> {
    fn capability(&self) -> Capability {
        (**self).capability()
    }

    fn decide(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
        (**self).decide(request, now)
    }

    fn decide_one(
        &self,
        charge: &Charge<'_>,
        clock: &impl Clock,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        (**self).decide_one(charge, clock)
    }

    fn decide_batch(
        &self,
        batch: &[Run<'_>],
        now: Time,
    ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send {
        (**self).decide_batch(batch, now)
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        (**self).route(charge)
    }

    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        (**self).attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        (**self).decide_detached(request, now);
    }

    fn export(
        &self,
        limit: &Limit,
        key: Key<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Export, StoreError>> + Send {
        (**self).export(limit, key, now)
    }

    fn apply_deltas(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Vec<Export>, StoreError>> + Send {
        (**self).apply_deltas(request, now)
    }

    fn forget_idempotency_keys(
        &self,
        answered: &[(Key<'_>, IdempotencyKey)],
    ) -> impl Future<Output = ()> + Send {
        (**self).forget_idempotency_keys(answered)
    }
}

impl<S: ImmediateStore> ImmediateStore for Arc<S> {
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        (**self).charge_now(charge, clock)
    }

    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        (**self).decide_now(request, now)
    }
}
