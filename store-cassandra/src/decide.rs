//! Runs of requests on the rows of one entity.

use tollgate_core::store::{Export, Run, RunVerdict, State, slots};
use tollgate_core::{
    Action, AlgorithmKind, Charge, ErrorKind, IdempotencyKey, Limit, Request, StoreError, Time, Verdict,
};

use crate::change::{Rows, change};
use crate::row::{Operation, Told, same_state};
use crate::store::Inner;

/// How many entries a sliding log may keep, and how many leases a concurrency limit: a row is sent twice with every
/// transaction, so it has to stay small.
pub(crate) const MOST_ENTRIES: u32 = 1_000;
/// How many words a row may have: room for as many leases, and for a log that has been debited beyond its limit.
const MOST_WORDS: usize = 4 * MOST_ENTRIES as usize + 8;
/// The most charges in one request, and in a run that has a name, whose every answer is remembered.
const MOST_CHARGES: usize = 255;

/// What cannot be done here, before anything is sent.
pub(crate) fn refuse(run: &Run<'_>) -> Result<(), StoreError> {
    let request = run.request();
    request.supported()?;
    let charges = request.charges();
    let requests = if request.idempotency_key().is_some() { run.count() as usize } else { 1 };
    if charges.len().saturating_mul(requests) > MOST_CHARGES {
        let why =
            format!("at most {MOST_CHARGES} charges go into one request, and into a run that has a name");
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

/// Executes a run of one entity, and says what is there afterwards, by one transaction.
pub(crate) async fn apply_deltas(
    inner: &Inner,
    partition: &[u8],
    run: &Run<'_>,
    now: Time,
) -> Result<Vec<Export>, StoreError> {
    let charges = run.request().charges();
    let limits = distinct(charges.iter().map(Charge::limit));
    let step = |rows: &mut Rows<'_>| {
        decide_run(rows, run, now)?;
        let told = charges.iter().map(|charge| {
            let state = &rows.of(charge.limit())?.state;
            let state = (!state.is_fresh(now)).then(|| state.snapshot(charge.limit()));
            Ok(Export { state, at: now })
        });
        told.collect()
    };
    change(inner, partition, &limits, now, step).await?
}

/// Gives back what a part of a request was granted. If it has a name, that is forgotten in the same transaction, and what is
/// given back is what the name says was granted, at its own instant: `charges` may be of a repetition. `None` if there is
/// nothing by that name.
pub(crate) async fn compensate(
    inner: &Inner,
    partition: &[u8],
    part: &[Charge<'_>],
    charges: &[Charge<'_>],
    id: Option<IdempotencyKey>,
    now: Time,
) -> Result<Option<Verdict>, StoreError> {
    let Some(first) = part.first() else { return Ok(None) };
    let limits = distinct(part.iter().map(Charge::limit));
    let step = |rows: &mut Rows<'_>| {
        let named: Vec<Charge<'_>>;
        let mut charges = charges;
        if let Some(id) = id {
            let Some(operation) = rows.of(first.limit())?.disown(id) else { return Ok(None) };
            named = part.iter().zip(&operation.told).filter_map(|(charge, told)| told.undo(charge)).collect();
            charges = &named;
        }
        let run = Run::new(Request::new(charges), 1);
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
    if let Some(id) = run.request().idempotency_key()
        && let Some(operation) = rows.of(first.limit())?.operation(id).cloned()
    {
        return repeat(rows, charges, &operation, now);
    }
    let (slots, count) = slots(charges);
    let mut limits: Vec<&Limit> = Vec::with_capacity(count);
    for (charge, slot) in charges.iter().zip(&slots) {
        if *slot == limits.len() {
            limits.push(charge.limit());
        }
    }
    let before = limits.iter().map(|limit| rows.of(limit).map(|row| row.state.clone()));
    let before = before.collect::<Result<Vec<State>, _>>()?;
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
        rows.of(limit)?.state = state;
    }
    if let Some(id) = run.request().idempotency_key()
        && has_effect
    {
        let told = verdict.verdicts().iter().flat_map(Verdict::decisions);
        let told = told.map(|decision| Told::of(decision, now)).collect();
        let charges = u8::try_from(charges.len()).unwrap_or(u8::MAX);
        rows.of(first.limit())?.remember(Operation { id, charges, told });
    }
    Ok(verdict)
}

/// What a call was told that is repeated: its outcome, what it was granted and when it starts. The other numbers are of now.
fn repeat(
    rows: &mut Rows<'_>,
    charges: &[Charge<'_>],
    operation: &Operation,
    now: Time,
) -> Result<RunVerdict, StoreError> {
    let mut verdicts = Vec::new();
    for told in operation.told.chunks(usize::from(operation.charges).max(1)) {
        let mut decisions = Vec::with_capacity(told.len());
        for (charge, told) in charges.iter().zip(told) {
            let look = charge.with_cost(0).with_action(Action::Take { max_wait: None });
            let there = rows.of(charge.limit())?.state.clone().apply(&look, now);
            decisions.push(told.again(&there, now));
        }
        verdicts.push(Verdict::new(decisions, now));
    }
    Ok(RunVerdict::from_verdicts(verdicts))
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
