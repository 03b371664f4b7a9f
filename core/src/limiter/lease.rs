//! Slots of concurrency limits, released by hand: acquire a lease, renew it, release it.

use super::Limiter;
use crate::charge::{Action, Charge, LeaseId};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::store::{ImmediateStore, Store};

/// The lease of a slot of a concurrency limit, if one was free. It ends when it is released, or expires after the
/// limit's lease time; long work renews it. A lease that is dropped is not released: [`Permit`](super::Permit) is the
/// handle that releases itself.
#[derive(Debug)]
#[must_use = "a lease that nobody releases is held until it expires"]
pub struct Lease<'a> {
    charge: Charge<'a>,
    decision: Decision,
}

impl<'a> Lease<'a> {
    /// Returns the decision; denied if every slot was taken.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns whether a slot was free and is held now.
    pub fn is_held(&self) -> bool {
        self.decision.is_allowed()
    }

    /// The charge that acquires a slot under a new lease. An error on limits without leases.
    pub(super) fn asking(limit: &'a Limit, key: Key<'a>) -> Result<Charge<'a>, StoreError> {
        let charge = limit.charge(key).with_lease(LeaseId::unique());
        // Only limits with leases support renewing.
        charge.with_action(Action::Renew).supported().map(|()| charge)
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Acquires a slot that is released by hand. [`acquire`](Self::acquire) returns a permit, which releases itself. An
    /// error on limits without leases.
    pub async fn acquire_lease<'a>(
        &self,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
    ) -> Result<Lease<'a>, StoreError> {
        let charge = Lease::asking(limit, key.into())?;
        let decision = self.charge(charge).await?;
        Ok(Lease { charge, decision })
    }

    /// Renews a lease for another lease time. Denied if it had expired: acquire again.
    pub async fn renew(&self, lease: &Lease<'_>) -> Result<Decision, StoreError> {
        self.charge(lease.charge.with_action(Action::Renew)).await
    }

    /// Releases a lease.
    pub async fn release(&self, lease: Lease<'_>) -> Result<(), StoreError> {
        self.charge(lease.charge.with_action(Action::Release)).await.map(drop)
    }
}

impl<S: ImmediateStore, C: Clock> Limiter<S, C> {
    /// Acquires a slot that is released by hand. [`acquire_now`](Self::acquire_now) returns a permit, which releases
    /// itself. An error on limits without leases.
    pub fn acquire_lease_now<'a>(
        &self,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
    ) -> Result<Lease<'a>, StoreError> {
        let charge = Lease::asking(limit, key.into())?;
        Ok(Lease { charge, decision: self.decide_now(&charge) })
    }

    /// Renews a lease for another lease time. Denied if it had expired: acquire again.
    pub fn renew_now(&self, lease: &Lease<'_>) -> Decision {
        self.decide_now(&lease.charge.with_action(Action::Renew))
    }

    /// Releases a lease.
    #[expect(clippy::needless_pass_by_value, reason = "a lease is released once")]
    pub fn release_now(&self, lease: Lease<'_>) {
        let _ = self.decide_now(&lease.charge.with_action(Action::Release));
    }
}
