//! Failure policies: what decides a charge when the store does not.

use std::fmt;
use std::sync::Arc;

use tollgate_core::store::ImmediateStore;
use tollgate_core::{Charge, Decision, Request, StoreError, Time, Verdict};

/// The failure policy of a limit: what decides its charges when the store fails or is not called.
///
/// Set by [`GuardedBuilder::on_failure`](crate::GuardedBuilder::on_failure) for all limits, and by
/// [`on_failure_of`](crate::GuardedBuilder::on_failure_of) for single limits. Default: [`Allow`](Self::Allow).
///
/// | | take, take up to, reserve, renew | debit, refund, release | reset |
/// |---|---|---|---|
/// | [`Allow`](Self::Allow) | allowed | error | error |
/// | [`Deny`](Self::Deny) | denied; retry when the store may be called again | error | error |
/// | [`Fallback`](Self::Fallback) | decided by the fallback store | applied to the fallback store | error |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OnFailure {
    /// Fail open: allow. For limits where an outage of the rate limiter must not become an outage of the service.
    Allow,
    /// Fail closed: deny. For limits that protect something critical, such as login attempts.
    Deny,
    /// Decide on a fallback store, with a share of the limit.
    Fallback(FallbackStore),
}

impl OnFailure {
    /// Returns whether this is a fallback for one of 0 processes.
    pub(super) fn has_no_share(&self) -> bool {
        match self {
            Self::Allow | Self::Deny => false,
            Self::Fallback(fallback) => fallback.share.of == 0,
        }
    }
}

impl From<FallbackStore> for OnFailure {
    fn from(fallback: FallbackStore) -> Self {
        Self::Fallback(fallback)
    }
}

/// A store in the memory of this process that decides while the guarded store does not, with a [`Share`] of each limit.
///
/// It is an [`ImmediateStore`], which never waits: a fallback must not depend on anything that can fail. Its decisions
/// have the source [`Fallback`](tollgate_core::Source::Fallback). If it panics, or if a share of the limit is too small
/// to be a limit, the charge is denied. What it grants is [reconciled](crate::Guarded#reconciliation) with the store.
///
/// ```
/// use tollgate::memory::MemoryStore;
/// use tollgate::resilience::{FallbackStore, Share};
///
/// // Ten processes share each limit; during an outage, each continues with a tenth of it.
/// let fallback = FallbackStore::new(MemoryStore::new(), Share::one_of(10));
/// # let _ = fallback;
/// ```
#[derive(Clone)]
pub struct FallbackStore {
    store: Arc<dyn DynImmediateStore>,
    share: Share,
}

impl FallbackStore {
    /// Creates a fallback that decides on `store`, with this share of each limit.
    pub fn new(store: impl ImmediateStore + 'static, share: Share) -> Self {
        Self { store: Arc::new(store), share }
    }

    pub(super) fn store(&self) -> &dyn DynImmediateStore {
        &*self.store
    }

    pub(super) fn share(&self) -> Share {
        self.share
    }

    pub(super) fn same_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }
}

impl fmt::Debug for FallbackStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackStore").field("share", &self.share).finish_non_exhaustive()
    }
}

/// The part of a limit that one process may grant by itself during an outage.
///
/// If each of `n` processes grants at most one of `n` parts, all of them together stay within the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub(super) of: u32,
}

impl Share {
    /// Creates the share of one of `count` processes. `one_of(1)` is the whole limit; `one_of(0)` is an error of
    /// [`GuardedBuilder::build`](crate::GuardedBuilder::build).
    pub const fn one_of(count: u32) -> Self {
        Self { of: count }
    }
}

/// The object-safe form of [`ImmediateStore`].
pub(super) trait DynImmediateStore: Send + Sync {
    fn charge_at(&self, charge: &Charge<'_>, now: Time) -> Decision;
    fn decide_at(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError>;
}

impl<S: ImmediateStore> DynImmediateStore for S {
    fn charge_at(&self, charge: &Charge<'_>, now: Time) -> Decision {
        self.charge_now(charge, &now)
    }

    fn decide_at(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.decide_now(request, now)
    }
}
