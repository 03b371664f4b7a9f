//! Deciding requests and batches over several places. Needs tasks, and so a runtime.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use futures_util::future::join_all;

use super::{OwnedRequest, Part, Places, Run, RunVerdict};
use crate::charge::{IdempotencyKey, Request};
use crate::decision::{Decision, Outcome, RawDecision, Verdict};
use crate::error::{Effect, ErrorKind, StoreError};
use crate::time::Time;

/// Decides one request, wherever its charges live.
pub async fn decide_across<S: Places>(
    store: &Arc<S>,
    request: Request<'_>,
    now: Time,
) -> Result<Verdict, StoreError> {
    store.check_run(&Run::new(request, 1))?;
    if request.charges().is_empty() {
        return Ok(Verdict::new([], now));
    }
    match store.common_place(request.charges()) {
        Some(place) => decide_in(&**store, &place, request, now).await,
        None => decide_in_task(store, request.into(), now).await,
    }
}

/// Decides a batch. Runs that live in one place go there together, in order; places are called at the same time.
pub async fn decide_batch_across<S: Places>(
    store: &Arc<S>,
    batch: &[Run<'_>],
    now: Time,
) -> Vec<Result<RunVerdict, StoreError>> {
    let mut results: Vec<_> = (0..batch.len()).map(|_| None).collect();
    let mut places: Vec<(S::Place, Vec<usize>)> = Vec::new();
    let mut scattered = Vec::new();
    for (index, run) in batch.iter().enumerate() {
        let charges = run.request().charges();
        if let Err(error) = store.check_run(run) {
            results[index] = Some(Err(error));
        } else if charges.is_empty() {
            results[index] = Some(Ok(RunVerdict::replay(run, &mut [], now)));
        } else if let Some(place) = store.common_place(charges) {
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, indexes)) => indexes.push(index),
                None => places.push((place, vec![index])),
            }
        } else {
            scattered.push(index);
        }
    }
    let together = join_all(places.into_iter().map(|(place, indexes)| async move {
        let runs: Vec<_> = indexes.iter().map(|index| batch[*index]).collect();
        let decided = store.decide_runs(&place, &runs, now).await;
        indexes.into_iter().zip(decided).collect::<Vec<_>>()
    }));
    for (index, result) in together.await.into_iter().flatten() {
        results[index] = Some(result);
    }
    for index in scattered {
        results[index] = Some(decide_scattered(store, &batch[index], now).await);
    }
    let missing = || Err(StoreError::new(ErrorKind::Internal, "the store returned no result for a run"));
    results.into_iter().map(|result| result.unwrap_or_else(missing)).collect()
}

/// Decides a request in the background, if there is a runtime. What fails over-counts and never over-admits.
pub fn decide_detached_across<S: Places>(store: &Arc<S>, request: Request<'_>, now: Time) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let (store, request) = (Arc::clone(store), OwnedRequest::from(request));
    runtime.spawn(async move {
        let charges = request.charges();
        let _ = decide_across(&store, request.request(&charges), now).await;
    });
}

/// Decides a run whose requests live in several places, one request after the other.
async fn decide_scattered<S: Places>(
    store: &Arc<S>,
    run: &Run<'_>,
    now: Time,
) -> Result<RunVerdict, StoreError> {
    let mut verdicts = RunVerdict::default();
    for request in run.requests() {
        verdicts.push(decide_in_task(store, request.into(), now).await)?;
    }
    Ok(verdicts)
}

/// Decides a request over several places in a task of its own: a caller that goes away cannot leave it half done.
async fn decide_in_task<S: Places>(
    store: &Arc<S>,
    request: OwnedRequest,
    now: Time,
) -> Result<Verdict, StoreError> {
    let store = Arc::clone(store);
    let task = tokio::spawn(async move {
        let charges = request.charges();
        decide_in_places(&*store, request.request(&charges), now).await
    });
    task.await.unwrap_or_else(|error| {
        let message = "the task that decides a request over several places ended early";
        Err(StoreError::new(ErrorKind::Internal, message).with_unknown_effect().with_source(error))
    })
}

/// Decides a request whose charges live in one place.
async fn decide_in<S: Places>(
    store: &S,
    place: &S::Place,
    request: Request<'_>,
    now: Time,
) -> Result<Verdict, StoreError> {
    let result = store.decide_runs(place, &[Run::new(request, 1)], now).await.pop();
    result.ok_or_else(StoreError::no_decision)??.into_single()
}

/// Must not be dropped before it completes, since nothing would be refunded then.
async fn decide_in_places<S: Places>(
    store: &S,
    request: Request<'_>,
    now: Time,
) -> Result<Verdict, StoreError> {
    let parts = parts(store, request);
    let results = join_all(parts.iter().map(|part| {
        let own = Request::new(&part.charges);
        let own = request.idempotency_key().map_or(own, |key| own.with_idempotency_key(key));
        async move { decide_in(store, &part.place, own, now).await }
    }))
    .await;
    let refused = results.iter().any(|result| !matches!(result, Ok(verdict) if verdict.is_allowed()));
    let results = join_all(parts.iter().zip(results).map(|(part, result)| async move {
        match result {
            Ok(verdict) if refused && verdict.is_allowed() => {
                compensate(store, part, request.idempotency_key(), verdict, now).await
            }
            result => result,
        }
    }))
    .await;
    let mut decisions: Vec<Option<Decision>> = vec![None; request.charges().len()];
    let mut decided_at = Time::EPOCH;
    let mut failure: Option<StoreError> = None;
    for (part, result) in parts.iter().zip(results) {
        match result {
            Ok(verdict) => {
                decided_at = decided_at.max(verdict.decided_at());
                for (index, decision) in part.indexes.iter().zip(verdict.decisions()) {
                    decisions[*index] = Some(*decision);
                }
            }
            // If one of several may have taken effect, the request may have.
            Err(error) if failure.as_ref().is_none_or(|known| known.effect() == Effect::None) => {
                failure = Some(error);
            }
            Err(_) => {}
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(Verdict::new(decisions.into_iter().flatten(), decided_at)),
    }
}

fn parts<'a, S: Places>(store: &S, request: Request<'a>) -> Vec<Part<'a, S::Place>> {
    let mut parts: Vec<Part<'a, S::Place>> = Vec::new();
    for (index, charge) in request.charges().iter().enumerate() {
        let place = store.place(charge);
        let known = parts.iter().position(|part| part.place == place).unwrap_or_else(|| {
            parts.push(Part { place, charges: Vec::new(), indexes: Vec::new() });
            parts.len() - 1
        });
        parts[known].indexes.push(index);
        parts[known].charges.push(*charge);
    }
    parts
}

/// Refunds what a part was granted, and returns the balance after that. What cannot be refunded stays debited, which
/// over-counts and never over-admits, and is an error whose effect is unknown.
async fn compensate<S: Places>(
    store: &S,
    part: &Part<'_, S::Place>,
    key: Option<IdempotencyKey>,
    verdict: Verdict,
    now: Time,
) -> Result<Verdict, StoreError> {
    let at = verdict.decided_at();
    let pairs = part.charges.iter().zip(verdict.decisions());
    let refunds: Vec<_> = pairs.map(|(charge, decision)| charge.compensation(decision, at)).collect();
    let charges: Vec<_> = refunds.iter().flatten().copied().collect();
    let mut refunded = None;
    if !charges.is_empty() {
        let result = store.compensate(part, &charges, key, now).await;
        refunded = result.map_err(StoreError::with_unknown_effect)?;
    }
    let mut after = refunded.iter().flat_map(Verdict::decisions);
    let decisions = refunds.iter().zip(verdict.decisions()).map(|(refund, decision)| {
        let balance = refund.and_then(|_| after.next()).unwrap_or(decision).raw();
        let raw = RawDecision { outcome: Outcome::Allowed, granted: 0, wait: decision.raw().wait, ..balance };
        Decision::from(raw)
    });
    Ok(Verdict::new(decisions.collect::<Vec<_>>(), at))
}
