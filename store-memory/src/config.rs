//! The configuration of a store: how many keys it has room for.

use crate::store::MemoryStore;

/// How many shards, each with a lock of its own, hold the states that have no slot in a lock-free table.
const SHARDS: usize = 64;

/// Configures a [`MemoryStore`].
///
/// ```
/// # mod tollgate { pub use tollgate_core::*; pub mod memory { pub use tollgate_store_memory::*; } }
/// use tollgate::memory::MemoryStore;
///
/// let store = MemoryStore::config().max_keys(10_000).build();
/// # let _ = store;
/// ```
#[derive(Clone, Debug)]
#[must_use = "a configuration does nothing until `build` is called"]
pub struct Config {
    pub(crate) keys: usize,
    pub(crate) shards: usize,
}

impl Config {
    /// Sets how many keys can be in use at the same time, at least 1. Default: 1,000,000.
    ///
    /// The lock-free table of buckets takes 28 bytes per key, that of windows 38 bytes, each once a limit of its kind
    /// is used. Its address space is reserved at once; memory is used only where keys are. Other states (logs, block
    /// times) have room for as many keys again, and so have leases. Each takes about 160 bytes, plus the entries of a
    /// log or the leases of a concurrency limit, and only while it exists. Expired states are removed as new ones
    /// arrive; until then, at most as many expired as live ones are kept.
    ///
    /// If more keys are in use than fit, the least used states are evicted: the [crate's documentation](crate) says
    /// what an attacker can make of that.
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.keys = keys.max(1);
        self
    }

    /// Creates the store.
    ///
    /// # Panics
    ///
    /// If there is no memory for the larger table.
    pub fn build(self) -> MemoryStore {
        MemoryStore::from_config(&self)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self { keys: 1_000_000, shards: SHARDS }
    }
}
