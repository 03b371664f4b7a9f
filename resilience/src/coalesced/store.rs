//! The calls of a coalesced store.

use std::future::Future;
use std::sync::Arc;

use tollgate_core::store::{Capability, Export, OwnedRequest, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, IdempotencyKey, Key, Limit, Observer, Request, StoreError, Time, Verdict,
};

use super::Coalesced;
use super::batch::QueuedRequest;
use super::in_flight::{Coalescer, DirectCall, send_batches};
use super::routes::Dispatch;
use super::waiters::Reply;

impl<S: Store + 'static, C: Clock + 'static> Coalesced<S, C> {
    /// Returns the route of a request, if all of its charges share one.
    fn common_route(&self, request: Request<'_>) -> Option<u64> {
        let (first, rest) = request.charges().split_first()?;
        let route = self.store().route(first);
        rest.iter().all(|charge| self.store().route(charge) == route).then_some(route)
    }

    /// Sends a request by `direct`, or queues `queued` and converts its verdict by `convert`.
    async fn send_or_wait<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        route: u64,
        direct: impl FnOnce() -> F,
        queued: impl FnOnce() -> QueuedRequest,
        convert: impl FnOnce(Verdict) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Coalescer { routes, clock, .. } = &*self.coalescer;
        match routes.admit(route, clock, queued) {
            Dispatch::Direct(call) => {
                let _in_flight = DirectCall::new(&self.coalescer, call);
                direct().await
            }
            Dispatch::Wait(waiter, call) => {
                if let Some(call) = call {
                    send_batches(&self.coalescer, call);
                }
                match waiter.await {
                    Reply::Result(result) => result.and_then(convert),
                    Reply::NotSent => {
                        routes.count_direct_call();
                        direct().await
                    }
                }
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + 'static, C: Clock + 'static> Store for Coalesced<S, C> {
    fn capability(&self) -> Capability {
        self.store().capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        request.supported()?;
        let direct = || self.store().decide(request, now);
        let Some(route) = self.common_route(request) else { return direct().await };
        let queued = || QueuedRequest { request: OwnedRequest::from(request), now };
        self.send_or_wait(route, direct, queued, Ok).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        charge.supported()?;
        let direct = || self.store().decide_one(charge, clock);
        let queued = || QueuedRequest { request: OwnedRequest::from(charge), now: clock.now() };
        self.send_or_wait(self.store().route(charge), direct, queued, Verdict::into_single).await
    }

    fn decide_batch(
        &self,
        batch: &[Run<'_>],
        now: Time,
    ) -> impl Future<Output = Vec<Result<RunVerdict, StoreError>>> + Send {
        self.store().decide_batch(batch, now)
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store().route(charge)
    }

    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.store().attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.store().decide_detached(request, now);
    }

    fn export(
        &self,
        limit: &Limit,
        key: Key<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Export, StoreError>> + Send {
        self.store().export(limit, key, now)
    }

    fn apply_deltas(
        &self,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Vec<Export>, StoreError>> + Send {
        self.store().apply_deltas(request, now)
    }

    fn forget_idempotency_keys(
        &self,
        answered: &[(Key<'_>, IdempotencyKey)],
    ) -> impl Future<Output = ()> + Send {
        self.store().forget_idempotency_keys(answered)
    }
}
