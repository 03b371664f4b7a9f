//! The [`Store`] implementation: turns requests into script calls, and replies into verdicts.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::time::Instant;
use tollgate_core::store::{
    Atomicity, Capability, ClockSource, Export, IdempotencyRetention, Places, Run, RunVerdict, Store,
    apply_then_export, decide_across, decide_batch_across, decide_detached_across,
};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, IdempotencyKey, Key, Limit, Observer, Request, StoreError, Time,
    Verdict,
};

use crate::eviction::Reports;
use crate::forget::RepeatedCalls;
use crate::key::KeyNames;
use crate::script_call::ScriptCall;
use crate::server::{Connector, in_future};
use crate::stats::{Counters, Stats};
use crate::takes;
use crate::timing::Timing;
use crate::topology::{Place, ScriptReply, Topology};
use crate::{Config, decide, deltas, error, forget, snapshot};

/// The most charges in one script call: enough to make its overhead per charge small, and few enough not to block the
/// server for more than a millisecond or two.
pub(crate) const MAX_CHARGES: usize = 256;

/// A [`Store`] on Redis. Clones share their connections.
///
/// Created by [`Config::connect`], or by [`RedisStore::connect`] from a URL alone. Needs a tokio runtime.
#[derive(Clone, Debug)]
pub struct RedisStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) topology: Topology,
    pub(crate) names: KeyNames,
    pub(crate) timing: Timing,
    pub(crate) repeated_calls: RepeatedCalls,
    call_timeout: Duration,
    counters: Arc<Counters>,
    reports: Arc<Reports>,
}

impl RedisStore {
    /// Creates a store for the servers at `url`, with defaults for everything else. [`Config`] lists the URL forms.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Config::new(url).connect().await
    }

    pub(crate) fn new(
        topology: Topology,
        prefix: &str,
        timing: Timing,
        call_timeout: Duration,
        connector: &Connector,
    ) -> Self {
        let (counters, reports) = (Arc::clone(connector.counters()), Arc::clone(connector.reports()));
        let (names, repeated_calls) = (KeyNames::new(prefix), RepeatedCalls::default());
        let inner = Inner { topology, names, timing, repeated_calls, call_timeout, counters, reports };
        Self { inner: Arc::new(inner) }
    }

    /// Checks whether the servers answer: one round trip to each primary, or the slot map of a cluster.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.inner.topology.ping(self.inner.deadline()).await
    }

    /// Connects to the servers in advance.
    pub(crate) async fn connect_servers(&self) -> Result<(), StoreError> {
        self.inner.topology.connect(self.inner.deadline()).await
    }

    /// Returns the counters of this store and its clones.
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), tollgate::StoreError> {
    /// let store = tollgate::redis::RedisStore::connect("redis://127.0.0.1").await?;
    /// let stats = store.stats();
    /// println!("{} calls, {} failed", stats.calls, stats.failed_calls);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        self.inner.counters.stats()
    }
}

impl Inner {
    pub(crate) fn deadline(&self) -> Instant {
        in_future(self.call_timeout)
    }

    /// Runs the script call of these runs.
    pub(crate) async fn run(
        &self,
        place: Place,
        call: &ScriptCall,
        runs: &[Run<'_>],
        deadline: Instant,
    ) -> Result<ScriptReply, StoreError> {
        let reply = self.topology.run(place, call, deadline).await?;
        if reply.was_repeated() {
            self.repeated_calls.add(runs.iter().filter_map(|run| run.request().idempotency_key()));
        }
        Ok(reply)
    }

    /// Decides runs whose charges live in one place, in order.
    pub(crate) async fn decide_at(
        &self,
        place: Place,
        runs: &[Run<'_>],
        now: Time,
    ) -> Vec<Result<RunVerdict, StoreError>> {
        let mut results = Vec::with_capacity(runs.len());
        let deadline = self.deadline();
        for chunk in chunks(runs) {
            match self.decide_chunk(place, chunk, now, deadline).await {
                Ok(verdicts) => results.extend(verdicts),
                Err(error) => results.extend(chunk.iter().map(|_| Err(error.clone()))),
            }
        }
        results
    }

    /// Decides runs that fit one script call: plain takes by a short script, anything else by the general one.
    async fn decide_chunk(
        &self,
        place: Place,
        runs: &[Run<'_>],
        now: Time,
        deadline: Instant,
    ) -> Result<Vec<Result<RunVerdict, StoreError>>, StoreError> {
        if let ([run], Some(call)) = (runs, takes::request_call(runs, &self.names, &self.timing, now)) {
            let name = run.request().charges().first().map_or("", |charge| charge.limit().name());
            let reply = self.run(place, &call, runs, deadline).await;
            let reply = reply.map_err(|error| error::of_charge(error, name))?;
            return match takes::verdict(run, reply.value(), reply.server()) {
                Some(verdict) => Ok(vec![verdict]),
                None => self.decide_generally(place, runs, now, deadline).await,
            };
        }
        let is_plain: Vec<_> = runs.iter().map(|run| takes::is_plain(run, &self.timing, now)).collect();
        if is_plain.iter().all(|is_plain| *is_plain) {
            return self.decide_plain(place, runs, now, deadline).await;
        }
        let part =
            |plain| runs.iter().zip(&is_plain).filter(move |(_, is)| **is == plain).map(|(run, _)| *run);
        let (plain, others) = (part(true).collect::<Vec<_>>(), part(false).collect::<Vec<_>>());
        if plain.is_empty() || share_a_state(&plain, &others) {
            return self.decide_generally(place, runs, now, deadline).await;
        }
        let (plain, others) = join(
            self.decide_plain(place, &plain, now, deadline),
            self.decide_generally(place, &others, now, deadline),
        )
        .await;
        let (mut plain, mut others) = (Results::new(plain), Results::new(others));
        Ok(is_plain.iter().map(|is| if *is { plain.next() } else { others.next() }).collect())
    }

    /// Decides [plain](takes::is_plain) runs in one script call, and in another one what turns out not to be plain.
    async fn decide_plain(
        &self,
        place: Place,
        runs: &[Run<'_>],
        now: Time,
        deadline: Instant,
    ) -> Result<Vec<Result<RunVerdict, StoreError>>, StoreError> {
        let call = takes::call(runs, &self.names, &self.timing, now);
        let reply = self.run(place, &call, runs, deadline).await?;
        let decided = takes::verdicts(runs, reply.value(), reply.server());
        let undecided = runs.iter().zip(&decided).filter(|(_, decided)| decided.is_none());
        let left: Vec<_> = undecided.map(|(run, _)| *run).collect();
        if left.is_empty() {
            return Ok(decided.into_iter().flatten().collect());
        }
        let mut left = Results::new(self.decide_generally(place, &left, now, deadline).await);
        Ok(decided.into_iter().map(|decided| decided.unwrap_or_else(|| left.next())).collect())
    }

    /// Decides runs by the general script, in one call.
    async fn decide_generally(
        &self,
        place: Place,
        runs: &[Run<'_>],
        now: Time,
        deadline: Instant,
    ) -> Result<Vec<Result<RunVerdict, StoreError>>, StoreError> {
        let call = decide::call(runs, &self.names, &self.timing, now)?;
        let reply = self.run(place, &call, runs, deadline).await?;
        Ok(decide::verdicts(runs, reply.bytes().unwrap_or_default(), reply.server()))
    }
}

/// Returns whether a charge of some runs has the state of a charge of others, so that their order matters.
fn share_a_state(some: &[Run<'_>], others: &[Run<'_>]) -> bool {
    fn states<'a>(runs: &[Run<'a>]) -> HashSet<(Key<'a>, &'a str)> {
        let charges = runs.iter().flat_map(|run| run.request().charges());
        charges.map(|charge| (charge.key(), charge.limit().name())).collect()
    }
    !states(some).is_disjoint(&states(others))
}

/// The results of a call, one after the other.
enum Results {
    Each(std::vec::IntoIter<Result<RunVerdict, StoreError>>),
    /// The call failed for all of its runs.
    Failed(StoreError),
}

impl Results {
    fn new(results: Result<Vec<Result<RunVerdict, StoreError>>, StoreError>) -> Self {
        results.map_or_else(Self::Failed, |results| Self::Each(results.into_iter()))
    }

    fn next(&mut self) -> Result<RunVerdict, StoreError> {
        match self {
            Self::Each(results) => results
                .next()
                .unwrap_or_else(|| Err(StoreError::new(ErrorKind::Internal, "redis returned no verdict"))),
            Self::Failed(error) => Err(error.clone()),
        }
    }
}

/// Allocates the future of a call. It takes kilobytes, and every wrapper and caller would move it before it starts,
/// which costs more than the allocation.
fn boxed<F: Future>(call: F) -> Pin<Box<F>> {
    Box::pin(call)
}

/// Splits runs into chunks of at most [`MAX_CHARGES`] charges.
fn chunks<'r, 'a>(mut runs: &'r [Run<'a>]) -> impl Iterator<Item = &'r [Run<'a>]> {
    std::iter::from_fn(move || {
        let mut charges = 0;
        let fit = runs
            .iter()
            .take_while(|run| {
                charges += run.request().charges().len();
                charges <= MAX_CHARGES
            })
            .count();
        let (chunk, rest) = runs.split_at(fit.max(1).min(runs.len()));
        runs = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

impl Store for RedisStore {
    /// Keeps the first observer. Servers that may evict keys are reported to it
    /// ([`Event::ServerMisconfigured`](tollgate_core::Event::ServerMisconfigured)), also those found before.
    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.inner.reports.attach(observer);
    }

    fn capability(&self) -> Capability {
        let timing = &self.inner.timing;
        let mut capability = Capability::exact()
            .with_idempotency(IdempotencyRetention::For(timing.idempotency_retention))
            .with_unknown_effects();
        if !timing.caller_clock {
            capability = capability.with_clock_source(ClockSource::Store);
        }
        if !self.inner.topology.is_one_place() {
            capability = capability.with_atomicity(Atomicity::WithinEntity);
        }
        capability
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        boxed(decide_across(&self.inner, request, now)).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        let inner = &self.inner;
        // The caller's clock is not read if the server's decides.
        let now = if inner.timing.caller_clock { clock.now() } else { Time::EPOCH };
        if let Some(call) = takes::check_call(charge, None, &inner.names, &inner.timing, now) {
            let reply = boxed(inner.topology.run(inner.place(charge), &call, inner.deadline())).await;
            let reply = reply.map_err(|error| error::of_charge(error, charge.limit().name()))?;
            if let Some(decision) = takes::decision(charge, reply.value(), reply.server()) {
                return decision;
            }
        }
        let charges = [*charge];
        boxed(decide_across(inner, Request::new(&charges), now)).await?.into_single()
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        decide_batch_across(&self.inner, batch, now).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.inner.place(charge).into()
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        decide_detached_across(&self.inner, request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        snapshot::export(&self.inner, limit, key, now).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.inner.check_run(&Run::new(request, 1))?;
        let place = self.inner.common_place(request.charges());
        match place.filter(|_| request.charges().iter().all(deltas::has_single_value)) {
            Some(place) => boxed(deltas::apply(&self.inner, place, request, now)).await,
            None => boxed(apply_then_export(self, request, now)).await,
        }
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        boxed(forget::forget(&self.inner, answered)).await;
    }
}
