//! The limiter: a store and a clock.

#[cfg(feature = "std")]
mod admission;
#[cfg(feature = "std")]
mod lease;
mod now;
#[cfg(feature = "std")]
mod permit;
#[cfg(feature = "std")]
mod queue;
mod reservation;
#[cfg(feature = "std")]
mod waiting;

use alloc::sync::Arc;
use core::future::Future;

#[cfg(feature = "std")]
pub use admission::Admission;
#[cfg(feature = "std")]
pub use lease::Lease;
#[cfg(feature = "std")]
pub use permit::Permit;
pub use reservation::Reservation;
#[cfg(feature = "std")]
pub use waiting::Wait;

use crate::charge::{Action, Charge, IdempotencyKey, Request};
use crate::clock::Clock;
#[cfg(feature = "std")]
use crate::clock::SystemClock;
use crate::decision::{Balance, Decision, Verdict};
use crate::error::StoreError;
use crate::event::{Event, Observer};
use crate::key::Key;
use crate::limit::Limit;
use crate::store::Store;

/// Checks charges against limits, on a store and by a clock.
///
/// Methods that end in `_now` exist if the store never waits, and need no runtime. The others are async, and exist on
/// every store.
///
/// A limiter is created once and shared; no method needs `&mut`.
pub struct Limiter<S, #[cfg(feature = "std")] C = SystemClock, #[cfg(not(feature = "std"))] C> {
    store: S,
    clock: C,
    observer: Option<Arc<dyn Observer>>,
    exactly_once: bool,
    #[cfg(feature = "std")]
    queues: queue::Queues,
}

#[cfg(feature = "std")]
impl<S: Store> Limiter<S> {
    /// Creates a limiter on `store`, by the system clock.
    pub fn new(store: S) -> Self {
        Self::with_clock(store, SystemClock::new())
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Creates a limiter on `store`, by `clock`.
    pub fn with_clock(store: S, clock: C) -> Self {
        Self {
            store,
            clock,
            observer: None,
            exactly_once: false,
            #[cfg(feature = "std")]
            queues: queue::Queues::default(),
        }
    }

    /// Sends an idempotency key with plain checks, too, on stores whose calls may end with an unknown effect. A check
    /// whose answer is lost is then repeated and counts once. Without it, such a check returns an error with
    /// [`Effect::Unknown`](crate::Effect::Unknown). Debits, refunds, reservations and leases always have an idempotency
    /// key. Cost: the store records every check, which is about as expensive as the check itself. Default: off.
    #[must_use]
    pub fn exactly_once(mut self) -> Self {
        self.exactly_once = true;
        self
    }

    /// Sends the events of this limiter, and of the store and every wrapper below it, to `observer`. A store that
    /// several limiters share keeps the observer that it got first.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.store.attach_observer(&observer);
        self.observer = Some(observer);
        self
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns the store, to wrap it.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Returns the clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Checks whether one unit is allowed, and debits it. An error on a concurrency limit: nobody could release the
    /// slot, so use [`acquire`](Self::acquire).
    #[inline]
    pub fn check<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.charge(limit.charge(key))
    }

    /// Decides a charge with a cost, a maximum wait or another action; [`Limit::charge`] creates one. An error if it
    /// would take a slot of a concurrency limit without a lease.
    #[inline]
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function would copy the charge once more before it starts"
    )]
    pub fn charge(&self, charge: Charge<'_>) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        async move {
            let charges = core::slice::from_ref(&charge);
            let result = match charge.releasable() {
                Err(error) => Err(error),
                Ok(()) if self.needs_key(charges) => self.charge_idempotent(self.request(charges)).await,
                Ok(()) => self.store.decide_one(&charge, &self.clock).await,
            };
            match &result {
                Ok(decision) => self.report_decision(&charge, decision),
                Err(error) => self.report_error(charges, error),
            }
            result
        }
    }

    async fn charge_idempotent(&self, request: Request<'_>) -> Result<Decision, StoreError> {
        self.store.decide(request, self.clock.now()).await?.into_single()
    }

    /// Decides a charge with the idempotency key of its caller, where it needs one.
    async fn charge_with_key(
        &self,
        charge: &Charge<'_>,
        key: impl FnOnce() -> Option<IdempotencyKey> + Send,
    ) -> Result<Decision, StoreError> {
        let charges = core::slice::from_ref(charge);
        let key = if self.needs_key(charges) { key() } else { None };
        let request = Request::new(charges);
        let request = key.map_or(request, |key| request.with_idempotency_key(key));
        let result = self.store.decide(request, self.clock.now()).await;
        self.report(charges, result)?.into_single()
    }

    /// Decides charges whose result nobody awaits.
    #[cfg(feature = "std")]
    fn decide_detached(&self, charges: &[Charge<'_>]) {
        self.store.decide_detached(self.request(charges), self.clock.now());
    }

    /// Checks several charges: all of them are debited or none is. An error if one of them would take a slot of a
    /// concurrency limit without a lease.
    pub async fn check_all<'a>(&self, charges: impl AsRef<[Charge<'a>]>) -> Result<Verdict, StoreError> {
        let charges = charges.as_ref();
        Ok(self.decide_all(charges).await?.with_names(charges))
    }

    async fn decide_all(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let result = match charges.iter().try_for_each(Charge::releasable) {
            Ok(()) => self.store.decide(self.request(charges), self.clock.now()).await,
            Err(error) => Err(error),
        };
        self.report(charges, result)
    }

    /// Checks whether one unit would be allowed, without debiting it.
    pub async fn peek<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Result<Decision, StoreError> {
        self.charge(limit.charge(key).with_cost(0)).await
    }

    /// Debits up to `most` units, as many as remain, in one step; [`Decision::granted`] is the amount.
    pub async fn take_up_to<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        most: u32,
    ) -> Result<Decision, StoreError> {
        self.charge(limit.charge(key).with_cost(most.min(Limit::MAX_COUNT)).with_action(Action::TakeUpTo))
            .await
    }

    /// Debits `cost` unconditionally. The balance may go below zero, and is repaid over time.
    pub async fn debit<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Balance, StoreError> {
        let debit = limit.charge(key).with_cost(cost).with_action(Action::Debit { at: None });
        self.charge(debit).await.map(Balance::from)
    }

    /// Refunds `cost`.
    pub async fn refund<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Balance, StoreError> {
        let refund = limit.charge(key).with_cost(cost).with_action(Action::Refund { at: None });
        self.charge(refund).await.map(Balance::from)
    }

    /// Resets the key: its state equals a fresh one afterwards.
    pub async fn reset<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Result<(), StoreError> {
        self.charge(limit.charge(key).with_action(Action::Reset)).await.map(drop)
    }

    /// Where calls may end with an unknown effect, they get an idempotency key, so that they can be repeated without
    /// being executed twice. Plain checks get one only with [`exactly_once`](Self::exactly_once): to remember them
    /// would cost as much as to decide them.
    #[inline]
    fn needs_key(&self, charges: &[Charge<'_>]) -> bool {
        // The capability comes last: nearly all charges are plain checks.
        cfg!(feature = "std")
            && charges.iter().any(|charge| (self.exactly_once || !charge.is_check()) && !charge.is_peek())
            && self.store.capability().unknown_effects
    }

    fn request<'a>(&self, charges: &'a [Charge<'a>]) -> Request<'a> {
        let request = Request::new(charges);
        #[cfg(feature = "std")]
        if self.needs_key(charges) {
            return request.with_idempotency_key(crate::IdempotencyKey::unique());
        }
        request
    }

    /// Reports the result of a request, charge by charge.
    #[inline]
    fn report(
        &self,
        charges: &[Charge<'_>],
        result: Result<Verdict, StoreError>,
    ) -> Result<Verdict, StoreError> {
        match &result {
            Ok(verdict) => {
                for (charge, decision) in charges.iter().zip(verdict.decisions()) {
                    self.report_decision(charge, decision);
                }
            }
            Err(error) => self.report_error(charges, error),
        }
        result
    }

    #[inline]
    fn report_decision(&self, charge: &Charge<'_>, decision: &Decision) {
        if let Some(observer) = &self.observer {
            observer.observe(Event::Decided { limit: charge.limit.name(), decision });
        }
    }

    #[cold]
    fn report_error(&self, charges: &[Charge<'_>], error: &StoreError) {
        if let Some(observer) = &self.observer {
            for charge in charges {
                observer.observe(Event::Failed { limit: charge.limit.name(), error });
            }
        }
    }
}

impl<S: core::fmt::Debug, C: core::fmt::Debug> core::fmt::Debug for Limiter<S, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Limiter")
            .field("store", &self.store)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
