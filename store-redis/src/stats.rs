//! Counters for monitoring.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a [`RedisStore`](crate::RedisStore), or of [`RedisDocuments`](crate::RedisDocuments), since it was
/// created. All its clones share them.
///
/// Each request or batch is one script call per server, so `calls` plus `script_loads` is the number of round trips
/// that decisions and deltas took; `deletions` need one each. The other counters are normally close to zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Script calls sent (`EVALSHA`), retries included.
    pub calls: u64,
    /// Script calls that were sent with the script's text (`EVAL`), because the server did not know the script
    /// (`NOSCRIPT`): after its start, and after `SCRIPT FLUSH`.
    pub script_loads: u64,
    /// Retries: after a redirect, while a server was not ready, and after a lost reply if the call can be repeated
    /// safely.
    pub retries: u64,
    /// Calls that returned an error after all retries.
    pub failed_calls: u64,
    /// Connections opened, the first ones included.
    pub connections_opened: u64,
    /// Attempts to connect that failed.
    pub failed_connects: u64,
    /// Redirects by cluster nodes (`MOVED`, `ASK`).
    pub redirects: u64,
    /// Changes of a primary: a Sentinel failover, or a shard whose replica took over.
    pub failovers: u64,
    /// Commands sent to find the servers (`ROLE`, `SENTINEL GET-MASTER-ADDR-BY-NAME`, `CLUSTER SLOTS`).
    pub topology_queries: u64,
    /// Pipelines of commands that deleted idempotency records of answered calls
    /// ([`Store::forget_idempotency_keys`](tollgate_core::store::Store::forget_idempotency_keys)).
    pub deletions: u64,
    /// Servers found to evict keys: `maxmemory` is set, and `maxmemory-policy` is not `noeviction`. Limits on such a
    /// server may be exceeded. For documents, only the `allkeys-…` policies count. Each server is checked when a
    /// connection to it is taken into use, if its user may call `INFO`.
    pub evicting_servers: u64,
}

/// The live counters behind [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: Counter,
    pub(crate) script_loads: Counter,
    pub(crate) retries: Counter,
    pub(crate) failed_calls: Counter,
    pub(crate) connections_opened: Counter,
    pub(crate) failed_connects: Counter,
    pub(crate) redirects: Counter,
    pub(crate) failovers: Counter,
    pub(crate) topology_queries: Counter,
    pub(crate) deletions: Counter,
    pub(crate) evicting_servers: Counter,
}

/// A relaxed counter: nothing is ordered by it.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            calls: self.calls.get(),
            script_loads: self.script_loads.get(),
            retries: self.retries.get(),
            failed_calls: self.failed_calls.get(),
            connections_opened: self.connections_opened.get(),
            failed_connects: self.failed_connects.get(),
            redirects: self.redirects.get(),
            failovers: self.failovers.get(),
            topology_queries: self.topology_queries.get(),
            deletions: self.deletions.get(),
            evicting_servers: self.evicting_servers.get(),
        }
    }
}
