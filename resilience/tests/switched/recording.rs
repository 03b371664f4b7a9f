//! A memory store that records its calls, and fails on demand.

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

/// A call that reached the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A single charge.
    One(String),
    Request(RecordedRequest),
    /// Requests and their repetitions.
    Batch(Vec<(RecordedRequest, u32)>),
    Detached(RecordedRequest),
}

/// The names of a request's limits, and its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    pub(crate) limits: Vec<String>,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
}

/// Returns a request of these limits without an idempotency key.
pub(crate) fn requested<const N: usize>(limits: [&str; N]) -> RecordedRequest {
    RecordedRequest { limits: limits.map(String::from).to_vec(), idempotency_key: None }
}

impl RecordedRequest {
    pub(crate) fn with_key(mut self, key: IdempotencyKey) -> Self {
        self.idempotency_key = Some(key);
        self
    }

    fn new(request: Request<'_>) -> Self {
        let limits = request.charges().iter().map(|charge| charge.limit().name().to_owned()).collect();
        Self { limits, idempotency_key: request.idempotency_key() }
    }
}

#[derive(Debug)]
pub(crate) struct RecordingStore {
    inner: MemoryStore,
    calls: Mutex<Vec<Call>>,
    failing: Mutex<Option<(String, StoreError)>>,
    /// How far its clock is ahead of the callers' clock.
    ahead: Duration,
}

impl RecordingStore {
    pub(crate) fn new() -> Self {
        Self::ahead_by(Duration::ZERO)
    }

    pub(crate) fn ahead_by(ahead: Duration) -> Self {
        let inner = MemoryStore::config().max_keys(1_000).build();
        Self { inner, calls: Mutex::default(), failing: Mutex::default(), ahead }
    }

    /// Returns the calls since the last time.
    pub(crate) fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().expect("not poisoned"))
    }

    /// Fails every call with this limit.
    pub(crate) fn fail(&self, limit: &str, error: StoreError) {
        *self.failing.lock().expect("not poisoned") = Some((limit.to_owned(), error));
    }

    /// Returns what remains of a limit, without recording it.
    pub(crate) fn remaining(&self, limit: &Limit, key: &str) -> u32 {
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
    StoreError::new(ErrorKind::Unavailable, "injected")
}

impl Store for RecordingStore {
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
        let runs = batch.iter().map(|run| (RecordedRequest::new(run.request()), run.count()));
        self.record(Call::Batch(runs.collect()));
        let mut results = Vec::new();
        for run in batch {
            match self.failure(run.request().charges()) {
                Ok(()) => results.extend(decide_one_by_one(&self.inner, &[*run], now + self.ahead).await),
                Err(error) => results.push(Err(error)),
            }
        }
        results
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        charge.cost().into()
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.record(Call::Detached(RecordedRequest::new(request)));
        self.inner.decide_detached(request, now + self.ahead);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.inner.export(limit, key, now).await
    }
}

impl ImmediateStore for RecordingStore {
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        self.record(Call::One(charge.limit().name().to_owned()));
        self.inner.charge_now(charge, clock)
    }

    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.record(Call::Request(RecordedRequest::new(request)));
        self.failure(request.charges())?;
        self.inner.decide_now(request, now + self.ahead)
    }
}

/// Returns the output of a future that never waits.
pub(crate) fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits"),
    }
}
