//! What a guarded store counts.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a [`Guarded`](crate::Guarded) store has counted since it was built.
        ///
        /// Calls that the store answered are not counted: they are the hot path, and an
        /// [observer](tollgate_core::Limiter::with_observer) sees them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct GuardedStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters behind [`GuardedStats`].
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: Counter,)*
        }

        impl Counters {
            pub(super) fn read(&self) -> GuardedStats {
                GuardedStats { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

stats! {
    /// Calls that failed: with an error, by a timeout, or by a panic.
    failed_calls,
    /// Failed calls that had no answer within the deadline.
    timed_out_calls,
    /// Panics of the store and of fallback stores.
    panics,
    /// Calls that the circuit breaker did not permit.
    not_permitted_calls,
    /// Charges that were allowed without a store: by [`OnFailure::Allow`](crate::OnFailure::Allow), by
    /// [`OnFailure::AllowFor`](crate::OnFailure::AllowFor) in its time, or as the renewal of a lease that the fallback
    /// store does not know.
    allowed_by_policy,
    /// Charges that were denied without a store: by [`OnFailure::Deny`](crate::OnFailure::Deny), by
    /// [`OnFailure::AllowFor`](crate::OnFailure::AllowFor) after its time, or because the fallback store could not
    /// decide.
    denied_by_policy,
    /// Charges that a fallback store decided.
    decided_by_fallback,
    /// How often the circuit breaker opened.
    opened,
    /// Tokens that a fallback store granted and that the store has received by reconciliation.
    reconciled,
    /// Tokens that could not be reconciled: there were too many keys, or the store cannot read the state of the key.
    lost,
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn increment(&self) {
        self.add(1);
    }
}
