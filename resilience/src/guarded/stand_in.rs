//! What is answered instead of the store, as the policies of the limits say.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::store::RawDecision;
use tollgate_core::{
    Action, Charge, Decision, ErrorKind, FallbackReason, Outcome, Request, Source, StoreError, Time, Verdict,
};

use super::call::{Failure, contained};
use super::handover::HandOver;
use super::policy::{Local, OnFailure, Policies, Shared};
use super::watch::Watch;

/// Why the store has no answer.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    /// `None` if it was not asked.
    pub(crate) failure: Option<Failure>,
    /// When asking again may help.
    pub(crate) wait: Duration,
    /// The time, if it had to be looked at.
    pub(crate) at: Option<Time>,
}

impl Trouble {
    fn reason(&self) -> FallbackReason {
        match &self.failure {
            None => FallbackReason::CircuitOpen,
            Some(Failure::Error(error)) => FallbackReason::Failed(error.kind()),
            Some(Failure::Late(_)) => FallbackReason::Failed(ErrorKind::Timeout),
            Some(Failure::Panic) => FallbackReason::Panicked,
        }
    }

    /// What the caller is told where no policy has an answer.
    pub(crate) fn into_error(self) -> StoreError {
        if let Some(failure) = self.failure {
            return failure.into_error();
        }
        let message =
            format!("the store failed and is not asked for the moment; try again in {:?}", self.wait);
        StoreError::new(ErrorKind::Unavailable, message)
    }

    /// It is about what was asked, not about the store: no policy makes it right.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(&self.failure, Some(Failure::Error(error)) if error.kind() == ErrorKind::Unsupported)
    }
}

/// Answers instead of the store.
#[derive(Debug)]
pub(crate) struct StandIn {
    pub(crate) policies: Policies,
    pub(crate) handover: Arc<HandOver>,
    pub(crate) watch: Arc<Watch>,
}

/// Whether it asks if something may pass. What books something that has happened is no such question.
fn asks(charge: &Charge<'_>) -> bool {
    matches!(charge.action(), Action::Take { .. } | Action::TakeUpTo | Action::Renew)
}

impl StandIn {
    /// Decides one charge.
    pub(crate) fn decide_one(
        &self,
        charge: &Charge<'_>,
        now: Time,
        trouble: &Trouble,
    ) -> Result<Decision, StoreError> {
        if trouble.is_refusal() {
            return Err(trouble.clone().into_error());
        }
        charge.supported()?;
        let decision = match self.policies.of(charge.limit().name()) {
            OnFailure::Allow if asks(charge) => RawDecision::allow(charge, Source::Policy).into(),
            OnFailure::Deny if asks(charge) => RawDecision::deny(charge, trouble.wait, Source::Policy).into(),
            OnFailure::Local(local) if charge.action() != Action::Reset => {
                self.policies.with_share(local, charge.limit(), |shared| {
                    let decision = self.locally(local, shared, charge, now, trouble.wait);
                    self.note(shared, charge, &decision, now);
                    decision
                })
            }
            _ => return Err(trouble.clone().into_error()),
        };
        self.watch.fell_back(charge.limit().name(), trouble.reason(), &decision);
        Ok(decision)
    }

    /// Decides a request: all of it passes, or nothing is taken.
    pub(crate) fn decide(
        &self,
        request: Request<'_>,
        now: Time,
        trouble: &Trouble,
    ) -> Result<Verdict, StoreError> {
        let charges = request.charges();
        if let ([charge], None) = (charges, request.idempotency_key()) {
            return Ok(Verdict::one(self.decide_one(charge, now, trouble)?, now));
        }
        request.supported()?;
        let answered = |charge: &Charge<'_>| match self.policies.of(charge.limit().name()) {
            OnFailure::Local(_) => charge.action() != Action::Reset,
            _ => asks(charge),
        };
        if trouble.is_refusal() || !charges.iter().all(answered) {
            return Err(trouble.clone().into_error());
        }
        let mut told: Vec<Option<Decision>> = vec![None; charges.len()];
        let mut locals: Vec<Group<'_>> = Vec::new();
        let mut refused = false;
        for (index, charge) in charges.iter().enumerate() {
            match self.policies.of(charge.limit().name()) {
                OnFailure::Deny => {
                    refused = true;
                    told[index] = Some(RawDecision::deny(charge, trouble.wait, Source::Policy).into());
                }
                OnFailure::Allow => told[index] = Some(RawDecision::allow(charge, Source::Policy).into()),
                OnFailure::Local(local) => match locals.iter_mut().find(|group| group.is_on(local)) {
                    Some(group) => group.indexes.push(index),
                    None => locals.push(Group { local, indexes: vec![index] }),
                },
            }
        }
        let mut done = 0;
        while !refused && done < locals.len() {
            refused = !self.group(&locals[done], request, now, trouble.wait, &mut told);
            done += 1;
        }
        if refused {
            self.take_nothing(&locals[..done.saturating_sub(1)], charges, now, &mut told);
        }
        let decisions: Vec<Decision> = charges
            .iter()
            .zip(told)
            // Nobody asked those behind a refusal.
            .map(|(charge, decision)| decision.unwrap_or_else(|| untaken(charge, Source::Fallback)))
            .collect();
        for (charge, decision) in charges.iter().zip(&decisions) {
            self.watch.fell_back(charge.limit().name(), trouble.reason(), decision);
            if let OnFailure::Local(local) = self.policies.of(charge.limit().name()) {
                self.policies.with_share(local, charge.limit(), |shared| {
                    self.note(shared, charge, decision, now);
                });
            }
        }
        Ok(Verdict::new(decisions, now))
    }

    /// Decides one charge on another store.
    #[inline]
    fn locally(
        &self,
        local: &Local,
        shared: &Shared,
        charge: &Charge<'_>,
        now: Time,
        wait: Duration,
    ) -> Decision {
        // A share that cannot be counted is none.
        let Ok(share) = &shared.share else { return RawDecision::deny(charge, wait, Source::Policy).into() };
        if let Ok(decision) = contained(|| local.store.charge_at(&charge.with_limit(share), now)) {
            return as_told(charge, decision, wait);
        }
        self.watch.counters.panicked.one();
        RawDecision::deny(charge, wait, Source::Policy).into()
    }

    /// Decides the charges of one store together. Whether they passed.
    fn group(
        &self,
        group: &Group<'_>,
        request: Request<'_>,
        now: Time,
        wait: Duration,
        told: &mut [Option<Decision>],
    ) -> bool {
        let whole: Vec<_> = group.indexes.iter().map(|index| request.charges()[*index]).collect();
        let shares: Result<Vec<_>, _> = whole
            .iter()
            .map(|charge| {
                self.policies.with_share(group.local, charge.limit(), |shared| shared.share.clone())
            })
            .collect();
        let verdict = shares.ok().and_then(|shares| {
            let ours: Vec<_> =
                whole.iter().zip(&shares).map(|(charge, share)| charge.with_limit(share)).collect();
            let ours = Request::new(&ours);
            let ours = request.idempotency_key().map_or(ours, |id| ours.with_idempotency_key(id));
            let verdict = contained(|| group.local.store.decide_at(ours, now));
            if verdict.is_err() {
                self.watch.counters.panicked.one();
            }
            verdict.ok()?.ok()
        });
        for (place, (index, charge)) in group.indexes.iter().zip(&whole).enumerate() {
            let decision = verdict.as_ref().and_then(|verdict| verdict.decisions().get(place));
            told[*index] = Some(match decision {
                Some(decision) => as_told(charge, *decision, wait),
                None => RawDecision::deny(charge, wait, Source::Policy).into(),
            });
        }
        verdict.is_some_and(|verdict| verdict.is_allowed())
    }

    /// Gives back what was taken before somebody refused.
    fn take_nothing(
        &self,
        taken: &[Group<'_>],
        charges: &[Charge<'_>],
        now: Time,
        told: &mut [Option<Decision>],
    ) {
        for (group, index) in
            taken.iter().flat_map(|group| group.indexes.iter().map(move |index| (group, *index)))
        {
            let Some(decision) = told[index] else { continue };
            self.policies.with_share(group.local, charges[index].limit(), |shared| {
                let undo = shared
                    .share
                    .as_ref()
                    .ok()
                    .and_then(|share| charges[index].with_limit(share).compensation(&decision, now));
                if let Some(undo) = undo {
                    // A bug there was counted when it was asked first.
                    let _ = contained(|| group.local.store.charge_at(&undo, now));
                }
            });
        }
        for (charge, decision) in charges.iter().zip(told) {
            if let Some(decision) = decision
                && decision.is_allowed()
            {
                *decision = untaken(charge, decision.source());
            }
        }
    }

    #[inline]
    fn note(&self, shared: &Shared, charge: &Charge<'_>, decision: &Decision, now: Time) {
        if decision.source() == Source::Fallback {
            self.watch.counters.lost.add(self.handover.note(shared, charge, decision, now));
        }
    }
}

/// Charges that fall back to the same store.
struct Group<'a> {
    local: &'a Local,
    indexes: Vec<usize>,
}

impl Group<'_> {
    fn is_on(&self, local: &Local) -> bool {
        Arc::ptr_eq(&self.local.store, &local.store)
    }
}

/// It would have passed, but nothing was taken.
fn untaken(charge: &Charge<'_>, source: Source) -> Decision {
    RawDecision::allow(&charge.with_cost(0), source).into()
}

/// What another store's decision on a share means for a charge on the whole.
fn as_told(charge: &Charge<'_>, decision: Decision, wait: Duration) -> Decision {
    match decision.outcome() {
        // More than the share can ever hold, but not more than the limit: that comes back with the store.
        Outcome::NeverFits if charge.cost() <= charge.limit().capacity() => {
            let raw = RawDecision {
                outcome: Outcome::Denied,
                source: Source::Fallback,
                wait: u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX),
                ..decision.raw()
            };
            raw.into()
        }
        // It was acquired elsewhere, and nobody can say that it is lost.
        Outcome::LeaseLost => RawDecision::allow(charge, Source::Policy).into(),
        _ => decision.raw().with_source(Source::Fallback).into(),
    }
}
