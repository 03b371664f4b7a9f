//! Equal requests that travel as one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tollgate_core::store::{Run, RunVerdict};
use tollgate_core::{Charge, ErrorKind, Key, Request, StoreError, Verdict};

/// Requests in the order of their arrival, equal ones merged into runs where nobody can tell the difference.
#[derive(Debug)]
pub(super) struct Merged<'a> {
    runs: Vec<Run<'a>>,
    /// For each request, which run is its own.
    run_of: Vec<usize>,
}

/// What a charge counts on: a limit's id and a key.
type State<'a> = (u64, Key<'a>);

fn state<'a>(charge: &Charge<'a>) -> State<'a> {
    (charge.limit().id(), charge.key())
}

impl<'a> Merged<'a> {
    /// A request joins an earlier run of its equals only if no run since then has touched what it counts on: then it makes no
    /// difference when exactly it is decided. A request with an operation id is a call of its own.
    pub(super) fn of(requests: impl ExactSizeIterator<Item = Request<'a>>) -> Self {
        let mut merged =
            Self { runs: Vec::with_capacity(requests.len()), run_of: Vec::with_capacity(requests.len()) };
        // Keys may be chosen by an attacker, so the standard library's keyed hash.
        let mut last: HashMap<State<'a>, usize> = HashMap::with_capacity(requests.len());
        for request in requests {
            let run = merged.run_for(request, &mut last);
            merged.run_of.push(run);
        }
        merged
    }

    fn run_for(&mut self, request: Request<'a>, last: &mut HashMap<State<'a>, usize>) -> usize {
        // The run before it is the last one to have touched anything.
        if let Some(newest) = self.runs.len().checked_sub(1)
            && self.extend(newest, request)
        {
            return newest;
        }
        let next = self.runs.len();
        let (mut joins, mut first) = (request.idempotency_key().is_none(), None);
        for charge in request.charges() {
            match last.entry(state(charge)) {
                Entry::Occupied(known) => joins &= *first.get_or_insert(*known.get()) == *known.get(),
                Entry::Vacant(_) => joins = false,
            }
        }
        if joins
            && let Some(run) = first
            && self.extend(run, request)
        {
            return run;
        }
        last.extend(request.charges().iter().map(|charge| (state(charge), next)));
        self.runs.push(Run::new(request, 1));
        next
    }

    /// Once more what a run does, if it is the same.
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

    /// To each request, in their order, what became of it.
    pub(super) fn hand_out(
        &self,
        answers: Vec<Result<RunVerdict, StoreError>>,
    ) -> impl Iterator<Item = Result<Verdict, StoreError>> {
        let mut answers: Vec<_> =
            answers.into_iter().map(|run| run.map(|run| run.into_verdicts().into_iter())).collect();
        self.run_of.iter().map(move |run| match answers.get_mut(*run) {
            Some(Ok(verdicts)) => verdicts.next().ok_or_else(unanswered),
            Some(Err(error)) => Err(error.clone()),
            None => Err(unanswered()),
        })
    }
}

fn unanswered() -> StoreError {
    StoreError::new(ErrorKind::Internal, "the store answered a batch without a verdict for each request")
        .with_unknown_effect()
}
