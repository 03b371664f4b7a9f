//! The store: requests to transactions, and answers to verdicts.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tollgate_core::{
    Capability, Charge, ErrorKind, Export, Key, Limit, OperationMemory, OwnedRequest, Places, Request, Run,
    RunVerdict, Snapshot, State, Store, StoreError, Time, Verdict, book_and_export,
};

use crate::cache::LastSeen;
use crate::change::{Rows, change};
use crate::config::Settings;
use crate::counts::{Counters, Counts};
use crate::link::Link;
use crate::queue::Queues;
use crate::row::MOST_OPERATIONS;
use crate::{Config, decide, key, spread};

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

impl Inner {
    /// Decides a request, whomever it charges.
    async fn decide(self: &Arc<Self>, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let Some(partition) = common_partition(request) else {
            return spread::decide(self, request.into(), now).await;
        };
        self.ask(&partition, request, now).await
    }

    /// Decides a run over several entities, one request after the other.
    async fn decide_spread_run(self: &Arc<Self>, run: &Run<'_>, now: Time) -> Result<RunVerdict, StoreError> {
        let mut verdicts = Vec::new();
        for index in 0..run.count() {
            let request = OwnedRequest::from(run.request());
            let id = request.id().map(|id| id.part(index));
            let verdict = spread::decide(self, request.with_id(id), now).await;
            // Those before it have taken effect.
            verdicts
                .push(verdict.map_err(|error| if index > 0 { error.with_unknown_effect() } else { error })?);
        }
        Ok(RunVerdict::from_verdicts(verdicts))
    }
}

/// The partition of all charges of a request, if they share one.
fn common_partition(request: Request<'_>) -> Option<Vec<u8>> {
    let (first, rest) = request.charges().split_first()?;
    rest.iter().all(|charge| charge.key() == first.key()).then(|| key::partition(first.key()))
}

impl Store for CassandraStore {
    fn capability(&self) -> Capability {
        let memory = OperationMemory::Last(u32::try_from(MOST_OPERATIONS).unwrap_or(u32::MAX));
        Capability::exact().atomic_within_entity().remembering(memory).may_lose_answers()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        decide::refuse(&Run::new(request, 1))?;
        if request.charges().is_empty() {
            return Ok(Verdict::new([], now));
        }
        // What is under way takes kilobytes, which every wrapper and every caller would move about.
        Box::pin(self.inner.decide(request, now)).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let mut answers: Vec<_> = (0..batch.len()).map(|_| None).collect();
        // What belongs to one entity goes together, in order; entities are asked at the same time.
        let mut entities: Vec<(Vec<u8>, Vec<usize>)> = Vec::new();
        let mut scattered = Vec::new();
        for (index, run) in batch.iter().enumerate() {
            let request = run.request();
            if let Err(error) = decide::refuse(run) {
                answers[index] = Some(Err(error));
            } else if request.charges().is_empty() {
                answers[index] = Some(Ok(RunVerdict::replay(run, &mut [], now)));
            } else if let Some(partition) = common_partition(request) {
                match entities.iter_mut().find(|(known, _)| *known == partition) {
                    Some((_, indexes)) => indexes.push(index),
                    None => entities.push((partition, vec![index])),
                }
            } else {
                scattered.push(index);
            }
        }
        let together = join_all(entities.iter().map(|(partition, indexes)| async move {
            let runs: Vec<_> = indexes.iter().map(|index| batch[*index]).collect();
            let decided = decide::decide(&self.inner, partition, &runs, now).await;
            indexes.iter().zip(decided).collect::<Vec<_>>()
        }));
        for (index, answer) in Box::pin(together).await.into_iter().flatten() {
            answers[*index] = Some(answer);
        }
        for index in scattered {
            answers[index] = Some(self.inner.decide_spread_run(&batch[index], now).await);
        }
        let missing = || Err(StoreError::new(ErrorKind::Internal, "a run without an answer"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    fn lane(&self, charge: &Charge<'_>) -> u64 {
        self.inner.lanes.hash_one(charge.key())
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (store, request) = (self.clone(), OwnedRequest::from(request));
        runtime.spawn(async move {
            // Nobody waits for the answer, and what fails errs on the side of the limit.
            let charges = request.charges();
            let _ = store.decide(request.request(&charges), now).await;
        });
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

    async fn merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), StoreError> {
        decide::fits_a_row(limit)?;
        let theirs = State::from_snapshot(limit, snapshot)?;
        let partition = key::partition(key);
        let merge = |rows: &mut Rows<'_>| {
            let row = rows.of(limit)?;
            let mut merged = if row.state.is_fresh(now) { State::default() } else { row.state.clone() };
            merged.merge(limit, &theirs);
            decide::has_room(limit, &merged)?;
            row.state = merged;
            Ok(())
        };
        Box::pin(change(&self.inner, &partition, &[limit], now, merge)).await?
    }

    /// What is booked for one entity is one transaction, which knows what it makes of the rows.
    async fn exchange(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        let run = Run::new(request, 1);
        decide::refuse(&run)?;
        match common_partition(request) {
            Some(partition) => Box::pin(decide::exchange(&self.inner, &partition, &run, now)).await,
            None => Box::pin(book_and_export(self, request, now)).await,
        }
    }
}
