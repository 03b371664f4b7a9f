//! Failure policies: what decides a charge when the store does not.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::ImmediateStore;
use tollgate_core::{Charge, Decision, Request, StoreError, Time, Verdict};

/// The failure policy of a limit: what decides its charges when the store fails or is not called.
///
/// Set by [`GuardedBuilder::on_failure`](crate::GuardedBuilder::on_failure) for all limits, and by
/// [`on_failure_of`](crate::GuardedBuilder::on_failure_of) for single limits, and replaced by
/// [`FailurePolicies`](crate::FailurePolicies) at run
/// time. Default: [`Allow`](Self::Allow).
///
/// | | take, take up to, reserve, renew | debit, refund, release | reset |
/// |---|---|---|---|
/// | [`Allow`](Self::Allow) | allowed | error | error |
/// | [`Deny`](Self::Deny) | denied; retry when the store may be called again | error | error |
/// | [`AllowFor`](Self::AllowFor) | allowed for a while, then denied as by `Deny` | error | error |
/// | [`Fallback`](Self::Fallback) | decided by the fallback store | applied to the fallback store | error |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OnFailure {
    /// Fail open: allow. For limits where an outage of the rate limiter must not become an outage of the service.
    Allow,
    /// Fail closed: deny. For limits that protect something critical, such as login attempts.
    Deny,
    /// Allow until the store has failed for this long, then deny: for limits where a short outage must not be noticed,
    /// and a long one must not be exploited. More than zero.
    ///
    /// Measured by the callers' clock, from the first call that fails to the next one that succeeds, probes of the
    /// circuit breaker included. The corrupt state of one key is no failure of the store: its charges are allowed.
    AllowFor(Duration),
    /// Decide on a fallback store, with a share of the limit.
    Fallback(FallbackStore),
}

impl OnFailure {
    /// Returns what is wrong with this policy, and what would be right.
    pub(super) fn problem(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::AllowFor(time) if time.is_zero() => {
                Some(("allows for 0 s, which is to deny", "use `OnFailure::Deny`, or a time such as 30 s"))
            }
            Self::Fallback(fallback) if fallback.share.of == 0 => Some((
                "has a share of one of 0 processes",
                "use `Share::one_of` with the number of processes, at least 1",
            )),
            Self::Allow | Self::Deny | Self::AllowFor(_) | Self::Fallback(_) => None,
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

    /// Returns the same fallback store with another share of each limit.
    #[must_use]
    pub fn with_share(&self, share: Share) -> Self {
        Self { share, ..self.clone() }
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
    /// [`GuardedBuilder::build`](crate::GuardedBuilder::build) and of
    /// [`FailurePolicies::replace`](crate::FailurePolicies::replace).
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
