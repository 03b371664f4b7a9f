//! The policy of each limit, and its share if the policy is a fallback store.

use std::sync::OnceLock;
use std::time::Duration;

use tollgate_core::{Limit, LimitError};

use super::policies::PolicyTable;
use super::policy::{FallbackStore, OnFailure, Share};

/// How many shares are cached. More than a program has limits; if limits are built from requests, the shares of the
/// rest are computed each time.
const CACHED_SHARES: usize = 1_024;
/// How many slots of the cache are probed for a limit.
const MAX_PROBES: usize = 8;

/// The policies of one instant. They do not change, and neither does a cached share, so reads take no lock.
#[derive(Debug)]
pub(super) struct Policies {
    table: PolicyTable,
    /// A hash table by the id of the limit, with linear probing. A limit whose parameters change has several entries.
    shares: Box<[OnceLock<LimitShare>]>,
}

/// A limit and its share.
#[derive(Debug)]
pub(super) struct LimitShare {
    pub(super) limit: Limit,
    /// An error if the share is too small to be a limit.
    pub(super) share: Result<Limit, LimitError>,
    /// How long an exhausted limit takes until its state equals a fresh one. `None` if it consumes nothing.
    pub(super) reset_time: Option<Duration>,
}

impl Policies {
    pub(super) fn new(table: PolicyTable) -> Self {
        Self { table, shares: (0..CACHED_SHARES).map(|_| OnceLock::new()).collect() }
    }

    pub(super) fn table(&self) -> &PolicyTable {
        &self.table
    }

    pub(super) fn of(&self, limit: &str) -> &OnFailure {
        let PolicyTable { default, by_name } = &self.table;
        if by_name.is_empty() {
            return default;
        }
        by_name.get(limit).unwrap_or(default)
    }

    /// Calls `usage` with the limit's share. `fallback` is the limit's policy.
    #[inline]
    pub(super) fn with_share<T>(
        &self,
        fallback: &FallbackStore,
        limit: &Limit,
        usage: impl FnOnce(&LimitShare) -> T,
    ) -> T {
        let first = usize::try_from(limit.id() % CACHED_SHARES as u64).unwrap_or(0);
        for slot in first..first + MAX_PROBES {
            let cached =
                self.shares[slot % CACHED_SHARES].get_or_init(|| LimitShare::new(limit, fallback.share()));
            if cached.limit == *limit {
                return usage(cached);
            }
        }
        usage(&LimitShare::new(limit, fallback.share()))
    }
}

impl LimitShare {
    fn new(limit: &Limit, share: Share) -> Self {
        Self { limit: limit.clone(), share: limit.share(1, share.of), reset_time: limit.reset_time() }
    }
}
