//! How a caller gets tokens from the central store that it cannot do without.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tollgate_core::Charge;

/// How a caller gets tokens.
pub(crate) enum Acquisition<'a> {
    /// It sends this charge, and then adds what is granted.
    Send(Charge<'a>),
    /// It waits for another caller that does.
    Wait(OwnedNotified),
}

impl Acquisition<'_> {
    /// Waits for a call in flight. Created while the state is locked, so that the notification cannot come before it.
    pub(super) fn wait(in_flight: &Arc<Notify>) -> Self {
        Self::Wait(Arc::clone(in_flight).notified_owned())
    }
}
