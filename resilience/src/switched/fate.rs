//! What happens to one charge, whoever asks and however the store is called.

use std::sync::Arc;

use tollgate_core::store::RawDecision;
use tollgate_core::{Charge, Decision, Source};

use super::shadow::Watch;

/// What happens to a charge.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// The store decides.
    Asked,
    /// The store is asked, but cannot turn it away.
    Watched(Arc<Watch>),
    /// It passes; the store is not asked.
    Passes,
    /// It is turned away, and its request with it; the store is not asked.
    DenyListed,
}

impl Fate {
    pub(super) fn is_asked(&self) -> bool {
        matches!(self, Self::Asked)
    }

    pub(super) fn is_barred(&self) -> bool {
        matches!(self, Self::DenyListed)
    }

    /// The decision, if the store is not asked.
    pub(super) fn unasked(&self, charge: &Charge<'_>) -> Option<Decision> {
        match self {
            Self::Asked | Self::Watched(_) => None,
            Self::Passes => Some(RawDecision::allow(charge, Source::Switch).into()),
            Self::DenyListed => Some(RawDecision::deny_listed(charge).into()),
        }
    }

    /// What the caller is told of the store's answer.
    pub(super) fn told<E>(&self, charge: &Charge<'_>, answer: Result<Decision, E>) -> Result<Decision, E> {
        match self {
            Self::Watched(watch) => Ok(watch.told(charge, answer.ok())),
            Self::Asked | Self::Passes | Self::DenyListed => answer,
        }
    }
}
