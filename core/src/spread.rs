//! Requests whose charges live in several places, for stores that are atomic in each of them only: all are asked at the
//! same time, and if one denies, the others give back. Never more than the limits passes; for a moment something may be
//! missing that is given back then.

use alloc::vec;
use alloc::vec::Vec;
use core::future::Future;

use futures_util::future::join_all;

use crate::charge::{Charge, OperationId, Request};
use crate::decision::{Decision, Outcome, RawDecision, Verdict};
use crate::error::{Effect, StoreError};
use crate::time::Time;

/// A store that is atomic in each of several places.
pub trait Places: Sync {
    /// Where charges are decided together: a server, a slot, a partition.
    type Place: PartialEq + Send + Sync;

    /// Where a charge is decided.
    fn place(&self, charge: &Charge<'_>) -> Self::Place;

    /// Decides a request whose charges live in one place.
    fn ask(
        &self,
        place: &Self::Place,
        request: Request<'_>,
        now: Time,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send;

    /// Gives back what a part was granted by these charges, in its place. If the request has an id, that is forgotten
    /// first: a repetition must not be told that it has what it has no longer. `None` if there was nothing to forget,
    /// because a repetition has given it back already.
    fn give_back(
        &self,
        part: &Part<'_, Self::Place>,
        charges: &[Charge<'_>],
        id: Option<OperationId>,
        now: Time,
    ) -> impl Future<Output = Result<Option<Verdict>, StoreError>> + Send;
}

/// The charges of a request that live in one place.
#[derive(Debug)]
#[non_exhaustive]
pub struct Part<'a, P> {
    /// Where.
    pub place: P,
    /// The charges, in the order of the request.
    pub charges: Vec<Charge<'a>>,
    /// Which of the request's they are.
    indexes: Vec<usize>,
}

/// Decides a request in several places. Not to be dropped before it is done, since nobody would give back then: a store
/// runs it in a task of its own.
pub async fn decide_in_places<S: Places>(
    store: &S,
    request: Request<'_>,
    now: Time,
) -> Result<Verdict, StoreError> {
    let parts = parts(store, request);
    let asked = join_all(parts.iter().map(|part| {
        let own = Request::new(&part.charges);
        let own = request.id().map_or(own, |id| own.with_id(id));
        store.ask(&part.place, own, now)
    }))
    .await;
    let refused = asked.iter().any(|answer| !matches!(answer, Ok(verdict) if verdict.is_allowed()));
    let told = join_all(parts.iter().zip(asked).map(|(part, answer)| async move {
        match answer {
            Ok(verdict) if refused && verdict.is_allowed() => {
                take_back(store, part, request.id(), verdict, now).await
            }
            answer => answer,
        }
    }))
    .await;
    let mut decisions: Vec<Option<Decision>> = vec![None; request.charges().len()];
    let mut decided_at = Time::EPOCH;
    let mut failure: Option<StoreError> = None;
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

/// Gives back what a part was granted, and says what is there then. What cannot be given back stays spent, which errs
/// on the side of the limit, and is an error whose effect is unknown.
async fn take_back<S: Places>(
    store: &S,
    part: &Part<'_, S::Place>,
    id: Option<OperationId>,
    verdict: Verdict,
    now: Time,
) -> Result<Verdict, StoreError> {
    let at = verdict.decided_at();
    let undo: Vec<_> =
        part.charges.iter().zip(verdict.decisions()).map(|(charge, told)| charge.undo(told, at)).collect();
    let charges: Vec<_> = undo.iter().flatten().copied().collect();
    let mut back = None;
    if !charges.is_empty() {
        back = store.give_back(part, &charges, id, now).await.map_err(StoreError::with_unknown_effect)?;
    }
    let mut there = back.iter().flat_map(Verdict::decisions);
    let told = undo.iter().zip(verdict.decisions()).map(|(undo, told)| {
        let after = undo.and_then(|_| there.next()).unwrap_or(told).raw();
        let raw = RawDecision { outcome: Outcome::Allowed, granted: 0, wait: told.raw().wait, ..after };
        Decision::from(raw)
    });
    Ok(Verdict::new(told.collect::<Vec<_>>(), at))
}
