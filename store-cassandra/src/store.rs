//! The store: requests to transactions, and answers to verdicts.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tollgate_core::store::{
    Atomicity, Capability, Export, IdempotencyRetention, Places, Run, RunVerdict, Store, apply_then_export,
    decide_across, decide_batch_across, decide_detached_across,
};
use tollgate_core::{Charge, Key, Limit, Request, StoreError, Time, Verdict};

use crate::cache::LastSeen;
use crate::change::{Rows, change};
use crate::config::Settings;
use crate::counts::{Counters, Counts};
use crate::link::Link;
use crate::queue::Queues;
use crate::row::MOST_OPERATIONS;
use crate::{Config, decide, key};

/// A store on Cassandra. Clones share their connections.
///
/// Made by [`Config::connect`], or by [`CassandraStore::connect`] where a URL says all. Calls need a tokio runtime.
///
/// Calls of a process for one key wait in line, one transaction after the other. To put many of them into one transaction
/// is the job of `Coalesced` in `tollgate-resilience`, with one call in flight; `tollgate::connect` puts it around the store.
#[derive(Clone, Debug)]
pub struct CassandraStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) settings: Settings,
    pub(crate) last_seen: LastSeen,
    pub(crate) counters: Counters,
    pub(crate) queues: Queues,
    /// By which this store knows its own transactions among those of others.
    pub(crate) writer: u16,
    lanes: RandomState,
}

impl CassandraStore {
    /// A store at `url`, with defaults for the rest; [`Config`] says what a URL looks like.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Config::new(url).connect().await
    }

    pub(crate) fn new(link: Link, settings: Settings) -> Self {
        let last_seen = LastSeen::new(settings.cache_bytes);
        let (counters, queues) = (Counters::default(), Queues::default());
        let (writer, lanes) = (fastrand::u16(..), RandomState::new());
        Self { inner: Arc::new(Inner { link, settings, last_seen, counters, queues, writer, lanes }) }
    }

    /// Whether the cluster can be reached now, and has the schema.
    pub async fn reach(&self) -> Result<(), StoreError> {
        self.inner.link.get().await.map(|_| ())
    }

    /// What has been sent so far, by this store and its clones.
    pub fn counts(&self) -> Counts {
        self.inner.counters.read()
    }
}

impl Store for CassandraStore {
    fn capability(&self) -> Capability {
        let memory = IdempotencyRetention::Last(u32::try_from(MOST_OPERATIONS).unwrap_or(u32::MAX));
        Capability::exact()
            .with_atomicity(Atomicity::WithinEntity)
            .with_idempotency(memory)
            .with_unknown_effects()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        // A call in flight takes kilobytes, which every wrapper and every caller would move.
        Box::pin(decide_across(&self.inner, request, now)).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        Box::pin(decide_batch_across(&self.inner, batch, now)).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.inner.lanes.hash_one(charge.key())
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        decide_detached_across(&self.inner, request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        decide::fits_a_row(limit)?;
        let partition = key::partition(key);
        // A step that changes nothing is answered by what is there.
        let look = |rows: &mut Rows<'_>| rows.of(limit).map(|row| row.state.clone());
        let state = Box::pin(change(&self.inner, &partition, &[limit], now, look)).await??;
        let state = (!state.is_fresh(now)).then(|| state.snapshot(limit));
        Ok(Export { state, at: now })
    }

    /// What is booked for one entity is one transaction, which knows what it makes of the rows.
    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        let run = Run::new(request, 1);
        decide::refuse(&run)?;
        match self.inner.common_place(request.charges()) {
            Some(partition) => Box::pin(decide::apply_deltas(&self.inner, &partition, &run, now)).await,
            None => Box::pin(apply_then_export(self, request, now)).await,
        }
    }
}
