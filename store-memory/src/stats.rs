//! How full a store is, and how often keys did not fit.

use std::sync::atomic::{AtomicU64 as Counter, Ordering};

use crate::shard::Evicted;

/// How full a [`MemoryStore`](crate::MemoryStore) is, and how often keys did not fit. Returned by
/// [`MemoryStore::stats`](crate::MemoryStore::stats).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys whose state differs from a fresh one.
    pub live_keys: usize,
    /// Size of the lock-free tables in bytes, including slots that are not in use. Each table counts once a limit of its
    /// kind is used.
    pub table_bytes: usize,
    /// How many times a key found no slot in its table, or its state did not fit one, and spilled into a shard, where
    /// it is still exact.
    pub spilled: u64,
    /// How many states were evicted because a shard was full. Their keys started fresh: raise
    /// [`Config::max_keys`](crate::Config::max_keys).
    pub evicted: u64,
    /// How many of the evicted states were exhausted or blocked: nothing else was left to evict, and their keys got
    /// their whole quota back. More than a few mean that somebody floods the store with keys, and exhausts each of
    /// them.
    pub evicted_exhausted: u64,
    /// How many of the evicted states were leases of concurrency limits: their slots count as free although they are
    /// held.
    pub evicted_leases: u64,
}

/// How many states were evicted.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    pub(crate) all: Counter,
    pub(crate) exhausted: Counter,
    pub(crate) leases: Counter,
}

impl Evictions {
    pub(crate) fn count(&self, evicted: Evicted) {
        self.all.fetch_add(1, Ordering::Relaxed);
        self.exhausted.fetch_add(evicted.exhausted.into(), Ordering::Relaxed);
        self.leases.fetch_add(evicted.leases.into(), Ordering::Relaxed);
    }
}
