//! Deciding requests and batches over several places. Needs tasks, and so a runtime.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use futures_util::future::join_all;

use super::{OwnedRequest, Part, Places, Run, RunVerdict};
use crate::charge::{Action, Charge, IdempotencyKey, Request};
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
    if let [(place, indexes)] = &places[..]
        && indexes.len() == batch.len()
    {
        // Nearly all batches: nothing has to be copied and sorted.
        return store.decide_runs(place, batch, now).await;
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
    let (parts, key) = (parts(store, request), request.idempotency_key());
    let stages = stages(&parts)?;
    let mut results: Vec<Option<Result<Verdict, StoreError>>> = parts.iter().map(|_| None).collect();
    let mut refused = false;
    for stage in [Stage::Reversible, Stage::Deniable, Stage::Certain] {
        let due = (0..parts.len()).filter(|index| !refused && stages[*index] == stage);
        let decided = join_all(due.map(|index| {
            let own = Request::new(&parts[index].charges);
            let own = key.map_or(own, |key| own.with_idempotency_key(key));
            let place = &parts[index].place;
            async move { (index, decide_in(store, place, own, now).await) }
        }));
        for (index, result) in decided.await {
            refused |= !matches!(&result, Ok(verdict) if verdict.is_allowed());
            results[index] = Some(result);
        }
    }
    // A reset or release that was executed cannot be compensated.
    let has_changed = parts.iter().zip(&results).any(|(part, result)| {
        matches!(result, Some(Ok(verdict)) if verdict.is_allowed())
            && part.charges.iter().any(is_irreversible)
    });
    let results = join_all(parts.iter().zip(results).map(|(part, result)| async move {
        match result {
            Some(Ok(verdict)) if refused && verdict.is_allowed() => {
                compensate(store, part, key, verdict, now).await
            }
            Some(result) => result,
            None => peek(store, part, now).await,
        }
    }))
    .await;
    let mut decisions: Vec<Option<Decision>> = vec![None; request.charges().len()];
    // The earliest of all places: a refund that is dated too late could refund what has refilled already.
    let mut decided_at = Time::MAX;
    let mut failure: Option<StoreError> = None;
    for (part, result) in parts.iter().zip(results) {
        match result {
            Ok(verdict) => {
                decided_at = decided_at.min(verdict.decided_at());
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
        Some(error) if has_changed => Err(error.with_unknown_effect()),
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

/// When a part of a request is decided. What cannot be reversed (a reset, a release) waits until nothing else can be
/// denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// First: what it grants can be refunded.
    Reversible,
    /// Then the part that can be denied, and cannot be reversed.
    Deniable,
    /// At last: it cannot be reversed, but it cannot be denied either.
    Certain,
}

fn is_irreversible(charge: &Charge<'_>) -> bool {
    matches!(charge.action(), Action::Reset | Action::Release)
}

/// Returns the stage of each part. An error if several parts can be denied and cannot be reversed: one of them would
/// stay done if another one is denied.
fn stages<P>(parts: &[Part<'_, P>]) -> Result<Vec<Stage>, StoreError> {
    let mut deniable = None;
    let mut stages = Vec::with_capacity(parts.len());
    for part in parts {
        let Some(irreversible) = part.charges.iter().find(|charge| is_irreversible(charge)) else {
            stages.push(Stage::Reversible);
            continue;
        };
        if !part.charges.iter().any(|charge| charge.action().can_be_denied()) {
            stages.push(Stage::Certain);
            continue;
        }
        if deniable.replace(irreversible).is_some() {
            let why = "several places of this store would have to reset or release something and may deny the request; \
                       send resets and releases in requests of their own";
            return Err(StoreError::unsupported(irreversible.limit().name(), why));
        }
        stages.push(Stage::Deniable);
    }
    Ok(stages)
}

/// Returns the balances of a part that was not decided, because another one was denied or failed.
async fn peek<S: Places>(store: &S, part: &Part<'_, S::Place>, now: Time) -> Result<Verdict, StoreError> {
    let take = Action::Take { max_wait: None };
    let peeks: Vec<_> = part.charges.iter().map(|charge| charge.with_cost(0).with_action(take)).collect();
    let verdict = decide_in(store, &part.place, Request::new(&peeks), now).await?;
    let decisions = part.charges.iter().zip(verdict.decisions()).map(|(charge, seen)| {
        if charge.action().can_be_denied() {
            return *seen;
        }
        // Recording what happened is never denied.
        Decision::from(RawDecision { outcome: Outcome::Allowed, wait: 0, ..seen.raw() })
    });
    Ok(Verdict::new(decisions.collect::<Vec<_>>(), verdict.decided_at()))
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

#[cfg(test)]
mod tests;
