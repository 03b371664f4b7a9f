//! Slots of concurrency limits that release themselves.

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Lease, Limiter};
use crate::charge::{Action, Charge};
use crate::clock::Clock;
#[cfg(feature = "tokio")]
use crate::decision::Outcome;
use crate::decision::{Decision, Source};
use crate::error::{Effect, StoreError};
use crate::key::Key;
use crate::limit::Limit;
use crate::store::{ImmediateStore, OwnedCharge, RawDecision, Store};

/// A slot of a concurrency limit, if one was free, that is released when the permit is dropped: at once on stores that
/// never wait, in the background on the others. It owns what it needs for that, so it can be moved into a task or a
/// response.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use std::sync::Arc;
/// # use tollgate::{Limit, Limiter, StoreError, store::Store};
///
/// # async fn export<S: Store + 'static>(limiter: Arc<Limiter<S>>, exports: &Limit) -> Result<(), StoreError> {
/// // exports: Limit::concurrent(3).build("exports")?; limiter: Arc<Limiter<…>>
/// let permit = limiter.acquire(exports, "user:42").await?;
/// if !permit.is_held() {
///     return Ok(()); // three exports of this user are in flight
/// }
/// // … the work; every way out of here releases the slot: a return, `?`, a panic, a dropped future
/// # Ok(())
/// # }
/// ```
///
/// A permit that is leaked, or whose release does not reach the store, expires after the limit's lease time.
#[must_use = "a permit is released when it is dropped"]
pub struct Permit {
    holder: Option<Arc<dyn Holder>>,
    charge: OwnedCharge,
    decision: Decision,
    lost: Arc<AtomicBool>,
    #[cfg(feature = "tokio")]
    renewal: Option<tokio::task::AbortHandle>,
}

impl Permit {
    pub(super) fn new(holder: Arc<dyn Holder>, charge: &Charge<'_>, decision: Decision) -> Self {
        Self {
            holder: Some(holder),
            charge: charge.into(),
            decision,
            lost: Arc::default(),
            #[cfg(feature = "tokio")]
            renewal: None,
        }
    }

    /// Returns the permit if the decision took the slot. Otherwise there is nothing to release.
    pub(super) fn decided(mut self, decision: Option<Decision>) -> Option<Self> {
        match decision {
            Some(decision) if decision.is_allowed() => {
                self.decision = decision;
                Some(self)
            }
            Some(_) | None => {
                self.forget();
                None
            }
        }
    }

    /// Returns the decision; denied if every slot was taken.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns whether a slot was free, and has not been lost since.
    pub fn is_held(&self) -> bool {
        self.decision.is_allowed() && !self.is_lost()
    }

    /// Returns whether a [renewal](Limiter::acquire_renewed) found that the lease had expired: the slot may be somebody
    /// else's by now.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Keeps the slot until its lease expires, instead of releasing it.
    pub fn forget(mut self) {
        self.holder = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        #[cfg(feature = "tokio")]
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
        if let Some(holder) = self.holder.take()
            && self.is_held()
        {
            holder.release(&self.charge.as_charge());
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("decision", &self.decision)
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

/// A limiter whose type is erased, so that a permit has no type parameters.
pub(super) trait Holder: Send + Sync {
    fn release(&self, charge: &Charge<'_>);
}

impl<S: Store, C: Clock> Holder for Limiter<S, C> {
    fn release(&self, charge: &Charge<'_>) {
        self.decide_detached(&[charge.with_action(Action::Release)]);
    }
}

impl<S: Store + 'static, C: Clock + 'static> Limiter<S, C> {
    /// Acquires a slot that is released when the permit is dropped. [`Permit::is_held`] says whether one was free. An
    /// error on limits without leases.
    pub async fn acquire<'a>(
        self: &Arc<Self>,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
    ) -> Result<Permit, StoreError> {
        let charge = Lease::asking(limit, key.into())?;
        // Held from before the call on: the slot is released as well if the caller goes away during the call, or if
        // the call fails with an unknown effect.
        let held = RawDecision::allow(&charge, Source::Store).into();
        let mut permit = Permit::new(Arc::clone(self) as _, &charge, held);
        match self.charge(charge).await {
            Ok(decision) => {
                permit.decision = decision;
                Ok(permit)
            }
            Err(error) => {
                if error.effect() == Effect::None {
                    permit.forget();
                }
                Err(error)
            }
        }
    }
}

#[cfg(feature = "tokio")]
impl<S: Store + 'static, C: crate::clock::Timer + 'static> Limiter<S, C> {
    /// Acquires a slot as [`acquire`](Self::acquire) does, and renews its lease in the background for as long as the
    /// permit is held, three times per lease time. A renewal that fails is tried again; one that comes too late marks
    /// the permit as [lost](Permit::is_lost).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn acquire_renewed<'a>(
        self: &Arc<Self>,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
    ) -> Result<Permit, StoreError> {
        let mut permit = self.acquire(limit, key).await?;
        if permit.is_held() {
            let (limiter, charge, lost) = (Arc::clone(self), permit.charge.clone(), Arc::clone(&permit.lost));
            let task = tokio::spawn(async move {
                let renewal = charge.as_charge().with_action(Action::Renew);
                let pause = renewal.limit().period() / RENEWALS_PER_LEASE;
                loop {
                    limiter.clock.sleep(pause).await;
                    let renewed = limiter.charge(renewal).await;
                    // A failure policy may deny, too: only the store knows that a lease has expired.
                    if renewed.is_ok_and(|decision| decision.outcome() == Outcome::LeaseLost) {
                        lost.store(true, Ordering::Relaxed);
                        return;
                    }
                }
            });
            permit.renewal = Some(task.abort_handle());
        }
        Ok(permit)
    }
}

/// Two renewals may fail before the lease expires.
#[cfg(feature = "tokio")]
const RENEWALS_PER_LEASE: u32 = 3;

impl<S: ImmediateStore + 'static, C: Clock + 'static> Limiter<S, C> {
    /// Acquires a slot that is released when the permit is dropped. [`Permit::is_held`] says whether one was free. An
    /// error on limits without leases.
    pub fn acquire_now<'a>(
        self: &Arc<Self>,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
    ) -> Result<Permit, StoreError> {
        let charge = Lease::asking(limit, key.into())?;
        Ok(Permit::new(Arc::clone(self) as _, &charge, self.decide_now(&charge)))
    }
}
