//! Requests whose charges live in several places: all are asked at the same time, and if one denies, the others give
//! back. Never more than the limits passes; for a moment something may be missing that is given back then.

use std::sync::Arc;

use futures_util::future::join_all;
use tollgate_core::{
    Charge, Decision, Effect, ErrorKind, OperationId, Outcome, OwnedRequest, RawDecision, Request, Run,
    StoreError, Time, Verdict,
};

use crate::call::Call;
use crate::script;
use crate::store::Inner;
use crate::topology::Place;

/// Decides a request in several places. In a task of its own: a caller that goes away leaves nothing half done.
pub(crate) async fn decide(
    inner: &Arc<Inner>,
    request: OwnedRequest,
    now: Time,
) -> Result<Verdict, StoreError> {
    let inner = Arc::clone(inner);
    let task = tokio::spawn(async move {
        let charges = request.charges();
        all_or_nothing(&inner, request.request(&charges), now).await
    });
    task.await.unwrap_or_else(|gone| {
        let message = "the task that decides in several places ended before it was done";
        Err(StoreError::new(ErrorKind::Internal, message).with_unknown_effect().caused_by(gone))
    })
}

/// The charges of a request that live in one place.
struct Part<'a> {
    place: Place,
    /// Which of the request's they are.
    indexes: Vec<usize>,
    charges: Vec<Charge<'a>>,
}

async fn all_or_nothing(inner: &Inner, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (index, charge) in request.charges().iter().enumerate() {
        let place = inner.place(charge);
        let known = parts.iter().position(|part| part.place == place).unwrap_or_else(|| {
            parts.push(Part { place, indexes: Vec::new(), charges: Vec::new() });
            parts.len() - 1
        });
        parts[known].indexes.push(index);
        parts[known].charges.push(*charge);
    }
    let asked =
        join_all(parts.iter().map(|part| ask(inner, part.place, &part.charges, request.id(), now))).await;
    let refused = asked.iter().any(|answer| !matches!(answer, Ok(verdict) if verdict.is_allowed()));
    let mut decisions: Vec<Option<Decision>> = vec![None; request.charges().len()];
    let mut decided_at = Time::EPOCH;
    let mut failure: Option<StoreError> = None;
    let told = join_all(parts.iter().zip(asked).map(|(part, answer)| async move {
        match answer {
            Ok(verdict) if refused && verdict.is_allowed() => {
                give_back(inner, part, request.id(), verdict, now).await
            }
            answer => answer,
        }
    }))
    .await;
    for (part, answer) in parts.iter().zip(told) {
        match answer {
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

async fn ask(
    inner: &Inner,
    place: Place,
    charges: &[Charge<'_>],
    id: Option<OperationId>,
    now: Time,
) -> Result<Verdict, StoreError> {
    let mut request = Request::new(charges);
    if let Some(id) = id {
        request = request.with_id(id);
    }
    let mut answers = inner.decide_at(place, &[Run::new(request, 1)], now).await;
    let verdict = answers.pop().and_then(|answer| answer.map(|run| run.into_verdicts().pop()).transpose());
    verdict.unwrap_or_else(|| Err(StoreError::new(ErrorKind::Internal, "a request without a verdict")))
}

/// Gives back what a part was granted, and says what is there then. What cannot be given back stays spent, which errs
/// on the side of the limit, and is an error whose effect is unknown.
async fn give_back(
    inner: &Inner,
    part: &Part<'_>,
    id: Option<OperationId>,
    verdict: Verdict,
    now: Time,
) -> Result<Verdict, StoreError> {
    let at = verdict.decided_at();
    let undo: Vec<_> =
        part.charges.iter().zip(verdict.decisions()).map(|(charge, told)| charge.undo(told, at)).collect();
    let charges: Vec<_> = undo.iter().flatten().copied().collect();
    let mut back = Verdict::new([], at);
    if !charges.is_empty() {
        let gone = match id {
            Some(id) => disown(inner, part, id).await.map_err(StoreError::with_unknown_effect)?,
            None => true,
        };
        if gone {
            // Named, so that a lost answer can be asked for again.
            back = ask(inner, part.place, &charges, Some(OperationId::unique()), now)
                .await
                .map_err(StoreError::with_unknown_effect)?;
        }
    }
    let mut there = back.decisions().iter();
    let told = undo.iter().zip(verdict.decisions()).map(|(undo, told)| {
        let after = undo.and_then(|_| there.next()).unwrap_or(told).raw();
        let raw = RawDecision { outcome: Outcome::Allowed, granted: 0, wait: told.raw().wait, ..after };
        Decision::from(raw)
    });
    Ok(Verdict::new(told.collect::<Vec<_>>(), at))
}

/// Forgets that a part was granted, before it is given back: a repetition must not be told that it has what it has no
/// longer, and must not give it back once more. Says whether there was something to forget.
async fn disown(inner: &Inner, part: &Part<'_>, id: OperationId) -> Result<bool, StoreError> {
    let keys = part.charges.first().map(|charge| inner.names.operation(charge.key(), id));
    let call = Call {
        script: script::disown(),
        keys: keys.into_iter().collect(),
        arguments: Vec::new(),
        // Whose answer is lost may have forgotten it, and nobody else gives it back then.
        repeatable: false,
    };
    let answer = inner.topology.run(part.place, &call, inner.deadline()).await?;
    Ok(answer.bytes()? == b"1")
}
