//! What a user holds: a store and a clock.

#[cfg(feature = "std")]
mod lease;
#[cfg(feature = "std")]
mod line;
mod now;
mod reservation;
#[cfg(feature = "std")]
mod waiting;

use alloc::sync::Arc;
use core::future::Future;

#[cfg(feature = "std")]
pub use lease::Lease;
pub use reservation::Reservation;
#[cfg(feature = "std")]
pub use waiting::Patience;

use crate::charge::{Action, Charge, Request};
use crate::clock::Clock;
#[cfg(feature = "std")]
use crate::clock::SystemClock;
use crate::decision::{Decision, Verdict};
use crate::error::StoreError;
use crate::event::{Event, Observer};
use crate::key::Key;
use crate::limit::{Limit, MAX_COUNT};
use crate::store::Store;

/// Decides whether something may pass, on a store and by a clock.
///
/// Methods that end in `_now` are there if the store never waits; they need no runtime. The others are
/// there on every store.
///
/// A limiter is made once and shared; it needs no `mut`.
pub struct Limiter<S, #[cfg(feature = "std")] C = SystemClock, #[cfg(not(feature = "std"))] C> {
    store: S,
    clock: C,
    observer: Option<Arc<dyn Observer>>,
    exactly_once: bool,
    #[cfg(feature = "std")]
    line: line::Lines,
}

#[cfg(feature = "std")]
impl<S: Store> Limiter<S> {
    /// A limiter on `store`, by the machine's clock.
    pub fn new(store: S) -> Self {
        Self::with_clock(store, SystemClock::new())
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// A limiter on `store`, by `clock`.
    pub fn with_clock(store: S, clock: C) -> Self {
        Self {
            store,
            clock,
            observer: None,
            exactly_once: false,
            #[cfg(feature = "std")]
            line: line::Lines::default(),
        }
    }

    /// Names plain checks, too, on stores whose answers may be lost. A check whose answer was lost is then asked for
    /// again, and counts once; otherwise it is an error that says that it may have taken effect. Everything else
    /// (debits, refunds, reservations, leases) is always named. The store has to remember every check for that, which
    /// costs it about as much as the check itself.
    #[must_use]
    pub fn exactly_once(mut self) -> Self {
        self.exactly_once = true;
        self
    }

    /// Tells `observer` what happens.
    #[must_use]
    pub fn observed_by(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store, to put something around it.
    pub fn into_store(self) -> S {
        self.store
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// May one pass?
    #[inline]
    pub fn check<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        self.charge(limit.charge(key))
    }

    /// May this charge pass? For a cost, a wait or another action; [`Limit::charge`] makes one.
    #[inline]
    #[expect(
        clippy::manual_async_fn,
        reason = "an async function would copy the charge once more before it starts"
    )]
    pub fn charge(&self, charge: Charge<'_>) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        async move {
            let decision = if self.names(core::slice::from_ref(&charge)) {
                self.charge_named(&charge).await?
            } else {
                self.store.decide_one(&charge, &self.clock).await?
            };
            self.report_one(&charge, &decision);
            Ok(decision)
        }
    }

    async fn charge_named(&self, charge: &Charge<'_>) -> Result<Decision, StoreError> {
        let request = self.request(core::slice::from_ref(charge));
        let verdict = self.store.decide(request, self.clock.now()).await?;
        verdict.into_first().ok_or_else(StoreError::no_decision)
    }

    /// May they all pass? All are debited or none is.
    pub async fn check_all<'a>(&self, charges: impl AsRef<[Charge<'a>]>) -> Result<Verdict, StoreError> {
        let charges = charges.as_ref();
        let verdict = self.store.decide(self.request(charges), self.clock.now()).await?;
        self.report(charges, &verdict);
        Ok(verdict)
    }

    /// What would be answered, without taking anything.
    pub async fn peek<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Result<Decision, StoreError> {
        self.charge(limit.charge(key).cost(0)).await
    }

    /// Takes as many as there are, at most `most`, in one step; [`Decision::granted`] says how many.
    pub async fn take_up_to<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        most: u32,
    ) -> Result<Decision, StoreError> {
        self.charge(limit.charge(key).cost(most.min(MAX_COUNT)).action(Action::TakeUpTo)).await
    }

    /// Takes `cost` whatever there is. The balance may go below zero; time repays it.
    pub async fn debit<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Decision, StoreError> {
        self.charge(limit.charge(key).cost(cost).action(Action::Debit { at: None })).await
    }

    /// Gives `cost` back.
    pub async fn refund<'k>(
        &self,
        limit: &'k Limit,
        key: impl Into<Key<'k>>,
        cost: u32,
    ) -> Result<Decision, StoreError> {
        self.charge(limit.charge(key).cost(cost).action(Action::Refund { at: None })).await
    }

    /// Forgets the key: as good as new.
    pub async fn forget<'k>(&self, limit: &'k Limit, key: impl Into<Key<'k>>) -> Result<(), StoreError> {
        self.charge(limit.charge(key).action(Action::Forget)).await.map(drop)
    }

    /// Where answers may be lost, a call is named, so that it can be repeated without being executed twice. Plain
    /// checks are named only if that was asked for: to remember them would cost as much as to decide them.
    #[inline]
    fn names(&self, charges: &[Charge<'_>]) -> bool {
        // The store is asked last: nearly all are plain checks.
        cfg!(feature = "std")
            && charges.iter().any(|charge| (self.exactly_once || !charge.is_check()) && !charge.only_looks())
            && self.store.capability().may_lose_answers
    }

    fn request<'a>(&self, charges: &'a [Charge<'a>]) -> Request<'a> {
        let request = Request::new(charges);
        #[cfg(feature = "std")]
        if self.names(charges) {
            return request.with_id(crate::OperationId::unique());
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
