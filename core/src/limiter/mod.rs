//! The limiter: a store and a clock.

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
pub use lease::Lease;
#[cfg(feature = "std")]
pub use permit::Permit;
pub use reservation::Reservation;
#[cfg(feature = "std")]
pub use waiting::Wait;

use crate::charge::{Action, Charge, Request};
use crate::clock::Clock;
#[cfg(feature = "std")]
use crate::clock::SystemClock;
use crate::decision::{Decision, Verdict};
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

    /// Sends events to `observer`.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
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

    /// Checks whether one unit is allowed, and debits it.
    #[inline]
    pub fn check<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.charge(limit.charge(key))
    }

    /// Decides a charge with a cost, a maximum wait or another action; [`Limit::charge`] creates one.
    #[inline]
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function would copy the charge once more before it starts"
    )]
    pub fn charge(&self, charge: Charge<'_>) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        async move {
            let decision = if self.needs_key(core::slice::from_ref(&charge)) {
                self.charge_idempotent(&charge).await?
            } else {
                self.store.decide_one(&charge, &self.clock).await?
            };
            self.report_one(&charge, &decision);
            Ok(decision)
        }
    }

    async fn charge_idempotent(&self, charge: &Charge<'_>) -> Result<Decision, StoreError> {
        let request = self.request(core::slice::from_ref(charge));
        self.store.decide(request, self.clock.now()).await?.into_single()
    }

    /// Decides a charge whose result nobody awaits.
    #[cfg(feature = "std")]
    fn charge_detached(&self, charge: Charge<'_>) {
        self.store.decide_detached(self.request(&[charge]), self.clock.now());
    }

    /// Checks several charges: all of them are debited or none is.
    pub async fn check_all<'a>(&self, charges: impl AsRef<[Charge<'a>]>) -> Result<Verdict, StoreError> {
        let charges = charges.as_ref();
        let verdict = self.store.decide(self.request(charges), self.clock.now()).await?;
        self.report(charges, &verdict);
        Ok(verdict)
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
    ) -> Result<Decision, StoreError> {
        self.charge(limit.charge(key).with_cost(cost).with_action(Action::Debit { at: None })).await
    }

    /// Refunds `cost`.
    pub async fn refund<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Decision, StoreError> {
        self.charge(limit.charge(key).with_cost(cost).with_action(Action::Refund { at: None })).await
    }

    /// Resets the key: its state equals a fresh one afterwards.
    pub async fn reset<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Result<(), StoreError> {
        self.charge(limit.charge(key).with_action(Action::Reset)).await.map(drop)
    }

    /// Where calls may end with an unknown effect, they get an idempotency key, so that they can be repeated without being
    /// executed twice. Plain checks get one only with [`exactly_once`](Self::exactly_once): to remember them would cost as
    /// much as to decide them.
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

    #[inline]
    fn report(&self, charges: &[Charge<'_>], verdict: &Verdict) {
        for (charge, decision) in charges.iter().zip(verdict.decisions()) {
            self.report_one(charge, decision);
        }
    }

    #[inline]
    fn report_one(&self, charge: &Charge<'_>, decision: &Decision) {
        if let Some(observer) = &self.observer {
            observer.observe(Event::Decided { limit: charge.limit.name(), decision });
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
