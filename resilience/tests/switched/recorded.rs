//! A memory store that writes down what it is asked, and fails where it is told to.

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_core::store::{Capability, Export, ImmediateStore, Run, RunVerdict, Store, decide_one_by_one};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, IdempotencyKey, Key, Limit, Request, StoreError, Time, Verdict,
};
use tollgate_store_memory::MemoryStore;

pub(crate) const NOW: Time = Time::from_secs(1_790_000_000);

/// A call, as the store saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A single charge without a request around it.
    One(String),
    Request(Asked),
    /// One call, whatever the number of runs.
    Batch(Vec<(Asked, u32)>),
    Detached(Asked),
}

/// The names of the limits that a request speaks of, and its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) limits: Vec<String>,
    pub(crate) id: Option<IdempotencyKey>,
}

/// A request without an id.
pub(crate) fn asked<const N: usize>(limits: [&str; N]) -> Asked {
    Asked { limits: limits.map(String::from).to_vec(), id: None }
}

impl Asked {
    pub(crate) fn named(mut self, id: IdempotencyKey) -> Self {
        self.id = Some(id);
        self
    }

    fn of(request: Request<'_>) -> Self {
        let limits = request.charges().iter().map(|charge| charge.limit().name().to_owned()).collect();
        Self { limits, id: request.idempotency_key() }
    }
}

#[derive(Debug)]
pub(crate) struct Recorded {
    inner: MemoryStore,
    calls: Mutex<Vec<Call>>,
    failing: Mutex<Option<(String, StoreError)>>,
    /// How far its clock is ahead of its callers'.
    ahead: Duration,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        Self::ahead_by(Duration::ZERO)
    }

    pub(crate) fn ahead_by(ahead: Duration) -> Self {
        let inner = MemoryStore::config().keys(1_000).build();
        Self { inner, calls: Mutex::default(), failing: Mutex::default(), ahead }
    }

    /// What was asked since the last look.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().expect("not poisoned"))
    }

    /// Whatever speaks of this limit fails.
    pub(crate) fn fail(&self, limit: &str, error: StoreError) {
        *self.failing.lock().expect("not poisoned") = Some((limit.to_owned(), error));
    }

    /// What is left, asked behind everybody's back.
    pub(crate) fn left(&self, limit: &Limit, key: &str) -> u32 {
        self.inner.charge_now(&limit.charge(key).with_cost(0), &NOW).remaining()
    }

    fn record(&self, call: Call) {
        self.calls.lock().expect("not poisoned").push(call);
    }

    fn failure(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        match &*self.failing.lock().expect("not poisoned") {
            Some((limit, error)) if charges.iter().any(|charge| charge.limit().name() == limit) => {
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }
}

pub(crate) fn unavailable() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "the server is away")
}

impl Store for Recorded {
    fn capability(&self) -> Capability {
        self.inner.capability().with_unknown_effects()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.decide_now(request, now)
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        self.record(Call::One(charge.limit().name().to_owned()));
        self.failure(std::slice::from_ref(charge))?;
        self.inner.decide_one(charge, clock).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let runs = batch.iter().map(|run| (Asked::of(run.request()), run.count()));
        self.record(Call::Batch(runs.collect()));
        let mut answers = Vec::new();
        for run in batch {
            match self.failure(run.request().charges()) {
                Ok(()) => answers.extend(decide_one_by_one(&self.inner, &[*run], now + self.ahead).await),
                Err(error) => answers.push(Err(error)),
            }
        }
        answers
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        charge.cost().into()
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.record(Call::Detached(Asked::of(request)));
        self.inner.decide_detached(request, now + self.ahead);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.inner.export(limit, key, now).await
    }
}

impl ImmediateStore for Recorded {
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        self.record(Call::One(charge.limit().name().to_owned()));
        self.inner.charge_now(charge, clock)
    }

    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.record(Call::Request(Asked::of(request)));
        self.failure(request.charges())?;
        self.inner.decide_now(request, now + self.ahead)
    }
}

/// Nothing here waits, so the first poll has the answer.
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
