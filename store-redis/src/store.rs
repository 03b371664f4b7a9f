//! The store: requests to calls, and answers to verdicts.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tollgate_core::{
    Capability, Charge, Clock, Decision, ErrorKind, Export, Key, Limit, OperationMemory, OwnedRequest,
    Places, Request, Run, RunVerdict, Snapshot, Store, StoreError, Time, Verdict, book_and_export,
};

use crate::key::Names;
use crate::server::in_future;
use crate::settings::Settings;
use crate::topology::{Place, Topology};
use crate::{Config, decide, error, exchange, snapshot, spread, take};

/// Charges that go to a server in one call: enough to make its price per charge small, and few enough not to
/// hold the server up for more than a millisecond or two.
const MOST_CHARGES: usize = 256;

/// A store on Redis. Clones share their connections.
///
/// Made by [`Config::connect`], or by [`RedisStore::connect`] where a URL says all. Calls need a tokio runtime.
#[derive(Clone, Debug)]
pub struct RedisStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) topology: Topology,
    pub(crate) names: Names,
    pub(crate) settings: Settings,
    call_timeout: Duration,
}

impl RedisStore {
    /// A store at `url`, with defaults for the rest; [`Config`] says which URLs there are.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Config::new(url).connect().await
    }

    pub(crate) fn new(topology: Topology, prefix: &str, settings: Settings, call_timeout: Duration) -> Self {
        let inner = Inner { topology, names: Names::new(prefix), settings, call_timeout };
        Self { inner: Arc::new(inner) }
    }

    /// Whether the servers can be reached now.
    pub async fn reach(&self) -> Result<(), StoreError> {
        self.inner.topology.reach(self.inner.deadline()).await
    }
}

impl Inner {
    pub(crate) fn deadline(&self) -> Instant {
        in_future(self.call_timeout)
    }

    /// Where a charge is decided.
    pub(crate) fn place(&self, charge: &Charge<'_>) -> Place {
        if self.topology.is_one_place() {
            return Place::default();
        }
        self.topology.place(&self.names.state(charge))
    }

    /// Where all charges of a request are decided, if that is one place.
    fn common_place(&self, charges: &[Charge<'_>]) -> Option<Place> {
        let (first, rest) = charges.split_first()?;
        let place = self.place(first);
        rest.iter().all(|charge| self.place(charge) == place).then_some(place)
    }

    /// Decides runs that live in one place, in order.
    pub(crate) async fn decide_at(
        &self,
        place: Place,
        runs: &[Run<'_>],
        now: Time,
    ) -> Vec<Result<RunVerdict, StoreError>> {
        let mut answers = Vec::with_capacity(runs.len());
        let deadline = self.deadline();
        for chunk in chunks(runs) {
            let plain = take::is_plain(chunk, &self.settings, now);
            let make = if plain { take::call } else { decide::call };
            let call = make(chunk, &self.names, &self.settings, now);
            match self.topology.run(place, &call, deadline).await {
                Ok(answer) => {
                    answers.extend(if plain {
                        take::verdicts(chunk, answer.value(), answer.server())
                    } else {
                        decide::verdicts(chunk, answer.bytes().unwrap_or_default(), answer.server())
                    });
                }
                Err(error) => answers.extend(chunk.iter().map(|_| Err(error.clone()))),
            }
        }
        answers
    }

    /// Decides one request, wherever its charges live.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        request: Request<'_>,
        now: Time,
    ) -> Result<Verdict, StoreError> {
        refuse(request)?;
        if request.charges().is_empty() {
            return Ok(Verdict::new([], now));
        }
        let Some(place) = self.common_place(request.charges()) else {
            return spread::decide(self, request.into(), now).await;
        };
        self.ask(&place, request, now).await
    }

    /// Decides a run whose charges live in several places, one request after the other.
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

/// What no algorithm and no script can do, before anything is sent.
fn refuse(request: Request<'_>) -> Result<(), StoreError> {
    if request.charges().len() > MOST_CHARGES - 1 {
        let why = format!(
            "{} charges in one request are too many for one step on redis; use at most {}",
            request.charges().len(),
            MOST_CHARGES - 1
        );
        return Err(StoreError::new(ErrorKind::Unsupported, why));
    }
    request.supported()
}

/// A call to a server takes kilobytes while it is under way. Every wrapper and every caller would move them about before
/// it starts, which costs more than to allocate them.
fn boxed<F: Future>(call: F) -> Pin<Box<F>> {
    Box::pin(call)
}

/// As many runs at a time as go into one call.
fn chunks<'r, 'a>(mut runs: &'r [Run<'a>]) -> impl Iterator<Item = &'r [Run<'a>]> {
    std::iter::from_fn(move || {
        let mut charges = 0;
        let fit = runs
            .iter()
            .take_while(|run| {
                charges += run.request().charges().len();
                charges <= MOST_CHARGES
            })
            .count();
        let (chunk, rest) = runs.split_at(fit.max(1).min(runs.len()));
        runs = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

impl Store for RedisStore {
    fn capability(&self) -> Capability {
        let settings = &self.inner.settings;
        let mut capability =
            Capability::exact().remembering(OperationMemory::For(settings.memory)).may_lose_answers();
        if !settings.callers_time {
            capability = capability.by_its_own_clock();
        }
        if !self.inner.topology.is_one_place() {
            capability = capability.atomic_within_entity();
        }
        capability
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        boxed(self.inner.decide(request, now)).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        let inner = &self.inner;
        // Nobody looks at the caller's time if the server's decides.
        let now = if inner.settings.callers_time { clock.now() } else { Time::EPOCH };
        if let Some(call) = take::single(charge, &inner.names, &inner.settings, now) {
            let answer = boxed(inner.topology.run(inner.place(charge), &call, inner.deadline())).await;
            let answer = answer.map_err(|error| error::of_charge(error, charge.limit().name()))?;
            return take::decision(charge, answer.value(), answer.server());
        }
        let charges = [*charge];
        let verdict = boxed(inner.decide(Request::new(&charges), now)).await?;
        let missing = || StoreError::new(ErrorKind::Internal, "a charge without a decision");
        verdict.decisions().first().copied().ok_or_else(missing)
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let mut answers: Vec<_> = (0..batch.len()).map(|_| None).collect();
        // What lives in one place goes there together, in order; places are asked at the same time.
        let mut places: Vec<(Place, Vec<usize>)> = Vec::new();
        let mut scattered = Vec::new();
        for (index, run) in batch.iter().enumerate() {
            let request = run.request();
            if let Err(error) = refuse(request) {
                answers[index] = Some(Err(error));
            } else if request.charges().is_empty() {
                let verdicts = (0..run.count()).map(|_| Verdict::new([], now)).collect();
                answers[index] = Some(Ok(RunVerdict::from_verdicts(verdicts)));
            } else if let Some(place) = self.inner.common_place(request.charges()) {
                match places.iter_mut().find(|(known, _)| *known == place) {
                    Some((_, indexes)) => indexes.push(index),
                    None => places.push((place, vec![index])),
                }
            } else {
                scattered.push(index);
            }
        }
        let together = join_all(places.into_iter().map(|(place, indexes)| async move {
            let runs: Vec<_> = indexes.iter().map(|index| batch[*index]).collect();
            let decided = self.inner.decide_at(place, &runs, now).await;
            indexes.into_iter().zip(decided).collect::<Vec<_>>()
        }));
        for (index, answer) in together.await.into_iter().flatten() {
            answers[index] = Some(answer);
        }
        for index in scattered {
            answers[index] = Some(self.inner.decide_spread_run(&batch[index], now).await);
        }
        let missing = || Err(StoreError::new(ErrorKind::Internal, "a run without an answer"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    fn lane(&self, charge: &Charge<'_>) -> u64 {
        self.inner.place(charge).into()
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (inner, request) = (Arc::clone(&self.inner), OwnedRequest::from(request));
        runtime.spawn(async move {
            // Nobody waits for the answer, and what fails errs on the side of the limit.
            let charges = request.charges();
            let _ = inner.decide(request.request(&charges), now).await;
        });
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        snapshot::export(&self.inner, limit, key, now).await
    }

    async fn merge(
        &self,
        limit: &Limit,
        key: Key<'_>,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<(), StoreError> {
        snapshot::merge(&self.inner, limit, key, snapshot, now).await
    }

    async fn exchange(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        refuse(request)?;
        let place = self.inner.common_place(request.charges());
        match place.filter(|_| request.charges().iter().all(exchange::can_tell)) {
            Some(place) => boxed(exchange::at(&self.inner, place, request, now)).await,
            None => boxed(book_and_export(self, request, now)).await,
        }
    }
}
