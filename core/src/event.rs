//! One small hook that metrics and tracing hang on.

use core::time::Duration;

use crate::decision::Decision;
use crate::error::StoreError;

/// What has just happened. Names limits, never keys.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A charge was decided.
    Decided {
        /// The limit's name.
        limit: &'a str,
        /// The decision.
        decision: &'a Decision,
    },
    /// Something other than the store decided.
    FellBack {
        /// The limit's name.
        limit: &'a str,
        /// Why.
        reason: &'a str,
    },
    /// Local and central state were exchanged.
    Exchanged {
        /// How many keys.
        keys: usize,
        /// How long it took.
        took: Duration,
    },
    /// A store was called.
    StoreCalled {
        /// How long it took.
        took: Duration,
        /// How it failed, if it did.
        error: Option<&'a StoreError>,
    },
}

/// Is told what happens. Called on the hot path: be quick, and don't block.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn observe(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Send + Sync> Observer for F {
    fn observe(&self, event: Event<'_>) {
        self(event);
    }
}
