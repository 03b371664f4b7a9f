//! What happens to a whole request: which parts of it the store is asked, and how the answers become one verdict again.

use smallvec::SmallVec;
use tollgate_core::store::{RawDecision, Run, RunVerdict};
use tollgate_core::{
    Charge, Decision, Effect, ErrorKind, IdempotencyKey, Request, Source, StoreError, Time, Verdict,
};

use super::fate::Fate;
use super::settings::Settings;

/// What a store answers to a run.
pub(super) type Answer = Result<RunVerdict, StoreError>;

/// Where the ids of watched charges begin: stores that cut requests to pieces themselves count theirs from zero.
const WATCHED: u32 = 1 << 31;
/// The id of what gives watched charges back, so that a repeated call gives them back once.
const GIVEN_BACK: u32 = u32::MAX;

/// A run of requests, some of whose charges are not simply the store's business.
pub(super) struct Plan<'a> {
    run: Run<'a>,
    /// One per charge.
    fates: SmallVec<[Fate; 4]>,
    /// Those that the store decides: a smaller request, all or nothing among themselves.
    enforced: SmallVec<[Charge<'a>; 4]>,
}

impl<'a> Plan<'a> {
    /// `None` if the store decides all of it.
    pub(super) fn of(settings: &Settings, run: Run<'a>) -> Option<Self> {
        let charges = run.request().charges();
        let mut fates: SmallVec<[Fate; 4]> = charges.iter().map(|charge| settings.fate(charge)).collect();
        if fates.iter().all(Fate::is_asked) {
            return None;
        }
        if fates.iter().any(Fate::is_barred) {
            // All of it is turned away: there is nothing left to ask.
            for fate in fates.iter_mut().filter(|fate| !fate.is_barred()) {
                *fate = Fate::Passes;
            }
        }
        let asked = charges.iter().zip(&fates).filter(|(_, fate)| fate.is_asked());
        let enforced = asked.map(|(charge, _)| *charge).collect();
        Some(Self { run, fates, enforced })
    }

    /// What the store is asked: first what it decides, then each watched charge by itself, so that none of them can
    /// turn the rest away.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let (id, count) = (self.run.request().idempotency_key(), self.run.count());
        let enforced = (!self.enforced.is_empty()).then(|| named(&self.enforced, id));
        let watched = self.watched().map(move |(index, charge)| {
            named(std::slice::from_ref(charge), id.map(|id| self.id_of_watched(id, index)))
        });
        enforced.into_iter().chain(watched).map(move |request| Run::new(request, count))
    }

    /// A charge that is all of its request keeps its id, so that a repetition is known whichever way the switch is by
    /// then.
    fn id_of_watched(&self, id: IdempotencyKey, index: usize) -> IdempotencyKey {
        match u32::try_from(index) {
            _ if self.fates.len() == 1 => id,
            Ok(index) => id.part(WATCHED.saturating_add(index)),
            Err(_) => id.part(GIVEN_BACK - 1),
        }
    }

    fn watched(&self) -> impl Iterator<Item = (usize, &Charge<'a>)> {
        let charges = self.run.request().charges().iter().zip(&self.fates).enumerate();
        charges
            .filter_map(|(index, (charge, fate))| matches!(fate, Fate::Watched(_)).then_some((index, charge)))
    }

    /// Puts the verdicts together from the answers to [`runs`](Self::runs). What was taken by watched charges of requests
    /// that did not pass goes to `give_back`: had their limits been enforced, nothing would have been debited.
    pub(super) fn conclude(
        &self,
        answers: &mut impl Iterator<Item = Answer>,
        now: Time,
        give_back: impl FnOnce(Request<'_>),
    ) -> Answer {
        let mut next = || answers.next().unwrap_or_else(|| Err(unanswered()));
        let enforced = if self.enforced.is_empty() { None } else { Some(next()) };
        let watched: SmallVec<[Answer; 4]> = self.watched().map(|_| next()).collect();
        let mut taken_in_vain = Vec::new();
        let told = match enforced.transpose() {
            Ok(enforced) => (0..self.run.count() as usize)
                .map(|index| self.verdict(index, enforced.as_ref(), &watched, now, &mut taken_in_vain))
                .collect::<Result<_, _>>()
                .map(RunVerdict::from_verdicts),
            Err(error) => {
                if error.effect() == Effect::None {
                    for ((_, charge), answer) in self.watched().zip(&watched) {
                        let verdicts = answer.iter().flat_map(RunVerdict::verdicts);
                        taken_in_vain.extend(verdicts.filter_map(|verdict| undo(charge, verdict)));
                    }
                }
                Err(error)
            }
        };
        if !taken_in_vain.is_empty() {
            give_back(named(
                &taken_in_vain,
                self.run.request().idempotency_key().map(|id| id.part(GIVEN_BACK)),
            ));
        }
        told
    }

    /// The verdict on one request of the run.
    fn verdict(
        &self,
        index: usize,
        enforced: Option<&RunVerdict>,
        watched: &[Answer],
        now: Time,
        taken_in_vain: &mut Vec<Charge<'a>>,
    ) -> Result<Verdict, StoreError> {
        let enforced = enforced.map(|run| run.verdicts().get(index).ok_or_else(unanswered)).transpose()?;
        let mut watched =
            watched.iter().map(|answer| answer.as_ref().ok().and_then(|run| run.verdicts().get(index)));
        let mut decided = enforced.map_or(&[][..], Verdict::decisions).iter();
        let mut decided_at = enforced.map(Verdict::decided_at);
        let denied = enforced.is_some_and(Verdict::is_denied) || self.fates.iter().any(Fate::is_barred);
        let mut decisions: SmallVec<[Decision; 4]> = SmallVec::new();
        for (charge, fate) in self.run.request().charges().iter().zip(&self.fates) {
            decisions.push(match fate {
                Fate::Asked => *decided.next().ok_or_else(unanswered)?,
                Fate::Passes if denied => taking_nothing(RawDecision::allow(charge, Source::Switch).into()),
                Fate::Passes => RawDecision::allow(charge, Source::Switch).into(),
                Fate::DenyListed => RawDecision::deny_listed(charge).into(),
                Fate::Watched(watch) => {
                    let answer = watched.next().flatten();
                    decided_at = decided_at.or(answer.map(Verdict::decided_at));
                    let told =
                        watch.told(charge, answer.and_then(|verdict| verdict.decisions().first().copied()));
                    if denied {
                        taken_in_vain.extend(answer.and_then(|verdict| undo(charge, verdict)));
                        taking_nothing(told)
                    } else {
                        told
                    }
                }
            });
        }
        Ok(Verdict::new(decisions, decided_at.unwrap_or(now)))
    }
}

fn named<'c>(charges: &'c [Charge<'c>], id: Option<IdempotencyKey>) -> Request<'c> {
    let request = Request::new(charges);
    id.map_or(request, |id| request.with_idempotency_key(id))
}

/// What gives a watched charge back, as far as it was debited where it would be given back.
fn undo<'a>(charge: &Charge<'a>, verdict: &Verdict) -> Option<Charge<'a>> {
    let decision = verdict.decisions().first().filter(|decision| decision.source() == Source::Store)?;
    charge.compensation(decision, verdict.decided_at())
}

/// It could have passed, but its request did not.
fn taking_nothing(decision: Decision) -> Decision {
    RawDecision { granted: 0, ..decision.raw() }.into()
}

pub(super) fn unanswered() -> StoreError {
    StoreError::new(ErrorKind::Internal, "the store answered a request in part only").with_unknown_effect()
}
