//! How one charge is handled.

use std::sync::Arc;

use tollgate_core::store::RawDecision;
use tollgate_core::{Charge, Decision, Source};

use super::shadow::ShadowCounters;

/// How a charge is handled.
#[derive(Clone, Debug)]
pub(super) enum Handling {
    /// The store decides.
    Enforced,
    /// The store decides and counts, but does not deny.
    Shadowed(Arc<ShadowCounters>),
    /// It is allowed, and not sent to the store.
    Bypassed,
    /// It and its request are denied, and not sent to the store.
    DenyListed,
}

impl Handling {
    pub(super) fn is_enforced(&self) -> bool {
        matches!(self, Self::Enforced)
    }

    pub(super) fn is_deny_listed(&self) -> bool {
        matches!(self, Self::DenyListed)
    }

    /// Returns the decision, if the store is not called.
    pub(super) fn without_store(&self, charge: &Charge<'_>) -> Option<Decision> {
        match self {
            Self::Enforced | Self::Shadowed(_) => None,
            Self::Bypassed => Some(RawDecision::allow(charge, Source::Switch).into()),
            Self::DenyListed => Some(RawDecision::deny_listed(charge).into()),
        }
    }

    /// Converts the store's result into the caller's.
    pub(super) fn convert<E>(&self, charge: &Charge<'_>, result: Result<Decision, E>) -> Result<Decision, E> {
        match self {
            Self::Shadowed(counters) => Ok(counters.shadow(charge, result.ok())),
            Self::Enforced | Self::Bypassed | Self::DenyListed => result,
        }
    }
}
