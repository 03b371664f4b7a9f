//! Decisions that the store did not make, by the policies of the limits.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use tollgate_core::store::RawDecision;
use tollgate_core::{
    Action, Charge, Decision, ErrorKind, FallbackReason, Outcome, Request, Source, StoreError, Time, Verdict,
};

use super::breaker::CircuitBreaker;
use super::call::{Failure, catch_panic};
use super::pending::PendingDeltas;
use super::policy::{FallbackStore, OnFailure};
use super::shares::{LimitShare, Policies};
use super::telemetry::Telemetry;

/// Why the store did not decide.
#[derive(Clone, Debug)]
pub(super) struct FallbackCause {
    /// `None` if the circuit breaker did not permit the call.
    pub(super) failure: Option<Failure>,
    /// When the store may be called again.
    pub(super) retry_after: Duration,
    /// The caller's time, if the clock has been read.
    pub(super) now: Option<Time>,
}

impl FallbackCause {
    fn reason(&self) -> FallbackReason {
        match &self.failure {
            None => FallbackReason::CircuitOpen,
            Some(Failure::Error(error)) => FallbackReason::Failed(error.kind()),
            Some(Failure::Timeout(_)) => FallbackReason::Failed(ErrorKind::Timeout),
            Some(Failure::Panic) => FallbackReason::Panicked,
        }
    }

    /// Returns the error for what no policy decides.
    pub(super) fn into_error(self) -> StoreError {
        if let Some(failure) = self.failure {
            return failure.into_error();
        }
        let message = format!(
            "the circuit breaker is open: the store is not called; try again in {:?}",
            self.retry_after
        );
        StoreError::new(ErrorKind::Unavailable, message)
    }

    /// Returns whether the request is unsupported. That is not a failure of the store, and no policy applies.
    fn is_unsupported(&self) -> bool {
        matches!(&self.failure, Some(Failure::Error(error)) if error.kind() == ErrorKind::Unsupported)
    }
}

/// Decides by the policies of the limits.
pub(super) struct Fallback<'a> {
    /// Those of one instant, for a whole request.
    pub(super) policies: Guard<Arc<Policies>>,
    pub(super) breaker: &'a CircuitBreaker,
    pub(super) pending: &'a PendingDeltas,
    pub(super) telemetry: &'a Telemetry,
}

impl Fallback<'_> {
    /// Decides one charge.
    pub(super) fn decide_one(
        &self,
        charge: &Charge<'_>,
        now: Time,
        cause: &FallbackCause,
    ) -> Result<Decision, StoreError> {
        if cause.is_unsupported() {
            return Err(cause.clone().into_error());
        }
        charge.supported()?;
        let policy = self.policies.of(charge.limit().name());
        if !decides(policy, charge.action()) {
            return Err(cause.clone().into_error());
        }
        let decision = match self.rule(policy, now) {
            Rule::Allow => RawDecision::allow(charge, Source::Policy).into(),
            Rule::Deny => deny(charge, cause.retry_after),
            Rule::Fallback(fallback) => self.policies.with_share(fallback, charge.limit(), |share| {
                let decision = self.decide_on_share(fallback, share, charge, now, cause.retry_after);
                self.add_pending(share, charge, &decision, now);
                decision
            }),
        };
        self.telemetry.fell_back(charge.limit().name(), cause.reason(), &decision);
        Ok(decision)
    }

    /// Decides a request: all of its charges pass, or nothing is debited.
    pub(super) fn decide(
        &self,
        request: Request<'_>,
        now: Time,
        cause: &FallbackCause,
    ) -> Result<Verdict, StoreError> {
        let charges = request.charges();
        if let ([charge], None) = (charges, request.idempotency_key()) {
            return Ok(Verdict::one(self.decide_one(charge, now, cause)?, now));
        }
        request.supported()?;
        let has_policy =
            |charge: &Charge<'_>| decides(self.policies.of(charge.limit().name()), charge.action());
        if cause.is_unsupported() || !charges.iter().all(has_policy) {
            return Err(cause.clone().into_error());
        }
        let mut decisions: Vec<Option<Decision>> = vec![None; charges.len()];
        let mut groups: Vec<Group<'_>> = Vec::new();
        let mut denied = false;
        for (index, charge) in charges.iter().enumerate() {
            match self.rule(self.policies.of(charge.limit().name()), now) {
                Rule::Deny => {
                    denied = true;
                    decisions[index] = Some(deny(charge, cause.retry_after));
                }
                Rule::Allow => {
                    decisions[index] = Some(RawDecision::allow(charge, Source::Policy).into());
                }
                Rule::Fallback(fallback) => {
                    match groups.iter_mut().find(|group| group.fallback.same_store(fallback)) {
                        Some(group) => group.indexes.push(index),
                        None => groups.push(Group { fallback, indexes: vec![index] }),
                    }
                }
            }
        }
        let mut decided = 0;
        while !denied && decided < groups.len() {
            denied = !self.decide_group(&groups[decided], request, now, cause.retry_after, &mut decisions);
            decided += 1;
        }
        if denied {
            self.compensate(&groups[..decided.saturating_sub(1)], charges, now, &mut decisions);
        }
        let decisions: Vec<Decision> = charges
            .iter()
            .zip(decisions)
            // Groups after a denied one were not decided.
            .map(|(charge, decision)| decision.unwrap_or_else(|| nothing_granted(charge, Source::Fallback)))
            .collect();
        for (charge, decision) in charges.iter().zip(&decisions) {
            self.telemetry.fell_back(charge.limit().name(), cause.reason(), decision);
            if let OnFailure::Fallback(fallback) = self.policies.of(charge.limit().name()) {
                self.policies.with_share(fallback, charge.limit(), |share| {
                    self.add_pending(share, charge, decision, now);
                });
            }
        }
        Ok(Verdict::new(decisions, now))
    }

    /// Releases leases on the fallback stores of their limits. A lease that a store does not know is ignored there.
    pub(super) fn release(&self, request: Request<'_>, now: Time) {
        for charge in request.charges().iter().filter(|charge| charge.action() == Action::Release) {
            if let OnFailure::Fallback(fallback) = self.policies.of(charge.limit().name()) {
                self.policies.with_share(fallback, charge.limit(), |share| {
                    let _ = self.decide_on_share(fallback, share, charge, now, Duration::ZERO);
                });
            }
        }
    }

    /// Returns what a policy does at this instant.
    fn rule<'p>(&self, policy: &'p OnFailure, now: Time) -> Rule<'p> {
        match policy {
            OnFailure::Allow => Rule::Allow,
            OnFailure::Deny => Rule::Deny,
            OnFailure::AllowFor(time) => {
                if self.breaker.failing_for(now) < *time {
                    Rule::Allow
                } else {
                    Rule::Deny
                }
            }
            OnFailure::Fallback(fallback) => Rule::Fallback(fallback),
        }
    }

    /// Decides one charge on a fallback store.
    #[inline]
    fn decide_on_share(
        &self,
        fallback: &FallbackStore,
        share: &LimitShare,
        charge: &Charge<'_>,
        now: Time,
        retry_after: Duration,
    ) -> Decision {
        let Ok(limit) = &share.share else { return deny(charge, retry_after) };
        if let Ok(decision) = catch_panic(|| fallback.store().charge_at(&charge.with_limit(limit), now)) {
            return of_whole_limit(charge, decision, retry_after);
        }
        self.telemetry.counters.panics.increment();
        deny(charge, retry_after)
    }

    /// Decides the charges of one fallback store together. Returns whether they passed.
    fn decide_group(
        &self,
        group: &Group<'_>,
        request: Request<'_>,
        now: Time,
        retry_after: Duration,
        decisions: &mut [Option<Decision>],
    ) -> bool {
        let charges: Vec<_> = group.indexes.iter().map(|index| request.charges()[*index]).collect();
        let shares: Result<Vec<_>, _> = charges
            .iter()
            .map(|charge| {
                self.policies.with_share(group.fallback, charge.limit(), |share| share.share.clone())
            })
            .collect();
        let verdict = shares.ok().and_then(|shares| {
            let on_shares: Vec<_> =
                charges.iter().zip(&shares).map(|(charge, share)| charge.with_limit(share)).collect();
            let on_shares = Request::new(&on_shares);
            let on_shares =
                request.idempotency_key().map_or(on_shares, |key| on_shares.with_idempotency_key(key));
            let verdict = catch_panic(|| group.fallback.store().decide_at(on_shares, now));
            if verdict.is_err() {
                self.telemetry.counters.panics.increment();
            }
            verdict.ok()?.ok()
        });
        for (position, (index, charge)) in group.indexes.iter().zip(&charges).enumerate() {
            let decision = verdict.as_ref().and_then(|verdict| verdict.decisions().get(position));
            decisions[*index] = Some(match decision {
                Some(decision) => of_whole_limit(charge, *decision, retry_after),
                None => deny(charge, retry_after),
            });
        }
        verdict.is_some_and(|verdict| verdict.is_allowed())
    }

    /// Refunds what these groups granted, because another one denied.
    fn compensate(
        &self,
        granted: &[Group<'_>],
        charges: &[Charge<'_>],
        now: Time,
        decisions: &mut [Option<Decision>],
    ) {
        for (group, index) in
            granted.iter().flat_map(|group| group.indexes.iter().map(move |index| (group, *index)))
        {
            let Some(decision) = decisions[index] else { continue };
            self.policies.with_share(group.fallback, charges[index].limit(), |share| {
                let share = share.share.as_ref().ok();
                let compensation =
                    share.and_then(|share| charges[index].with_limit(share).compensation(&decision, now));
                if let Some(compensation) = compensation {
                    // A panic leaves it debited, which over-counts and never over-admits.
                    let _ = catch_panic(|| group.fallback.store().charge_at(&compensation, now));
                }
            });
        }
        for (charge, decision) in charges.iter().zip(decisions) {
            if let Some(decision) = decision
                && decision.is_allowed()
            {
                *decision = nothing_granted(charge, decision.source());
            }
        }
    }

    #[inline]
    fn add_pending(&self, share: &LimitShare, charge: &Charge<'_>, decision: &Decision, now: Time) {
        if decision.source() == Source::Fallback {
            self.telemetry.counters.lost.add(self.pending.add(share, charge, decision, now));
        }
    }
}

/// What a policy does at one instant.
enum Rule<'a> {
    Allow,
    Deny,
    Fallback(&'a FallbackStore),
}

/// Charges with the same fallback store.
struct Group<'a> {
    fallback: &'a FallbackStore,
    indexes: Vec<usize>,
}

/// Returns whether a policy decides an action.
fn decides(policy: &OnFailure, action: Action) -> bool {
    match policy {
        OnFailure::Allow | OnFailure::Deny | OnFailure::AllowFor(_) => action.can_be_denied(),
        OnFailure::Fallback(_) => action != Action::Reset,
    }
}

fn deny(charge: &Charge<'_>, retry_after: Duration) -> Decision {
    RawDecision::deny(charge, retry_after, Source::Policy).into()
}

/// The decision on a charge that could pass, but whose request was denied.
fn nothing_granted(charge: &Charge<'_>, source: Source) -> Decision {
    RawDecision::allow(&charge.with_cost(0), source).into()
}

/// Translates the decision on a share of the limit into one on the limit.
fn of_whole_limit(charge: &Charge<'_>, decision: Decision, retry_after: Duration) -> Decision {
    match decision.outcome() {
        // The cost is larger than the share but not than the limit: the store can grant it when it is back.
        Outcome::NeverFits if charge.cost() <= charge.limit().capacity() => {
            let raw = RawDecision {
                outcome: Outcome::Denied,
                source: Source::Fallback,
                wait: u64::try_from(retry_after.as_nanos()).unwrap_or(u64::MAX),
                ..decision.raw()
            };
            raw.into()
        }
        // The lease was acquired on the store, where it may still be held.
        Outcome::LeaseLost => RawDecision::allow(charge, Source::Policy).into(),
        _ => decision.raw().with_source(Source::Fallback).into(),
    }
}
