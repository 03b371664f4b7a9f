//! The options that a connected store uses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session_builder::SessionBuilder;
use scylla::statement::{Consistency, SerialConsistency};

/// The options that a connected store uses.
#[derive(Clone)]
pub(crate) struct StoreOptions {
    pub(crate) consistency: Consistency,
    pub(crate) serial_consistency: SerialConsistency,
    pub(crate) connect_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) expiry_margin: Duration,
    pub(crate) cache_bytes: u64,
    pub(crate) customize_session: Arc<dyn Fn(SessionBuilder) -> SessionBuilder + Send + Sync>,
}

impl StoreOptions {
    /// Returns how much of a call's time must be left for another request to be worth sending.
    pub(crate) fn response_reserve(&self) -> Duration {
        (self.call_timeout / 8).min(Duration::from_secs(1))
    }

    /// Returns the expiry margin, at least two call timeouts: the id of a transaction whose response was lost must
    /// still be in the row when the store looks for it.
    pub(crate) fn effective_margin(&self) -> Duration {
        self.expiry_margin.max(self.call_timeout.saturating_mul(2))
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            consistency: Consistency::LocalQuorum,
            serial_consistency: SerialConsistency::LocalSerial,
            connect_timeout: Duration::from_secs(1),
            call_timeout: Duration::from_secs(2),
            expiry_margin: Duration::from_secs(60),
            cache_bytes: 64 << 20,
            customize_session: Arc::new(|builder| builder),
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("consistency", &self.consistency)
            .field("serial_consistency", &self.serial_consistency)
            .field("connect_timeout", &self.connect_timeout)
            .field("call_timeout", &self.call_timeout)
            .field("expiry_margin", &self.expiry_margin)
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}
