//! How often what happened.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often a guard had to do something since it was made. Decisions of the store itself are not counted
        /// here: they are the usual case, and an observer sees them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The counters behind [`Counts`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Calls that the store failed, by an error, too late, or by a panic.
    failed,
    /// Of these, calls without an answer in time.
    late,
    /// Panics: in the store, in another store that decided instead, or in a rule.
    panicked,
    /// Calls that were kept away from the store because it had failed before.
    not_asked,
    /// Charges that passed because the store could not decide them.
    allowed,
    /// Charges that did not pass because the store could not decide them.
    denied,
    /// Charges that another store decided.
    local,
    /// Times that the breaker opened.
    opened,
    /// How much the store was told of that had been granted while it was away.
    handed_over,
    /// How much it could not be told of: too many keys were in use, or it does not understand what it has of the key.
    lost,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }
}
