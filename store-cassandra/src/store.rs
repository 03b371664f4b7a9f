//! The store.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::time::timeout_at;
use tollgate_core::store::{
    Atomicity, Capability, Export, IdempotencyRetention, Places, Run, RunVerdict, Store, apply_then_export,
    decide_across, decide_batch_across, decide_detached_across,
};
use tollgate_core::{Charge, Key, Limit, Request, StoreError, Time, Verdict};

use crate::clock_lead::ClockLead;
use crate::error::{self, Failure};
use crate::options::StoreOptions;
use crate::partition_lock::PartitionLocks;
use crate::row::{MAX_RECORDS, NO_WRITER};
use crate::row_cache::RowCache;
use crate::session::LazySession;
use crate::stats::{Counters, Stats};
use crate::update::{Rows, update};
use crate::{Config, backoff, decide, key};

/// A rate limit store on Apache Cassandra. Clones share their connections, cache and counters.
///
/// Created by [`Config::connect`], or by [`CassandraStore::connect`] from a URL alone. Calls need a tokio runtime.
///
/// Within a process, calls for one key are queued, and execute one transaction after the other. To decide many of
/// them by one transaction, wrap the store in `Coalesced` from `tollgate-resilience` with one call in flight;
/// `tollgate::connect` does so.
#[derive(Clone, Debug)]
pub struct CassandraStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) session: LazySession,
    pub(crate) options: StoreOptions,
    pub(crate) row_cache: RowCache,
    pub(crate) counters: Counters,
    pub(crate) partition_locks: PartitionLocks,
    /// Identifies the transactions of this store among those of others.
    pub(crate) writer: u16,
    pub(crate) clock_lead: ClockLead,
    route_hasher: RandomState,
}

impl CassandraStore {
    /// Connects to the cluster at `url`, with defaults for everything else. [`Config`] documents the URL.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Config::new(url).connect().await
    }

    pub(crate) fn new(session: LazySession, options: StoreOptions) -> Self {
        let inner = Inner {
            session,
            row_cache: RowCache::new(options.cache_bytes),
            options,
            counters: Counters::default(),
            partition_locks: PartitionLocks::default(),
            writer: fastrand::u16(..NO_WRITER),
            clock_lead: ClockLead::default(),
            route_hasher: RandomState::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Checks whether the cluster answers: connects if necessary, and reads from the table at the serial consistency
    /// level.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let inner = &self.inner;
        let ping = async {
            let session = inner.session.get().await?;
            Counters::add(&inner.counters.reads);
            session.read(key::PING, &["ping"], 0).await.map_err(Failure::into_error)
        };
        let result = timeout_at(backoff::deadline(inner.options.call_timeout), Box::pin(ping)).await;
        result.unwrap_or_else(|_| Err(error::timed_out())).map(|_| ())
    }

    /// Returns how many requests this store and its clones have sent so far.
    pub fn stats(&self) -> Stats {
        self.inner.counters.stats()
    }
}

impl Store for CassandraStore {
    fn capability(&self) -> Capability {
        let retention = IdempotencyRetention::Last(u32::try_from(MAX_RECORDS).unwrap_or(u32::MAX));
        Capability::exact()
            .with_atomicity(Atomicity::WithinEntity)
            .with_idempotency(retention)
            .with_unknown_effects()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        // Boxed: the future has kilobytes, which every wrapper and every caller would move.
        Box::pin(decide_across(&self.inner, request, now)).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        Box::pin(decide_batch_across(&self.inner, batch, now)).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.inner.route_hasher.hash_one(charge.key())
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        decide_detached_across(&self.inner, request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        decide::check_limit_size(limit)?;
        let partition = key::partition(key);
        // A step that changes nothing gets the current row.
        let read = |rows: &mut Rows<'_>, at: Time| {
            let state = &rows.of(limit)?.state;
            Ok(Export { state: (!state.is_fresh(at)).then(|| state.snapshot(limit)), at })
        };
        Box::pin(update(&self.inner, &partition, &[limit], now, read)).await?
    }

    /// Applies the deltas of one entity by one transaction, which also yields the resulting states.
    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        let run = Run::new(request, 1);
        decide::check_run(&run)?;
        match self.inner.common_place(request.charges()) {
            Some(partition) => Box::pin(decide::apply_deltas(&self.inner, &partition, &run, now)).await,
            None => Box::pin(apply_then_export(self, request, now)).await,
        }
    }
}
