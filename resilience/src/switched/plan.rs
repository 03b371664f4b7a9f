//! How a run is handled: which parts of it are sent to the store, and how the results become verdicts.

use smallvec::SmallVec;
use tollgate_core::store::{RawDecision, Run, RunVerdict};
use tollgate_core::{
    Charge, Decision, Effect, ErrorKind, IdempotencyKey, Request, Source, StoreError, Time, Verdict,
};

use super::handling::Handling;
use super::table::SwitchTable;

/// The store's result of a run.
pub(super) type RunResult = Result<RunVerdict, StoreError>;

/// The part of the idempotency key of the first shadowed charge. Stores that split requests count theirs from zero.
const SHADOWED_PART: u32 = 1 << 31;
/// The part of the idempotency key of compensating refunds, so that a repeated call refunds once.
const COMPENSATION_PART: u32 = u32::MAX;

/// The plan for a run that the switches change.
pub(super) struct RequestPlan<'a> {
    run: Run<'a>,
    /// One per charge.
    handling: SmallVec<[Handling; 4]>,
    /// The enforced charges: a smaller request, which stays all or nothing.
    enforced: SmallVec<[Charge<'a>; 4]>,
}

impl<'a> RequestPlan<'a> {
    /// Creates the plan for a run. `None` if the store decides all of it.
    pub(super) fn new(table: &SwitchTable, run: Run<'a>) -> Option<Self> {
        let charges = run.request().charges();
        let mut handling: SmallVec<[Handling; 4]> =
            charges.iter().map(|charge| table.handling(charge)).collect();
        if handling.iter().all(Handling::is_enforced) {
            return None;
        }
        if handling.iter().any(Handling::is_deny_listed) {
            // The whole request is denied, so nothing is sent to the store.
            for other in handling.iter_mut().filter(|handling| !handling.is_deny_listed()) {
                *other = Handling::Bypassed;
            }
        }
        let enforced = charges.iter().zip(&handling).filter(|(_, handling)| handling.is_enforced());
        let enforced = enforced.map(|(charge, _)| *charge).collect();
        Some(Self { run, handling, enforced })
    }

    /// Returns the runs for the store: first the enforced charges, then each shadowed charge by itself, so that none of
    /// them can deny the rest.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let (key, count) = (self.run.request().idempotency_key(), self.run.count());
        let enforced = (!self.enforced.is_empty()).then(|| request(&self.enforced, key));
        let shadowed = self.shadowed().map(move |(index, charge)| {
            request(std::slice::from_ref(charge), key.map(|key| self.shadowed_key(key, index)))
        });
        enforced.into_iter().chain(shadowed).map(move |request| Run::new(request, count))
    }

    /// Returns the idempotency key of a shadowed charge. A charge that is the whole request keeps the key, so that a
    /// repetition is recognized even if the switch has changed.
    fn shadowed_key(&self, key: IdempotencyKey, index: usize) -> IdempotencyKey {
        match u32::try_from(index) {
            _ if self.handling.len() == 1 => key,
            Ok(index) => key.part(SHADOWED_PART.saturating_add(index)),
            Err(_) => key.part(COMPENSATION_PART - 1),
        }
    }

    fn shadowed(&self) -> impl Iterator<Item = (usize, &Charge<'a>)> {
        let charges = self.run.request().charges().iter().zip(&self.handling).enumerate();
        charges.filter_map(|(index, (charge, handling))| {
            matches!(handling, Handling::Shadowed(_)).then_some((index, charge))
        })
    }

    /// Assembles the verdicts from the results of [`runs`](Self::runs). `compensate` receives the compensating refunds
    /// of shadowed charges whose request did not pass: with an enforced limit, nothing would have been debited.
    pub(super) fn assemble(
        &self,
        results: &mut impl Iterator<Item = RunResult>,
        now: Time,
        compensate: impl FnOnce(Request<'_>),
    ) -> RunResult {
        let mut next = || results.next().unwrap_or_else(|| Err(missing_result()));
        let enforced = if self.enforced.is_empty() { None } else { Some(next()) };
        let shadowed: SmallVec<[RunResult; 4]> = self.shadowed().map(|_| next()).collect();
        let mut compensations = Vec::new();
        let result = match enforced.transpose() {
            Ok(enforced) => (0..self.run.count() as usize)
                .map(|index| self.verdict(index, enforced.as_ref(), &shadowed, now, &mut compensations))
                .collect::<Result<_, _>>()
                .map(RunVerdict::from_verdicts),
            Err(error) => {
                if error.effect() == Effect::None {
                    for ((_, charge), result) in self.shadowed().zip(&shadowed) {
                        let verdicts = result.iter().flat_map(RunVerdict::verdicts);
                        compensations.extend(verdicts.filter_map(|verdict| compensation(charge, verdict)));
                    }
                }
                Err(error)
            }
        };
        if !compensations.is_empty() {
            let key = self.run.request().idempotency_key();
            compensate(request(&compensations, key.map(|key| key.part(COMPENSATION_PART))));
        }
        result
    }

    /// Assembles the verdict on one request of the run.
    fn verdict(
        &self,
        index: usize,
        enforced: Option<&RunVerdict>,
        shadowed: &[RunResult],
        now: Time,
        compensations: &mut Vec<Charge<'a>>,
    ) -> Result<Verdict, StoreError> {
        let enforced =
            enforced.map(|run| run.verdicts().get(index).ok_or_else(missing_result)).transpose()?;
        let mut shadowed =
            shadowed.iter().map(|result| result.as_ref().ok().and_then(|run| run.verdicts().get(index)));
        let mut decided = enforced.map_or(&[][..], Verdict::decisions).iter();
        let mut decided_at = enforced.map(Verdict::decided_at);
        let denied =
            enforced.is_some_and(Verdict::is_denied) || self.handling.iter().any(Handling::is_deny_listed);
        let mut decisions: SmallVec<[Decision; 4]> = SmallVec::new();
        for (charge, handling) in self.run.request().charges().iter().zip(&self.handling) {
            decisions.push(match handling {
                Handling::Enforced => *decided.next().ok_or_else(missing_result)?,
                Handling::Bypassed if denied => {
                    granting_nothing(RawDecision::allow(charge, Source::Switch).into())
                }
                Handling::Bypassed => RawDecision::allow(charge, Source::Switch).into(),
                Handling::DenyListed => RawDecision::deny_listed(charge).into(),
                Handling::Shadowed(counters) => {
                    let verdict = shadowed.next().flatten();
                    decided_at = decided_at.or(verdict.map(Verdict::decided_at));
                    let decision = verdict.and_then(|verdict| verdict.decisions().first().copied());
                    let decision = counters.shadow(charge, decision);
                    if denied {
                        compensations.extend(verdict.and_then(|verdict| compensation(charge, verdict)));
                        granting_nothing(decision)
                    } else {
                        decision
                    }
                }
            });
        }
        Ok(Verdict::new(decisions, decided_at.unwrap_or(now)))
    }
}

fn request<'c>(charges: &'c [Charge<'c>], key: Option<IdempotencyKey>) -> Request<'c> {
    let request = Request::new(charges);
    key.map_or(request, |key| request.with_idempotency_key(key))
}

/// Returns the compensating refund of a shadowed charge, if the store itself debited it.
fn compensation<'a>(charge: &Charge<'a>, verdict: &Verdict) -> Option<Charge<'a>> {
    let decision = verdict.decisions().first().filter(|decision| decision.source() == Source::Store)?;
    charge.compensation(decision, verdict.decided_at())
}

/// The decision on a charge that could pass, but whose request was denied.
fn granting_nothing(decision: Decision) -> Decision {
    RawDecision { granted: 0, ..decision.raw() }.into()
}

pub(super) fn missing_result() -> StoreError {
    StoreError::new(ErrorKind::Internal, "the store returned no result for a part of a request")
        .with_unknown_effect()
}
