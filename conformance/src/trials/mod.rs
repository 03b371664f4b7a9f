//! The trials, one file per behaviour.

mod admission;
mod all_or_nothing;
mod any_store;
mod batch;
mod callers;
mod change;
mod clock;
mod debit;
mod deltas;
mod expiry;
mod idempotency;
mod keys;
mod leases;
mod peek;
mod permits;
mod refund;
mod replay;
mod reset;
mod single_charge;
mod snapshots;
mod take_up_to;
mod trace;
mod waits;

use std::future::Future;

use tollgate_core::AlgorithmKind;
use tollgate_core::store::{IdempotencyRetention, Store};

use crate::fixture::Fixture;
use crate::samples::{Sample, samples};
use crate::suite::{PlannedTrial, Requirement};

/// A growing list of trials.
pub(crate) struct Plan<S> {
    trials: Vec<PlannedTrial<S>>,
    requirements: &'static [Requirement],
}

const EXACT: Requirement = Requirement {
    is_met: |abilities, kind| abilities.capability.exact.contains(kind),
    reason: "the store's decisions are not exact for this algorithm",
};
const IDEMPOTENCY_KEYS: Requirement = Requirement {
    is_met: |abilities, _| abilities.capability.idempotency != IdempotencyRetention::None,
    reason: "the store does not recognize idempotency keys",
};
const SNAPSHOTS: Requirement = Requirement {
    is_met: |abilities, kind| abilities.capability.snapshots.contains(kind),
    reason: "the store does not export states of this algorithm",
};
const COUNTED_STATES: Requirement = Requirement {
    is_met: |abilities, _| abilities.counts_states,
    reason: "the subject does not count the states that the store holds",
};

impl<S: Store + 'static> Plan<S> {
    /// Sets what the trials that are added next require.
    fn requiring(&mut self, requirements: &'static [Requirement]) -> &mut Self {
        self.requirements = requirements;
        self
    }

    /// Adds one trial.
    fn add<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &str,
        body: impl Fn(Fixture<S>) -> F + Send + Sync + 'static,
    ) {
        // Requirements that depend on the algorithm are checked for this one.
        self.push(name.to_owned(), AlgorithmKind::TokenBucket, body);
    }

    /// Adds one trial per sample, named `behaviour::sample`.
    fn each<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        behaviour: &str,
        body: impl Fn(Fixture<S>, Sample) -> F + Send + Sync + Clone + 'static,
    ) {
        for sample in samples() {
            let (name, body) = (format!("{behaviour}::{}", sample.name), body.clone());
            self.push(name, sample.limit.kind(), move |fixture| body(fixture, sample.clone()));
        }
    }

    fn push<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: String,
        kind: AlgorithmKind,
        body: impl Fn(Fixture<S>) -> F + Send + Sync + 'static,
    ) {
        let body = Box::new(move |fixture| Box::pin(body(fixture)) as _);
        self.trials.push(PlannedTrial { name, kind, body, requirements: self.requirements });
    }
}

/// Returns every trial.
pub(crate) fn all<S: Store + 'static>(replay_steps: usize) -> Vec<PlannedTrial<S>> {
    let mut plan = Plan { trials: Vec::new(), requirements: &[] };
    admission::plan(plan.requiring(&[EXACT]));
    all_or_nothing::plan(plan.requiring(&[EXACT]));
    any_store::plan(plan.requiring(&[EXACT, SNAPSHOTS]), replay_steps);
    batch::plan(plan.requiring(&[EXACT]));
    callers::plan(plan.requiring(&[EXACT]), replay_steps);
    change::plan(plan.requiring(&[EXACT]));
    clock::plan(plan.requiring(&[EXACT]));
    debit::plan(plan.requiring(&[EXACT]));
    deltas::plan(plan.requiring(&[EXACT]));
    deltas::plan_forgetting(plan.requiring(&[EXACT, SNAPSHOTS]));
    deltas::plan_repetitions(plan.requiring(&[EXACT, IDEMPOTENCY_KEYS]));
    expiry::plan(plan.requiring(&[SNAPSHOTS]));
    expiry::plan_growth(plan.requiring(&[COUNTED_STATES]));
    idempotency::plan(plan.requiring(&[IDEMPOTENCY_KEYS]));
    keys::plan(plan.requiring(&[]), replay_steps);
    leases::plan(plan.requiring(&[]));
    peek::plan(plan.requiring(&[]));
    permits::plan(plan.requiring(&[]));
    refund::plan(plan.requiring(&[EXACT]));
    replay::plan(plan.requiring(&[EXACT]), replay_steps);
    reset::plan(plan.requiring(&[]));
    single_charge::plan(plan.requiring(&[EXACT]), replay_steps);
    snapshots::plan(plan.requiring(&[SNAPSHOTS]));
    take_up_to::plan(plan.requiring(&[EXACT]));
    waits::plan(plan.requiring(&[EXACT]));
    plan.trials
}
