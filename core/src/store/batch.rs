//! Ordered batches of independent requests.

use alloc::vec::Vec;

use super::{State, Store, settle, state_indexes};
use crate::charge::Request;
use crate::decision::Verdict;
use crate::error::StoreError;
use crate::time::Time;

/// A run of equal requests, sent as one. An idempotency key covers the whole run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    request: Request<'a>,
    count: u32,
}

impl<'a> Run<'a> {
    /// Creates a run of `request`, `count` times in a row.
    pub fn new(request: Request<'a>, count: u32) -> Self {
        Self { request, count }
    }

    /// Returns the request.
    pub fn request(&self) -> Request<'a> {
        self.request
    }

    /// Returns how often the request is repeated.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the requests of the run one by one, each with an idempotency key of its own if the run has one.
    pub(super) fn requests(&self) -> impl Iterator<Item = Request<'a>> {
        let request = self.request;
        (0..self.count).map(move |index| match request.idempotency_key() {
            Some(key) => request.with_idempotency_key(key.part(index)),
            None => request,
        })
    }
}

/// The result of a run: one verdict per request, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunVerdict {
    verdicts: Vec<Verdict>,
}

impl RunVerdict {
    /// Creates a result from one verdict per request.
    pub fn from_verdicts(verdicts: Vec<Verdict>) -> Self {
        Self { verdicts }
    }

    /// Computes the verdicts from the states that the run found, by the pure function. A store that decides on a server
    /// can send back states instead of every verdict. `states` is indexed by [`state_indexes`].
    pub fn replay(run: &Run<'_>, states: &mut [State], now: Time) -> Self {
        let charges = run.request.charges();
        let (indexes, _) = state_indexes(charges);
        Self { verdicts: (0..run.count).map(|_| settle(charges, &indexes, states, now)).collect() }
    }

    /// Returns how many requests passed.
    pub fn passed(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.is_allowed()).count()
    }

    /// Returns the verdicts, in order.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// Returns the verdicts, owned.
    pub fn into_verdicts(self) -> Vec<Verdict> {
        self.verdicts
    }

    /// Adds the next verdict. An error says that the requests before it may have taken effect.
    pub(super) fn push(&mut self, verdict: Result<Verdict, StoreError>) -> Result<(), StoreError> {
        let first = self.verdicts.is_empty();
        self.verdicts.push(verdict.map_err(|error| if first { error } else { error.with_unknown_effect() })?);
        Ok(())
    }

    /// Returns the verdict of a run of one request. An error if the store returned none.
    #[cfg(feature = "std")]
    pub(crate) fn into_single(mut self) -> Result<Verdict, StoreError> {
        self.verdicts.pop().ok_or_else(StoreError::no_decision)
    }
}

/// Implements [`Store::decide_batch`] by one [`decide`](Store::decide) after the other.
pub async fn decide_one_by_one<S: Store + ?Sized>(
    store: &S,
    batch: &[Run<'_>],
    now: Time,
) -> Vec<Result<RunVerdict, StoreError>> {
    let mut results = Vec::with_capacity(batch.len());
    for run in batch {
        results.push(decide_run(store, run, now).await);
    }
    results
}

async fn decide_run<S: Store + ?Sized>(
    store: &S,
    run: &Run<'_>,
    now: Time,
) -> Result<RunVerdict, StoreError> {
    let mut verdicts = RunVerdict::default();
    for request in run.requests() {
        verdicts.push(store.decide(request, now).await)?;
    }
    Ok(verdicts)
}
