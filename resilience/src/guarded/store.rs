//! The calls of a guarded store.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use tollgate_core::store::{Capability, Export, ImmediateStore, RawDecision, Run, RunVerdict, Store};
use tollgate_core::{
    Action, Charge, Clock, Decision, ErrorKind, IdempotencyKey, Key, Limit, Observer, Request, Source,
    StoreError, Time, Verdict,
};

use super::Guarded;
use super::breaker::{Permission, Probe};
use super::call::{Failure, catch_panic, with_deadline};
use super::fallback::{Fallback, FallbackCause};
use super::telemetry::Telemetry;

impl<S: Store + 'static> Guarded<S> {
    fn telemetry(&self) -> &Telemetry {
        &self.inner.telemetry
    }

    fn fallback(&self) -> Fallback<'_> {
        let inner = &*self.inner;
        Fallback {
            policies: self.policies.load(),
            breaker: &self.breaker,
            pending: &inner.pending,
            telemetry: &inner.telemetry,
        }
    }

    /// Returns whether the store may be called. `Some` if the call is a probe.
    #[inline]
    fn permission(&self, now: impl FnOnce() -> Time) -> Result<Option<Probe>, FallbackCause> {
        if self.breaker.is_closed() {
            return Ok(None);
        }
        let now = now();
        let (permission, changed) = self.breaker.permission(now);
        self.telemetry().breaker_changed(changed);
        match permission {
            Permission::Call => Ok(None),
            Permission::Probe(probe) => Ok(Some(probe)),
            Permission::NotPermitted(retry_after) => {
                self.telemetry().counters.not_permitted_calls.increment();
                Err(FallbackCause { failure: None, retry_after, now: Some(now) })
            }
        }
    }

    /// Calls the store.
    #[inline]
    async fn call<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        probe: Option<Probe>,
        now: impl Fn() -> Time,
        call: impl FnOnce() -> F,
    ) -> Result<T, FallbackCause> {
        let started = self.telemetry().call_started();
        // The future is also created inside, because that may panic, too.
        let result = with_deadline(self.deadline, pin!(async { call().await })).await;
        self.call_ended(probe, now, started, result.and_then(|result| result.map_err(Failure::Error)))
    }

    #[inline]
    fn call_ended<T>(
        &self,
        probe: Option<Probe>,
        now: impl Fn() -> Time,
        started: Option<Time>,
        result: Result<T, Failure>,
    ) -> Result<T, FallbackCause> {
        self.telemetry().call_ended(started, result.as_ref().err());
        self.record_outcome(probe, now, result.as_ref().err());
        result.map_err(|failure| self.cause(failure))
    }

    fn cause(&self, failure: Failure) -> FallbackCause {
        FallbackCause { failure: Some(failure), retry_after: self.breaker.config().open_for, now: None }
    }

    /// Records the outcome of a call in the breaker.
    #[inline]
    fn record_outcome(&self, probe: Option<Probe>, now: impl FnOnce() -> Time, failure: Option<&Failure>) {
        let kind = match failure {
            Some(Failure::Error(error)) => Some(error.kind()),
            Some(Failure::Timeout(_) | Failure::Panic) => Some(ErrorKind::Internal),
            None => None,
        };
        // An unsupported request may have been refused before it was sent. It says nothing about the store.
        if kind == Some(ErrorKind::Unsupported) {
            return;
        }
        if let Some(failure) = failure {
            self.telemetry().call_failed(failure);
        }
        // A corrupt state concerns one key, and shows that the store answers.
        if !matches!(kind, None | Some(ErrorKind::Corrupt)) {
            self.telemetry().breaker_changed(match probe {
                None => self.breaker.record_failure(now()),
                Some(probe) => probe.record_failure(now()),
            });
            return;
        }
        match probe {
            None => {
                self.breaker.record_success();
                if !self.inner.pending.is_empty() {
                    self.inner.reconcile_in_background(now());
                }
            }
            Some(probe) => {
                if let Some(recovered) = probe.record_success() {
                    self.inner.recover(recovered, now());
                }
            }
        }
    }

    /// Decides a charge that the store did not decide.
    fn fall_back_one(
        &self,
        charge: &Charge<'_>,
        clock: &impl Clock,
        cause: &FallbackCause,
    ) -> Result<Decision, StoreError> {
        let now = cause.now.unwrap_or_else(|| clock.now());
        self.fallback().decide_one(charge, now, cause)
    }

    /// Decides a run that the store did not decide.
    fn fall_back_run(
        &self,
        run: &Run<'_>,
        now: Time,
        cause: &FallbackCause,
    ) -> Result<RunVerdict, StoreError> {
        let fallback = self.fallback();
        let verdicts = (0..run.count()).map(|_| fallback.decide(run.request(), now, cause));
        verdicts.collect::<Result<Vec<_>, _>>().map(RunVerdict::from_verdicts)
    }
}

/// Returns the most severe of the failures of one call.
fn most_severe(failures: impl Iterator<Item = Failure>) -> Option<Failure> {
    failures.max_by_key(|failure| match failure {
        Failure::Error(error) => match error.kind() {
            ErrorKind::Unsupported => 0,
            ErrorKind::Corrupt => 1,
            _ => 2,
        },
        Failure::Timeout(_) | Failure::Panic => 2,
    })
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + 'static> Store for Guarded<S> {
    /// Returns the capabilities of the inner store. Decisions of policies do not have them.
    fn capability(&self) -> Capability {
        self.store().capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        if request.charges().is_empty() {
            // The store need not be called, and such a call would not show that it answers.
            return Ok(Verdict::new([], now));
        }
        let result = match self.permission(|| now) {
            Ok(probe) => self.call(probe, || now, || self.store().decide(request, now)).await,
            Err(cause) => Err(cause),
        };
        result.or_else(|cause| self.fallback().decide(request, now, &cause))
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        let result = match self.permission(|| clock.now()) {
            Ok(probe) => self.call(probe, || clock.now(), || self.store().decide_one(charge, clock)).await,
            Err(cause) => Err(cause),
        };
        result.or_else(|cause| self.fall_back_one(charge, clock, &cause))
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        if batch.iter().all(|run| run.request().charges().is_empty()) {
            let empty = |run: &Run<'_>| (0..run.count()).map(|_| Verdict::new([], now)).collect();
            return batch.iter().map(|run| Ok(RunVerdict::from_verdicts(empty(run)))).collect();
        }
        let probe = match self.permission(|| now) {
            Ok(probe) => probe,
            Err(cause) => return batch.iter().map(|run| self.fall_back_run(run, now, &cause)).collect(),
        };
        let started = self.telemetry().call_started();
        let call = pin!(async { self.store().decide_batch(batch, now).await });
        let results = match with_deadline(self.deadline, call).await {
            Ok(results) => results,
            Err(failure) => {
                let failed: Result<(), _> = self.call_ended(probe, || now, started, Err(failure));
                let Err(cause) = failed else { return Vec::new() };
                return batch.iter().map(|run| self.fall_back_run(run, now, &cause)).collect();
            }
        };
        // It is one call, whatever the number of runs. It failed if one of them did.
        let failures = results.iter().filter_map(|result| result.as_ref().err().cloned().map(Failure::Error));
        let failure = most_severe(failures);
        self.telemetry().call_ended(started, failure.as_ref());
        self.record_outcome(probe, || now, failure.as_ref());
        let fall_back = |(run, result): (&Run<'_>, Result<RunVerdict, StoreError>)| {
            result.or_else(|error| self.fall_back_run(run, now, &self.cause(Failure::Error(error))))
        };
        let missing = || {
            let message = "the store returned no result for a run of a batch";
            Err(StoreError::new(ErrorKind::Internal, message).with_unknown_effect())
        };
        let results = results.into_iter().chain(std::iter::repeat_with(missing));
        batch.iter().zip(results).map(fall_back).collect()
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store().route(charge)
    }

    /// Keeps the first observer, and attaches it to the inner store.
    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.telemetry().attach_observer(observer);
        self.store().attach_observer(observer);
    }

    /// Forwards the request if the circuit breaker is closed, and drops it otherwise. Leases are released on fallback
    /// stores as well, which may have granted them during an outage.
    fn decide_detached(&self, request: Request<'_>, now: Time) {
        if request.charges().iter().any(|charge| charge.action() == Action::Release) {
            self.fallback().release(request, now);
        }
        if self.breaker.is_closed() && catch_panic(|| self.store().decide_detached(request, now)).is_err() {
            self.record_outcome(None, || now, Some(&Failure::Panic));
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        let probe = self.permission(|| now).map_err(FallbackCause::into_error)?;
        let export = || self.store().export(limit, key, now);
        self.call(probe, || now, export).await.map_err(FallbackCause::into_error)
    }

    /// Applies deltas. If that fails, no policy applies: the caller keeps its deltas and sends them again.
    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        let probe = self.permission(|| now).map_err(FallbackCause::into_error)?;
        let apply = || self.store().apply_deltas(request, now);
        self.call(probe, || now, apply).await.map_err(FallbackCause::into_error)
    }

    /// Forwards the call within the deadline if the circuit breaker is closed, and drops it otherwise. It counts as no
    /// call of the store, which may do nothing: then it would not show whether the store answers.
    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        if self.breaker.is_closed() {
            let call = pin!(async { self.store().forget_idempotency_keys(answered).await });
            let _ = with_deadline(self.deadline, call).await;
        }
    }
}

/// An immediate store has no deadline. It can still panic, and the circuit breaker and the policies apply.
#[deny(clippy::missing_trait_methods)]
impl<S: ImmediateStore + 'static> ImmediateStore for Guarded<S> {
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        let result = self.permission(|| clock.now()).and_then(|probe| {
            let started = self.telemetry().call_started();
            let result = catch_panic(|| self.store().charge_now(charge, clock));
            self.call_ended(probe, || clock.now(), started, result)
        });
        result.unwrap_or_else(|cause| {
            // What no policy decides has not been done.
            self.fall_back_one(charge, clock, &cause)
                .unwrap_or_else(|_| RawDecision::deny(charge, cause.retry_after, Source::Policy).into())
        })
    }

    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let result = self.permission(|| now).and_then(|probe| {
            let started = self.telemetry().call_started();
            let result = catch_panic(|| self.store().decide_now(request, now));
            self.call_ended(probe, || now, started, result.and_then(|result| result.map_err(Failure::Error)))
        });
        result.or_else(|cause| self.fallback().decide(request, now, &cause))
    }
}
