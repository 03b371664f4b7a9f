//! Merges equal requests of a batch into runs.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tollgate_core::store::{Run, RunVerdict};
use tollgate_core::{Charge, ErrorKind, Key, Request, StoreError, Verdict};

/// The runs of a batch: requests in order, equal ones merged where the decisions are the same.
#[derive(Debug)]
pub(super) struct MergedRuns<'a> {
    runs: Vec<Run<'a>>,
    /// The index of the run of each request.
    run_of: Vec<usize>,
}

/// Identifies a state: the id of a limit, and a key.
type StateKey<'a> = (u64, Key<'a>);

fn state_key<'a>(charge: &Charge<'a>) -> StateKey<'a> {
    (charge.limit().id(), charge.key())
}

impl<'a> MergedRuns<'a> {
    /// Merges a request into an earlier run of equal ones only if no run since then touches the same states: then the
    /// order makes no difference. A request with an idempotency key is never merged.
    pub(super) fn new(requests: impl ExactSizeIterator<Item = Request<'a>>) -> Self {
        let mut merged =
            Self { runs: Vec::with_capacity(requests.len()), run_of: Vec::with_capacity(requests.len()) };
        // By the standard library's keyed hash, because an attacker may choose the keys.
        let mut last_runs: HashMap<StateKey<'a>, usize> = HashMap::with_capacity(requests.len());
        for request in requests {
            let run = merged.add(request, &mut last_runs);
            merged.run_of.push(run);
        }
        merged
    }

    /// Adds a request, and returns the index of its run. `last_runs` has the last run that touched each state.
    fn add(&mut self, request: Request<'a>, last_runs: &mut HashMap<StateKey<'a>, usize>) -> usize {
        // Nothing has touched any state since the newest run.
        if let Some(newest) = self.runs.len().checked_sub(1)
            && self.extend(newest, request)
        {
            return newest;
        }
        let next = self.runs.len();
        let (mut mergeable, mut last_run) = (request.idempotency_key().is_none(), None);
        for charge in request.charges() {
            match last_runs.entry(state_key(charge)) {
                Entry::Occupied(known) => {
                    mergeable &= *last_run.get_or_insert(*known.get()) == *known.get();
                }
                Entry::Vacant(new) => {
                    mergeable = false;
                    new.insert(next);
                }
            }
        }
        if mergeable
            && let Some(run) = last_run
            && self.extend(run, request)
        {
            return run;
        }
        if last_run.is_some() {
            last_runs.extend(request.charges().iter().map(|charge| (state_key(charge), next)));
        }
        self.runs.push(Run::new(request, 1));
        next
    }

    /// Adds a request to a run, if it is equal. Returns whether it is.
    fn extend(&mut self, run: usize, request: Request<'a>) -> bool {
        let run = &mut self.runs[run];
        let equal = request.idempotency_key().is_none() && run.request() == request;
        if equal {
            *run = Run::new(request, run.count() + 1);
        }
        equal
    }

    pub(super) fn runs(&self) -> &[Run<'a>] {
        &self.runs
    }

    /// Splits the results of the runs into the result of each request, in order.
    pub(super) fn split(
        &self,
        results: Vec<Result<RunVerdict, StoreError>>,
    ) -> impl Iterator<Item = Result<Verdict, StoreError>> {
        let mut results: Vec<_> =
            results.into_iter().map(|run| run.map(|run| run.into_verdicts().into_iter())).collect();
        self.run_of.iter().map(move |run| match results.get_mut(*run) {
            Some(Ok(verdicts)) => verdicts.next().ok_or_else(missing_verdict),
            Some(Err(error)) => Err(error.clone()),
            None => Err(missing_verdict()),
        })
    }
}

fn missing_verdict() -> StoreError {
    StoreError::new(ErrorKind::Internal, "the store returned no verdict for a request of a batch")
        .with_unknown_effect()
}
