//! Limits that are switched off or only watched, and keys that pass or do not, while a program runs.
//!
//! [`Switched`] says what happens to a charge. Here: which parts of a call reach the store, and by which method; `fate`
//! has what happens to one charge, `plan` what happens to a request, `settings` what is set, `switches` who sets it,
//! `shadow` what is counted.

mod fate;
mod plan;
mod settings;
mod shadow;
mod switches;

use std::convert::Infallible;
use std::pin::Pin;

use tollgate_core::store::{Capability, Export, ImmediateStore, Run, RunVerdict, Store};
use tollgate_core::{Charge, Clock, Decision, Key, Limit, Request, StoreError, Time, Verdict};

use fate::Fate;
use plan::{Answer, Plan};
pub use shadow::ShadowReport;
pub use switches::{KeyList, LimitMode, SwitchState, Switches};

/// A store whose limits can be switched off or only watched, and that lets listed keys pass or turns them away. What is
/// not switched is the store's business, and costs next to nothing.
///
/// What happens to a charge, the first line that fits:
///
/// | the charge | the store | the caller is told |
/// |---|---|---|
/// | its key is listed as denied, and it does not just give back | is not asked, about the whole request | [`Barred`](tollgate_core::Outcome::DenyListed); its request is denied, and the other charges answer "allowed, granted 0" |
/// | every limit is off, its key is listed as allowed, or its limit is off | is not asked about it, whatever its action | it passes, by [`Source::Switch`](tollgate_core::Source::Switch) |
/// | its limit is watched, and it takes or renews | is asked about it alone, and debits it if it fits | it passes at once and in full; marked as [`Source::Shadow`](tollgate_core::Source::Shadow) if the limit had another answer |
/// | anything else | decides it | what the store says |
///
/// - What remains of a request goes to the store as a smaller request under the same operation id, and the verdict has
///   every charge in its place again. It was decided when the store says, or now if no store was asked.
/// - Watched charges travel with the rest of their request, in one call. If the rest is denied, or fails without an
///   effect, what they took is given back, without waiting. If only they fail, they pass by `Source::Switch`.
/// - Debits, refunds, releases and the like of a watched limit cannot be denied: they are a part of the rest. A lease that
///   is lost on a watched limit is not told as lost.
/// - What an algorithm cannot do is an error on a limit that is on, a failure that is counted on one that is watched, and
///   passes on one that is off, because nobody is asked.
/// - Refunds, releases and forgetting reach the store for keys that are listed as denied: work that was begun can end,
///   and its place among others is free again.
#[derive(Clone, Debug)]
pub struct Switched<S> {
    store: S,
    switches: Switches,
}

type PlannedVerdict<'a> = Pin<Box<dyn Future<Output = Result<Verdict, StoreError>> + Send + 'a>>;

impl<S> Switched<S> {
    /// `store`, with switches of its own.
    pub fn new(store: S) -> Self {
        Self::by(store, Switches::new())
    }

    /// `store`, by switches that others may go by too.
    pub fn by(store: S, switches: Switches) -> Self {
        Self { store, switches }
    }

    /// The switches; clone them to keep them.
    pub fn switches(&self) -> &Switches {
        &self.switches
    }

    /// The store inside.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// What is to be done about a request; `None` if the store decides all of it.
    #[inline]
    fn plan<'a>(&self, request: Request<'a>) -> Option<Plan<'a>> {
        let settings = self.switches.settings()?;
        Plan::of(&settings, Run::new(request, 1))
    }
}

impl<S: Store> Switched<S> {
    fn conclude(&self, plan: &Plan<'_>, answers: &mut impl Iterator<Item = Answer>, now: Time) -> Answer {
        plan.conclude(answers, now, |request| self.store.decide_detached(request, now))
    }

    /// The verdict on a request from the answers to the runs of its plan.
    fn verdict(
        &self,
        plan: &Plan<'_>,
        answers: impl IntoIterator<Item = Answer>,
        now: Time,
    ) -> Result<Verdict, StoreError> {
        let told = self.conclude(plan, &mut answers.into_iter(), now)?;
        Ok(told.into_verdicts().swap_remove(0))
    }

    /// What happens to a charge; `None` if nothing is set.
    #[inline]
    fn fate(&self, charge: &Charge<'_>) -> Option<Fate> {
        let settings = self.switches.settings()?;
        Some(settings.fate(charge))
    }

    /// The verdict on a request; `None` if the store decides all of it. Boxed, so that futures are as small as the store's
    /// where nothing is switched: whoever moves one copies it.
    #[inline]
    fn planned<'a>(&'a self, request: Request<'a>, now: Time) -> Option<PlannedVerdict<'a>> {
        self.plan(request).map(|plan| Box::pin(self.decide_by(plan, now)) as PlannedVerdict<'a>)
    }

    async fn decide_by(&self, plan: Plan<'_>, now: Time) -> Result<Verdict, StoreError> {
        let runs: Vec<_> = plan.runs().collect();
        let answers = self.ask(&runs, now).await;
        self.verdict(&plan, answers, now)
    }

    async fn ask(&self, runs: &[Run<'_>], now: Time) -> Vec<Answer> {
        match runs {
            [] => Vec::new(),
            // A request by itself may be cheaper than a batch of it.
            [run] if run.count() == 1 => vec![of_one(self.store.decide(run.request(), now).await)],
            runs => self.store.decide_batch(runs, now).await,
        }
    }
}

impl<S: ImmediateStore> Switched<S> {
    /// Apart from the usual case, which stays small.
    #[inline(never)]
    fn charge_by(&self, fate: &Fate, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        fate.unasked(charge).unwrap_or_else(|| {
            let Ok(told) = fate.told::<Infallible>(charge, Ok(self.store.charge_now(charge, clock)));
            told
        })
    }
}

fn of_one(verdict: Result<Verdict, StoreError>) -> Answer {
    verdict.map(|verdict| RunVerdict::from_verdicts(vec![verdict]))
}

impl<S: Store> Store for Switched<S> {
    #[inline]
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    #[inline]
    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        match self.planned(request, now) {
            None => self.store.decide(request, now).await,
            Some(verdict) => verdict.await,
        }
    }

    #[inline]
    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        let Some(fate) = self.fate(charge) else { return self.store.decide_one(charge, clock).await };
        match fate.unasked(charge) {
            Some(decision) => Ok(decision),
            None => fate.told(charge, self.store.decide_one(charge, clock).await),
        }
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let plans = self.switches.settings().map(|settings| {
            batch.iter().map(|run| Plan::of(&settings, *run)).collect::<Vec<Option<Plan<'_>>>>()
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
        let mut answers = self.ask(&runs, now).await.into_iter();
        let told = plans.iter().map(|plan| match plan {
            Some(plan) => self.conclude(plan, &mut answers, now),
            None => answers.next().unwrap_or_else(|| Err(plan::unanswered())),
        });
        told.collect()
    }

    #[inline]
    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store.route(charge)
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

    /// What was granted elsewhere counts, whatever the switches say now.
    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.store.apply_deltas(request, now).await
    }
}

impl<S: ImmediateStore> ImmediateStore for Switched<S> {
    #[inline]
    fn charge_now(&self, charge: &Charge<'_>, clock: &impl Clock) -> Decision {
        match self.switches.settings() {
            None => self.store.charge_now(charge, clock),
            Some(settings) => self.charge_by(&settings.fate(charge), charge, clock),
        }
    }

    #[inline]
    fn decide_now(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let Some(plan) = self.plan(request) else { return self.store.decide_now(request, now) };
        let answers = plan.runs().map(|run| of_one(self.store.decide_now(run.request(), now)));
        self.verdict(&plan, answers, now)
    }
}
