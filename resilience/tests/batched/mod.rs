//! The conformance suite with batched requests: a background request is in flight whenever a trial makes one, so that
//! the trial's request waits and is batched. Without it, trials would only make direct calls.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::Arguments;
use tollgate_conformance::{Subject, trials};
use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, IdempotencyKey, Key, Limit, Observer, Request, StoreError, Time, Verdict,
};
use tollgate_resilience::Coalesced;

use crate::delayed::{BACKGROUND, DelayedStore};

/// A subject whose requests are batched. Each trial has a wrapper of its own, because trials have times of their own,
/// and a batch is decided at the latest time of its requests.
struct BatchedSubject<T> {
    subject: T,
    /// The numbers of batched and of direct requests.
    counts: Arc<[AtomicU64; 2]>,
}

impl<T: Subject> Subject for BatchedSubject<T> {
    type Store = BatchedStore<T::Store>;

    async fn open(&self) -> Self::Store {
        let inner = Arc::new(DelayedStore::new(self.subject.open().await));
        let background = Limit::per_hour(1).build(BACKGROUND).expect("valid");
        let store = Coalesced::builder(Arc::clone(&inner)).max_in_flight(1).build().expect("valid");
        BatchedStore { store, inner, background, counts: Arc::clone(&self.counts) }
    }

    fn replay_steps(&self) -> usize {
        self.subject.replay_steps()
    }
}

struct BatchedStore<S: Store + 'static> {
    store: Coalesced<Arc<DelayedStore<S>>>,
    inner: Arc<DelayedStore<S>>,
    background: Limit,
    counts: Arc<[AtomicU64; 2]>,
}

impl<S: Store + 'static> BatchedStore<S> {
    /// Makes a background request: a peek that is sent first.
    async fn background(&self, now: Time) {
        let decision = self.store.decide_one(&self.background.charge(BACKGROUND).with_cost(0), &now).await;
        assert!(decision.expect("the store decides").is_allowed());
    }
}

impl<S: Store + 'static> Drop for BatchedStore<S> {
    fn drop(&mut self) {
        for (total, count) in self.counts.iter().zip([self.inner.batched(), self.inner.direct()]) {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + 'static> Store for BatchedStore<S> {
    fn capability(&self) -> Capability {
        self.store.capability()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        tokio::join!(biased; self.background(now), self.store.decide(request, now)).1
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        tokio::join!(biased; self.background(clock.now()), self.store.decide_one(charge, clock)).1
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.store.decide_batch(batch, now).await
    }

    fn route(&self, charge: &Charge<'_>) -> u64 {
        self.store.route(charge)
    }

    fn attach_observer(&self, observer: &Arc<dyn Observer>) {
        self.store.attach_observer(observer);
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.store.decide_detached(request, now);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.store.export(limit, key, now).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        self.store.apply_deltas(request, now).await
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        self.store.forget_idempotency_keys(answered).await;
    }
}

/// Runs the suite.
pub(crate) fn run<T: Subject>(subject: T) -> ExitCode {
    let counts = Arc::<[AtomicU64; 2]>::default();
    let all = trials(BatchedSubject { subject, counts: Arc::clone(&counts) });
    let conclusion = libtest_mimic::run(&Arguments::from_args(), all);
    let [batched, direct] = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
    if conclusion.num_passed > 0 {
        println!("{batched} requests were batched, and {direct} were sent directly");
        // Not all are batched: a background request may be decided on another thread before the trial's is made.
        assert!(batched > 10 * direct, "these trials are about batched requests");
    }
    conclusion.exit_code()
}
