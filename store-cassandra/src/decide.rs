//! Runs of requests on the rows of one entity.

use tollgate_core::{
    Action, AlgorithmKind, Charge, Decision, ErrorKind, Limit, OperationId, RawDecision, Request, Run,
    RunVerdict, State, StoreError, Time, Verdict, slots,
};

use crate::change::{Rows, change};
use crate::row::{Operation, Told, same_state};
use crate::store::Inner;

/// How many entries a sliding log may keep, and how many leases a concurrency limit: a row is sent twice with every
/// transaction, so it has to stay small.
pub(crate) const MOST_ENTRIES: u32 = 1_000;
/// How many words a row may have: room for as many leases, and for a log that has been debited beyond its limit.
const MOST_WORDS: usize = 4 * MOST_ENTRIES as usize + 8;
/// The most charges in one request, and requests in a run that has a name.
const MOST_NAMED: usize = 255;

/// What cannot be done here, before anything is sent.
pub(crate) fn refuse(run: &Run<'_>) -> Result<(), StoreError> {
    let request = run.request();
    request.supported()?;
    let charges = request.charges();
    if charges.len() > MOST_NAMED || request.id().is_some() && run.count() as usize > MOST_NAMED {
        let why = format!(
            "at most {MOST_NAMED} charges go into one request, and as many requests into a named run"
        );
        return Err(StoreError::new(ErrorKind::Unsupported, why));
    }
    charges.iter().try_for_each(|charge| fits_a_row(charge.limit()))
}

/// An error if the limit would keep more than goes into a row.
pub(crate) fn fits_a_row(limit: &Limit) -> Result<(), StoreError> {
    let (kept, instead) = match limit.kind() {
        AlgorithmKind::SlidingLog => ("instants", "a sliding counter or a sliding window"),
        AlgorithmKind::Concurrency => ("leases", "several keys, each with a part of the places"),
        _ => return Ok(()),
    };
    if limit.capacity() <= MOST_ENTRIES {
        return Ok(());
    }
    let why = format!(
        "it would keep up to {} {kept} in one row of cassandra, and {MOST_ENTRIES} is the most; use {instead}",
        limit.capacity()
    );
    Err(StoreError::unsupported(limit.name(), &why))
}

/// Decides runs of one entity, in order, by one transaction.
pub(crate) async fn decide(
    inner: &Inner,
    partition: &[u8],
    runs: &[Run<'_>],
    now: Time,
) -> Vec<Result<RunVerdict, StoreError>> {
    let charges = runs.iter().flat_map(|run| run.request().charges());
    let limits = distinct(charges.map(Charge::limit));
    let step = |rows: &mut Rows<'_>| runs.iter().map(|run| decide_run(rows, run, now)).collect();
    match change(inner, partition, &limits, now, step).await {
        Ok(answers) => answers,
        Err(error) => runs.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// Forgets an operation that was granted something under `first`, and gives that back by `charges`, in one transaction.
/// `None` if there was nothing to forget.
pub(crate) async fn give_back(
    inner: &Inner,
    partition: &[u8],
    first: &Limit,
    charges: &[Charge<'_>],
    id: Option<OperationId>,
    now: Time,
) -> Result<Option<Verdict>, StoreError> {
    let limits = distinct(std::iter::once(first).chain(charges.iter().map(Charge::limit)));
    let run = Run::new(Request::new(charges), 1);
    let step = |rows: &mut Rows<'_>| {
        if id.is_some_and(|id| !rows.of(first).disown(id)) {
            return Ok(None);
        }
        decide_run(rows, &run, now).map(|verdict| verdict.into_verdicts().pop())
    };
    change(inner, partition, &limits, now, step).await?
}

/// Limits without those that share their state with an earlier one.
pub(crate) fn distinct<'a>(limits: impl Iterator<Item = &'a Limit>) -> Vec<&'a Limit> {
    let mut distinct: Vec<&Limit> = Vec::new();
    for limit in limits {
        if !distinct.iter().any(|known| known.id() == limit.id()) {
            distinct.push(limit);
        }
    }
    distinct
}

/// Decides a run on the rows. If it fails, they are as before.
fn decide_run(rows: &mut Rows<'_>, run: &Run<'_>, now: Time) -> Result<RunVerdict, StoreError> {
    let charges = run.request().charges();
    let Some(first) = charges.first() else { return Ok(RunVerdict::replay(run, &mut [], now)) };
    if let Some(id) = run.request().id()
        && let Some(operation) = rows.of(first.limit()).operation(id).cloned()
    {
        return Ok(repeat(rows, charges, &operation, now));
    }
    let (slots, count) = slots(charges);
    let mut limits: Vec<&Limit> = Vec::with_capacity(count);
    for (charge, slot) in charges.iter().zip(&slots) {
        if *slot == limits.len() {
            limits.push(charge.limit());
        }
    }
    let before: Vec<State> = limits.iter().map(|limit| rows.of(limit).state.clone()).collect();
    let mut states = before.clone();
    let verdict = RunVerdict::replay(run, &mut states, now);
    for (limit, state) in limits.iter().zip(&states) {
        has_room(limit, state)?;
    }
    let has_effect = limits
        .iter()
        .zip(before.iter().zip(&states))
        .any(|(limit, (before, after))| !same_state(before, after, limit, now));
    for (limit, state) in limits.iter().zip(states) {
        rows.of(limit).state = state;
    }
    if let Some(id) = run.request().id()
        && has_effect
    {
        let told = verdict.verdicts().iter().flat_map(Verdict::decisions);
        let told = told.map(|decision| Told::of(decision, now)).collect();
        let charges = u8::try_from(charges.len()).unwrap_or(u8::MAX);
        rows.of(first.limit()).remember(Operation { id, charges, told });
    }
    Ok(verdict)
}

/// What a call was told that is repeated: its outcome, what it was granted and when it starts. The other numbers are of now.
fn repeat(rows: &mut Rows<'_>, charges: &[Charge<'_>], operation: &Operation, now: Time) -> RunVerdict {
    let requests = operation.told.chunks(usize::from(operation.charges).max(1)).map(|told| {
        let decisions = charges.iter().zip(told).map(|(charge, told)| {
            let look = charge.cost(0).action(Action::Take { max_wait: None });
            let there = rows.of(charge.limit()).state.clone().apply(&look, now).raw();
            let Told { outcome, granted, starts_at } = *told;
            let wait = u64::try_from(starts_at.since(now).as_nanos()).unwrap_or(u64::MAX);
            Decision::from(RawDecision { outcome, granted, wait, ..there })
        });
        Verdict::new(decisions.collect::<Vec<_>>(), now)
    });
    RunVerdict::from_verdicts(requests.collect())
}

/// An error if a state has become too large for a row: by debits beyond the limit, which nothing else bounds.
pub(crate) fn has_room(limit: &Limit, state: &State) -> Result<(), StoreError> {
    if !matches!(limit.kind(), AlgorithmKind::SlidingLog | AlgorithmKind::Concurrency) {
        return Ok(());
    }
    if state.snapshot(limit).words().len() <= MOST_WORDS {
        return Ok(());
    }
    let why = format!(
        "limit `{}`: its row on cassandra is full; debit less often, or use a sliding counter or a sliding window",
        limit.name()
    );
    Err(StoreError::new(ErrorKind::Full, why))
}
