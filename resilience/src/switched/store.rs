//! The calls of a switched store: which parts of a call reach the store, and by which method.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use tollgate_core::store::{Capability, Export, ImmediateStore, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, IdempotencyKey, Key, Limit, Observer, Request, StoreError, Time, Verdict,
};

use super::Switched;
use super::handling::Handling;
use super::plan::{RequestPlan, RunResult, missing_result};

type PlannedVerdict<'a> = Pin<Box<dyn Future<Output = Result<Verdict, StoreError>> + Send + 'a>>;

impl<S> Switched<S> {
    /// Returns the plan for a request. `None` if the store decides all of it.
    #[inline]
    fn plan<'a>(&self, request: Request<'a>) -> Option<RequestPlan<'a>> {
        let table = self.switches.table()?;
        RequestPlan::new(&table, Run::new(request, 1))
    }

    /// Returns how a charge is handled. `None` if no switch is set.
    #[inline]
    fn handling(&self, charge: &Charge<'_>) -> Option<Handling> {
        let table = self.switches.table()?;
        Some(table.handling(charge))
    }
}

impl<S: Store> Switched<S> {
    fn assemble(
        &self,
        plan: &RequestPlan<'_>,
        results: &mut impl Iterator<Item = RunResult>,
        now: Time,
    ) -> RunResult {
        plan.assemble(results, now, |request| self.store.decide_detached(request, now))
    }

    /// Assembles the verdict on a request from the results of the plan's runs.
    fn verdict(
        &self,
        plan: &RequestPlan<'_>,
        results: impl IntoIterator<Item = RunResult>,
        now: Time,
    ) -> Result<Verdict, StoreError> {
        let run = self.assemble(plan, &mut results.into_iter(), now)?;
        Ok(run.into_verdicts().swap_remove(0))
    }

    /// Decides a request by a plan. `None` if the store decides all of it. Boxed, so that futures stay as small as the
    /// store's if no switch is set: moving a future copies it.
    #[inline]
    fn decide_planned<'a>(&'a self, request: Request<'a>, now: Time) -> Option<PlannedVerdict<'a>> {
        self.plan(request).map(|plan| Box::pin(self.decide_by_plan(plan, now)) as PlannedVerdict<'a>)
    }

    async fn decide_by_plan(&self, plan: RequestPlan<'_>, now: Time) -> Result<Verdict, StoreError> {
        let runs: Vec<_> = plan.runs().collect();
        let results = self.decide_runs(&runs, now).await;
        self.verdict(&plan, results, now)
    }

    async fn decide_runs(&self, runs: &[Run<'_>], now: Time) -> Vec<RunResult> {
        match runs {
            [] => Vec::new(),
            // A request may be cheaper than a batch of it.
            [run] if run.count() == 1 => vec![run_of_one(self.store.decide(run.request(), now).await)],
            runs => self.store.decide_batch(runs, now).await,
        }
    }
}

impl<S: ImmediateStore> Switched<S> {
    /// Not inlined, so that the code without switches stays small.
    #[inline(never)]
    fn charge_handled(&self, handling: &Handling, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        handling.without_store(charge).unwrap_or_else(|| {
            let Ok(decision) =
                handling.convert::<Infallible>(charge, Ok(self.store.charge_now(charge, clock)));
            decision
        })
    }
}

fn run_of_one(verdict: Result<Verdict, StoreError>) -> RunResult {
    verdict.map(|verdict| RunVerdict::from_verdicts(vec![verdict]))
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Switched<S> {
    #[inline]
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    #[inline]
    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        match self.decide_planned(request, now) {
            None => self.store.decide(request, now).await,
            Some(verdict) => verdict.await,
        }
    }

    #[inline]
    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        let Some(handling) = self.handling(charge) else { return self.store.decide_one(charge, clock).await };
        match handling.without_store(charge) {
            Some(decision) => Ok(decision),
            None => handling.convert(charge, self.store.decide_one(charge, clock).await),
        }
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let plans = self.switches.table().map(|table| {
            batch.iter().map(|run| RequestPlan::new(&table, *run)).collect::<Vec<Option<RequestPlan<'_>>>>()
        });
        let Some(plans) = plans.filter(|plans| plans.iter().any(Option::is_some)) else {
            return self.store.decide_batch(batch, now).await;
        };
        let mut runs = Vec::with_capacity(batch.len());
        for (run, plan) in batch.iter().zip(&plans) {
            match plan {
                Some(plan) => runs.extend(plan.runs()),
                None => runs.push(*run),
            }
        }
        let mut results = self.decide_runs(&runs, now).await.into_iter();
        let assembled = plans.iter().map(|plan| match plan {
            Some(plan) => self.assemble(plan, &mut results, now),
            None => results.next().unwrap_or_else(|| Err(missing_result())),
        });
        assembled.collect()
    }

    #[inline]
    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store.route(charge)
    }

    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.store.attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        match self.plan(request) {
            Some(plan) => plan.runs().for_each(|run| self.store.decide_detached(run.request(), now)),
            None => self.store.decide_detached(request, now),
        }
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.store.export(limit, key, now).await
    }

    /// Forwards the deltas, whatever the switches: what was granted elsewhere counts.
    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.store.apply_deltas(request, now).await
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        self.store.forget_idempotency_keys(answered).await;
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: ImmediateStore> ImmediateStore for Switched<S> {
    #[inline]
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        match self.switches.table() {
            None => self.store.charge_now(charge, clock),
            Some(table) => self.charge_handled(&table.handling(charge), charge, clock),
        }
    }

    #[inline]
    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let Some(plan) = self.plan(request) else { return self.store.decide_now(request, now) };
        let results = plan.runs().map(|run| run_of_one(self.store.decide_now(run.request(), now)));
        self.verdict(&plan, results, now)
    }
}
