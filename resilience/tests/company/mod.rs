//! Trials in company: whatever a trial asks, somebody else is just being answered, so that it has to wait and goes
//! with a batch. One after the other, trials would only ever see calls alone.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::Arguments;
use tollgate_conformance::{Subject, trials};
use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{Charge, Clock, Decision, Key, Limit, Request, StoreError, Time, Verdict};
use tollgate_resilience::Coalesced;

use crate::yielding::{COMPANION, Yielding};

/// A subject whose checks are gathered, in company. Each trial has a wrapper of its own, because trials have times of
/// their own, and those who gather share the latest.
struct Accompanied<T> {
    subject: T,
    /// Requests that went with a batch, and others.
    counts: Arc<[AtomicU64; 2]>,
}

impl<T: Subject> Subject for Accompanied<T> {
    type Store = InCompany<T::Store>;

    async fn open(&self) -> Self::Store {
        let inner = Arc::new(Yielding::new(self.subject.open().await));
        let companion = Limit::per_hour(1).build(COMPANION).expect("valid");
        let counts = Arc::clone(&self.counts);
        InCompany { store: Coalesced::new(Arc::clone(&inner)).in_flight(1), inner, companion, counts }
    }

    fn replay_steps(&self) -> usize {
        self.subject.replay_steps()
    }
}

struct InCompany<S: Store + 'static> {
    store: Coalesced<Arc<Yielding<S>>>,
    inner: Arc<Yielding<S>>,
    companion: Limit,
    counts: Arc<[AtomicU64; 2]>,
}

impl<S: Store + 'static> InCompany<S> {
    /// Somebody who came first, and only looks.
    async fn companion(&self, now: Time) {
        let told = self.store.decide_one(&self.companion.charge(COMPANION).with_cost(0), &now).await;
        assert!(told.expect("the store answers").is_allowed());
    }
}

impl<S: Store + 'static> Drop for InCompany<S> {
    fn drop(&mut self) {
        for (count, more) in self.counts.iter().zip([self.inner.gathered(), self.inner.direct()]) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }
}

impl<S: Store + 'static> Store for InCompany<S> {
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        tokio::join!(biased; self.companion(now), self.store.decide(request, now)).1
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        tokio::join!(biased; self.companion(clock.now()), self.store.decide_one(charge, clock)).1
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.store.decide_batch(batch, now).await
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.store.export(limit, key, now).await
    }
}

/// Runs the suite in company.
pub(crate) fn run<T: Subject>(subject: T) -> ExitCode {
    let counts = Arc::<[AtomicU64; 2]>::default();
    let all = trials(Accompanied { subject, counts: Arc::clone(&counts) });
    let conclusion = libtest_mimic::run(&Arguments::from_args(), all);
    let [gathered, direct] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    if conclusion.num_passed > 0 {
        println!("in company {gathered} requests went with a batch, and {direct} alone");
        // Some do: a companion may be answered on another thread before the trial has asked.
        assert!(gathered > 10 * direct, "trials in company are about those who wait");
    }
    conclusion.exit_code()
}
