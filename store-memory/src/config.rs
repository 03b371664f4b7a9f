//! How large a store is.

use crate::store::MemoryStore;

/// How many locks the states are spread over that do not fit a word.
const SHARDS: usize = 64;

/// How many keys a store has room for.
///
/// ```
/// use tollgate_store_memory::MemoryStore;
///
/// let store = MemoryStore::config().keys(10_000).build();
/// # let _ = store;
/// ```
#[derive(Clone, Debug)]
#[must_use = "a configuration does nothing until `build` is called"]
pub struct Config {
    pub(crate) keys: usize,
    pub(crate) shards: usize,
}

impl Config {
    /// At most this many keys in use at a time; a million unless said, at least one. The table takes 28
    /// bytes for each, reserved at once but touched only where keys are. States that do not fit a word
    /// (windows, logs, leases, block times) have as much room again; they take about 150 bytes each, plus what a log or
    /// a set of leases holds, and only when they are there. Until they are swept, as many that are past may lie beside
    /// them.
    pub fn keys(mut self, keys: usize) -> Self {
        self.keys = keys.max(1);
        self
    }

    /// The store.
    ///
    /// # Panics
    ///
    /// If there is no memory for the table.
    pub fn build(self) -> MemoryStore {
        MemoryStore::with(&self)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self { keys: 1_000_000, shards: SHARDS }
    }
}
