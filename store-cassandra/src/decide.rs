//! Decides runs of requests on the rows of one entity.

use tollgate_core::store::{Export, Run, RunVerdict, State, state_indexes};
use tollgate_core::{
    Action, AlgorithmKind, Charge, ErrorKind, IdempotencyKey, Limit, Request, StoreError, Time, Verdict,
};

use crate::row::{IdempotencyRecord, RecordedDecision, is_equivalent_state};
use crate::store::Inner;
use crate::update::{Rows, update};

/// How many entries a sliding log, and how many leases a concurrency limit may have. Every transaction sends a row
/// twice, so rows have to stay small.
const MAX_ENTRIES: u32 = 1_000;
/// How many words a state may have: room for as many leases, and for a log that was debited beyond its limit.
const MAX_WORDS: usize = 4 * MAX_ENTRIES as usize + 8;
/// How many charges a request may have, and a run with an idempotency key, whose decisions are all recorded.
const MAX_CHARGES: usize = 255;

/// Returns an error if this store cannot decide the run.
pub(crate) fn check_run(run: &Run<'_>) -> Result<(), StoreError> {
    let request = run.request();
    request.supported()?;
    let charges = request.charges();
    let requests = if request.idempotency_key().is_some() { run.count() as usize } else { 1 };
    if charges.len().saturating_mul(requests) > MAX_CHARGES {
        let message = format!(
            "on cassandra, a request has at most {MAX_CHARGES} charges, and so has a run with an idempotency key"
        );
        return Err(StoreError::new(ErrorKind::Unsupported, message));
    }
    charges.iter().try_for_each(|charge| check_limit_size(charge.limit()))
}

/// The entries of a state whose size depends on the limit.
struct Entries {
    name: &'static str,
    alternative: &'static str,
}

/// Returns the entries that a state of this limit consists of, or `None` if its size is fixed. An error if this store
/// does not know the algorithm.
fn entries(limit: &Limit) -> Result<Option<Entries>, StoreError> {
    match limit.kind() {
        AlgorithmKind::SlidingLog => {
            Ok(Some(Entries { name: "timestamps", alternative: "a sliding counter or a sliding window" }))
        }
        AlgorithmKind::Concurrency => {
            Ok(Some(Entries { name: "leases", alternative: "several keys, each with a part of the slots" }))
        }
        AlgorithmKind::TokenBucket
        | AlgorithmKind::IntervalBucket
        | AlgorithmKind::LeakyMeter
        | AlgorithmKind::LeakyQueue
        | AlgorithmKind::FixedWindow
        | AlgorithmKind::SlidingCounter
        | AlgorithmKind::SlidingWindow
        | AlgorithmKind::Gcra
        | AlgorithmKind::SmoothBursty
        | AlgorithmKind::SmoothWarmingUp => Ok(None),
        other => {
            let why = format!("the cassandra store does not support the algorithm `{}`", other.name());
            Err(StoreError::unsupported(limit.name(), &why))
        }
    }
}

/// Returns an error if a state of the limit can become too large for a row.
pub(crate) fn check_limit_size(limit: &Limit) -> Result<(), StoreError> {
    let Some(Entries { name, alternative }) = entries(limit)? else { return Ok(()) };
    if limit.capacity() <= MAX_ENTRIES {
        return Ok(());
    }
    let why = format!(
        "it needs up to {} {name} in one row of cassandra, and the maximum is {MAX_ENTRIES}; use {alternative}",
        limit.capacity()
    );
    Err(StoreError::unsupported(limit.name(), &why))
}

/// Returns an error if a state has become too large for a row, by debits beyond the limit.
fn check_state_size(limit: &Limit, state: &State) -> Result<(), StoreError> {
    if entries(limit)?.is_none() || state.snapshot(limit).words().len() <= MAX_WORDS {
        return Ok(());
    }
    let message = format!(
        "limit `{}`: its row in cassandra is full; debit less often, or use a sliding counter or a sliding window",
        limit.name()
    );
    Err(StoreError::new(ErrorKind::Full, message))
}

/// Decides runs of one entity, in order, by one transaction.
pub(crate) async fn decide_runs(
    inner: &Inner,
    partition: &[u8],
    runs: &[Run<'_>],
    now: Time,
) -> Vec<Result<RunVerdict, StoreError>> {
    let charges = runs.iter().flat_map(|run| run.request().charges());
    let limits = distinct(charges.map(Charge::limit));
    let step = |rows: &mut Rows<'_>, now: Time| runs.iter().map(|run| decide_run(rows, run, now)).collect();
    match update(inner, partition, &limits, now, step).await {
        Ok(results) => results,
        Err(error) => runs.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// Applies deltas of one entity, and returns the resulting states, by one transaction.
pub(crate) async fn apply_deltas(
    inner: &Inner,
    partition: &[u8],
    run: &Run<'_>,
    now: Time,
) -> Result<Vec<Export>, StoreError> {
    let charges = run.request().charges();
    let limits = distinct(charges.iter().map(Charge::limit));
    let step = |rows: &mut Rows<'_>, now: Time| {
        decide_run(rows, run, now)?;
        let exports = charges.iter().map(|charge| {
            let state = &rows.of(charge.limit())?.state;
            let state = (!state.is_fresh(now)).then(|| state.snapshot(charge.limit()));
            Ok(Export { state, at: now })
        });
        exports.collect()
    };
    update(inner, partition, &limits, now, step).await?
}

/// Refunds what a part of a request was granted. If the request has an idempotency key, the same transaction removes
/// its record, and refunds what the record says was granted, dated when it was: `charges` may be those of a
/// repetition. Returns `None` if there is no such record.
pub(crate) async fn compensate(
    inner: &Inner,
    partition: &[u8],
    part: &[Charge<'_>],
    charges: &[Charge<'_>],
    key: Option<IdempotencyKey>,
    now: Time,
) -> Result<Option<Verdict>, StoreError> {
    let Some(first) = part.first() else { return Ok(None) };
    let limits = distinct(part.iter().map(Charge::limit));
    let step = |rows: &mut Rows<'_>, now: Time| {
        let recorded: Vec<Charge<'_>>;
        let mut charges = charges;
        if let Some(key) = key {
            let Some(record) = rows.of(first.limit())?.remove_record(key) else { return Ok(None) };
            let pairs = part.iter().zip(&record.decisions);
            recorded = pairs.filter_map(|(charge, decision)| decision.compensation(charge)).collect();
            charges = &recorded;
        }
        let run = Run::new(Request::new(charges), 1);
        decide_run(rows, &run, now).map(|verdict| verdict.into_verdicts().pop())
    };
    update(inner, partition, &limits, now, step).await?
}

/// Returns the limits without those that share their state with an earlier one.
fn distinct<'a>(limits: impl Iterator<Item = &'a Limit>) -> Vec<&'a Limit> {
    let mut distinct: Vec<&Limit> = Vec::new();
    for limit in limits {
        if !distinct.iter().any(|known| known.id() == limit.id()) {
            distinct.push(limit);
        }
    }
    distinct
}

/// Decides a run on the rows. If it fails, the rows are unchanged.
fn decide_run(rows: &mut Rows<'_>, run: &Run<'_>, now: Time) -> Result<RunVerdict, StoreError> {
    let charges = run.request().charges();
    let Some(first) = charges.first() else { return Ok(RunVerdict::replay(run, &mut [], now)) };
    if let Some(key) = run.request().idempotency_key()
        && let Some(record) = rows.of(first.limit())?.record(key).cloned()
    {
        return replay(rows, charges, &record, now);
    }
    let (indexes, count) = state_indexes(charges);
    let mut limits: Vec<&Limit> = Vec::with_capacity(count);
    for (charge, index) in charges.iter().zip(&indexes) {
        if *index == limits.len() {
            limits.push(charge.limit());
        }
    }
    let before = limits.iter().map(|limit| rows.of(limit).map(|row| row.state.clone()));
    let before = before.collect::<Result<Vec<State>, _>>()?;
    let mut states = before.clone();
    let verdict = RunVerdict::replay(run, &mut states, now);
    for (limit, state) in limits.iter().zip(&states) {
        check_state_size(limit, state)?;
    }
    let has_effect = limits
        .iter()
        .zip(before.iter().zip(&states))
        .any(|(limit, (before, after))| !is_equivalent_state(before, after, limit, now));
    let record = match run.request().idempotency_key() {
        Some(key) if has_effect => Some(record(key, charges.len(), &verdict, now)?),
        Some(_) | None => None,
    };
    for (limit, state) in limits.iter().zip(states) {
        rows.of(limit)?.state = state;
    }
    if let Some(record) = record {
        rows.of(first.limit())?.push_record(record);
    }
    Ok(verdict)
}

/// Returns the record of a run with an idempotency key.
fn record(
    key: IdempotencyKey,
    charges: usize,
    verdict: &RunVerdict,
    now: Time,
) -> Result<IdempotencyRecord, StoreError> {
    let decisions = verdict.verdicts().iter().flat_map(Verdict::decisions);
    let decisions =
        decisions.map(|decision| RecordedDecision::new(decision, now)).collect::<Result<_, _>>()?;
    Ok(IdempotencyRecord { key, charges: u8::try_from(charges).unwrap_or(u8::MAX), decisions })
}

/// Answers a repeated run: outcome, granted amount and start are the recorded ones, all other fields are current.
fn replay(
    rows: &mut Rows<'_>,
    charges: &[Charge<'_>],
    record: &IdempotencyRecord,
    now: Time,
) -> Result<RunVerdict, StoreError> {
    let mut verdicts = Vec::new();
    for recorded in record.decisions.chunks(usize::from(record.charges).max(1)) {
        let mut decisions = Vec::with_capacity(recorded.len());
        for (charge, recorded) in charges.iter().zip(recorded) {
            let peek = charge.with_cost(0).with_action(Action::Take { max_wait: None });
            let current = rows.of(charge.limit())?.state.clone().apply(&peek, now);
            decisions.push(recorded.replay(&current, now));
        }
        verdicts.push(Verdict::new(decisions, now));
    }
    Ok(RunVerdict::from_verdicts(verdicts))
}
