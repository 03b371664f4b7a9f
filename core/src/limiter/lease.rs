//! Work in flight: acquire, renew, release.

use super::Limiter;
use crate::charge::{Action, Charge, LeaseId};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::error::StoreError;
use crate::key::Key;
use crate::limit::Limit;
use crate::store::{ImmediateStore, Store};

/// A place among those in flight, if there was one. It ends when it is released, or by itself when the
/// limit's lease time is over; long work renews it.
#[derive(Clone, Copy, Debug)]
#[must_use = "a lease that nobody releases is held until it expires"]
pub struct Lease<'a> {
    charge: Charge<'a>,
    decision: Decision,
}

impl Lease<'_> {
    /// The decision; denied if every place was taken.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// A place was free and is held now.
    pub fn is_held(&self) -> bool {
        self.decision.is_allowed()
    }
}

fn asking<'a>(limit: &'a Limit, key: Key<'a>) -> Result<Charge<'a>, StoreError> {
    let charge = limit.charge(key).lease(LeaseId::unique());
    // Renewing is what only limits with leases can do.
    charge.action(Action::Renew).supported().map(|()| charge)
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Takes a place among those in flight. An error on limits that have no leases.
    pub async fn acquire<'a>(
        &self,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
    ) -> Result<Lease<'a>, StoreError> {
        let charge = asking(limit, key.into())?;
        let decision = self.charge(charge).await?;
        Ok(Lease { charge, decision })
    }

    /// Keeps the place for another lease time. Denied if it had expired: acquire again.
    pub async fn renew(&self, lease: &Lease<'_>) -> Result<Decision, StoreError> {
        self.charge(lease.charge.action(Action::Renew)).await
    }

    /// Gives the place back.
    pub async fn release(&self, lease: Lease<'_>) -> Result<(), StoreError> {
        self.charge(lease.charge.action(Action::Release)).await.map(drop)
    }
}

impl<S: ImmediateStore, C: Clock> Limiter<S, C> {
    /// Takes a place among those in flight. An error on limits that have no leases.
    pub fn acquire_now<'a>(
        &self,
        limit: &'a Limit,
        key: impl Into<Key<'a>>,
    ) -> Result<Lease<'a>, StoreError> {
        let charge = asking(limit, key.into())?;
        Ok(Lease { charge, decision: self.decide_now(&charge) })
    }

    /// Keeps the place for another lease time. Denied if it had expired: acquire again.
    pub fn renew_now(&self, lease: &Lease<'_>) -> Decision {
        self.decide_now(&lease.charge.action(Action::Renew))
    }

    /// Gives the place back.
    pub fn release_now(&self, lease: Lease<'_>) {
        let _ = self.decide_now(&lease.charge.action(Action::Release));
    }
}
