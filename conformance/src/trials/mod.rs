//! One file per behaviour.

mod admission;
mod all_or_nothing;
mod callers;
mod change;
mod clock;
mod debit;
mod exchange;
mod expiry;
mod forget;
mod keys;
mod leases;
mod operations;
mod peek;
mod refund;
mod replay;
mod runs;
mod snapshots;
mod take_up_to;
mod waits;

use std::future::Future;

use tollgate_core::AlgorithmKind;
use tollgate_core::store::{IdempotencyRetention, Store};

use crate::samples::{Sample, samples};
use crate::stand::Stand;
use crate::suite::{Need, Planned};

/// A growing list of trials.
pub(crate) struct Plan<S> {
    trials: Vec<Planned<S>>,
    needs: Need,
}

const NOTHING: Need = Need { met: |_, _| true, otherwise: "" };
const EXACT: Need = Need {
    met: |capability, kind| capability.exact.contains(kind),
    otherwise: "the store trades exactness for something else",
};
const OPERATION_IDS: Need = Need {
    met: |capability, _| capability.idempotency != IdempotencyRetention::None,
    otherwise: "the store does not remember operation ids",
};
const SNAPSHOTS: Need = Need {
    met: |capability, kind| capability.snapshots.contains(kind),
    otherwise: "the store cannot export such states",
};

impl<S: Store + 'static> Plan<S> {
    /// What the next trials need.
    fn needing(&mut self, needs: Need) -> &mut Self {
        self.needs = needs;
        self
    }

    /// One trial.
    fn add<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        name: &str,
        body: impl Fn(Stand<S>) -> F + Send + Sync + 'static,
    ) {
        let body = Box::new(move |stand| Box::pin(body(stand)) as _);
        // What is not about one algorithm is about the first.
        let kind = AlgorithmKind::TokenBucket;
        self.trials.push(Planned { name: name.to_owned(), kind, body, needs: self.needs });
    }

    /// One trial per sample.
    fn each<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        behaviour: &str,
        body: impl Fn(Stand<S>, Sample) -> F + Send + Sync + Clone + 'static,
    ) {
        for sample in samples() {
            let (name, body) = (format!("{behaviour}::{}", sample.name), body.clone());
            let kind = sample.limit.kind();
            self.add(&name, move |stand| body(stand, sample.clone()));
            if let Some(trial) = self.trials.last_mut() {
                trial.kind = kind;
            }
        }
    }
}

/// Every trial.
pub(crate) fn all<S: Store + 'static>(replay_steps: usize) -> Vec<Planned<S>> {
    let mut plan = Plan { trials: Vec::new(), needs: NOTHING };
    admission::plan(plan.needing(EXACT));
    all_or_nothing::plan(plan.needing(EXACT));
    callers::plan(plan.needing(EXACT));
    change::plan(plan.needing(EXACT));
    clock::plan(plan.needing(EXACT));
    debit::plan(plan.needing(EXACT));
    exchange::plan(plan.needing(EXACT));
    expiry::plan(plan.needing(SNAPSHOTS));
    forget::plan(plan.needing(NOTHING));
    keys::plan(plan.needing(NOTHING));
    leases::plan(plan.needing(NOTHING));
    operations::plan(plan.needing(OPERATION_IDS));
    peek::plan(plan.needing(NOTHING));
    refund::plan(plan.needing(EXACT));
    replay::plan(plan.needing(EXACT), replay_steps);
    runs::plan(plan.needing(EXACT));
    snapshots::plan(plan.needing(SNAPSHOTS));
    take_up_to::plan(plan.needing(EXACT));
    waits::plan(plan.needing(EXACT));
    plan.trials
}
