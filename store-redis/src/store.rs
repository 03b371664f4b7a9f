//! The store: requests to calls, and answers to verdicts.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::{
    Atomicity, Capability, ClockSource, Export, IdempotencyRetention, Places, Run, RunVerdict, Store,
    apply_then_export, decide_across, decide_batch_across, decide_detached_across,
};
use tollgate_core::{Charge, Clock, Decision, Key, Limit, Request, StoreError, Time, Verdict};

use crate::key::Names;
use crate::server::in_future;
use crate::settings::Settings;
use crate::topology::{Place, Topology};
use crate::{Config, decide, error, exchange, snapshot, take};

/// Charges that go to a server in one call: enough to make its price per charge small, and few enough not to
/// hold the server up for more than a millisecond or two.
pub(crate) const MOST_CHARGES: usize = 256;

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
        let mut capability = Capability::exact()
            .with_idempotency(IdempotencyRetention::For(settings.memory))
            .with_unknown_effects();
        if !settings.callers_time {
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
        // Nobody looks at the caller's time if the server's decides.
        let now = if inner.settings.callers_time { clock.now() } else { Time::EPOCH };
        if let Some(call) = take::single(charge, &inner.names, &inner.settings, now) {
            let answer = boxed(inner.topology.run(inner.place(charge), &call, inner.deadline())).await;
            let answer = answer.map_err(|error| error::of_charge(error, charge.limit().name()))?;
            return take::decision(charge, answer.value(), answer.server());
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
        match place.filter(|_| request.charges().iter().all(exchange::can_tell)) {
            Some(place) => boxed(exchange::at(&self.inner, place, request, now)).await,
            None => boxed(apply_then_export(self, request, now)).await,
        }
    }
}
