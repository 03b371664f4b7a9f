//! A store with injected faults, and the fixture around it.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::{Capability, ClockSource, Export, ImmediateStore, Run, RunVerdict, Store};
use tollgate_core::{
    BreakerState, Charge, Clock, Decision, ErrorKind, Event, IdempotencyKey, Key, Limit, ManualClock,
    Observer, Request, StoreError, Time, Verdict,
};
use tollgate_resilience::{FallbackStore, Guarded, GuardedBuilder, Share};
use tollgate_store_memory::MemoryStore;

/// A key for calls whose decisions do not matter.
const UNRELATED: &str = "unrelated";

/// What goes wrong in every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Error(ErrorKind),
    Hang,
    Panic,
    PanicAfterWaiting,
    /// Batches are executed, and their replies lost.
    LostReplies,
}

/// A memory store with injected faults. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct FaultyStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: MemoryStore,
    fault: Mutex<Fault>,
    calls: AtomicUsize,
    /// The key whose state is corrupt.
    corrupt: Mutex<Option<&'static str>>,
    /// How far its clock is ahead of the callers' clock.
    ahead: Duration,
}

impl FaultyStore {
    pub(crate) fn new() -> Self {
        Self::ahead(Duration::ZERO)
    }

    /// Creates a store that decides by its own clock.
    pub(crate) fn ahead(ahead: Duration) -> Self {
        let (store, fault) = (MemoryStore::new(), Mutex::new(Fault::None));
        let (calls, corrupt) = (AtomicUsize::new(0), Mutex::new(None));
        Self { inner: Arc::new(Inner { store, fault, calls, corrupt, ahead }) }
    }

    pub(crate) fn inject(&self, fault: Fault) {
        *self.inner.fault.lock().expect("not poisoned") = fault;
    }

    /// Corrupts the state of a key.
    pub(crate) fn corrupt(&self, key: &'static str) {
        *self.inner.corrupt.lock().expect("not poisoned") = Some(key);
    }

    fn check_corrupt(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let corrupt = *self.inner.corrupt.lock().expect("not poisoned");
        let is_corrupt =
            |charge: &Charge<'_>| corrupt.is_some_and(|key| charge.key().entity() == key.as_bytes());
        if charges.iter().any(is_corrupt) {
            return Err(StoreError::new(ErrorKind::Corrupt, "injected"));
        }
        Ok(())
    }

    fn fault(&self) -> Fault {
        *self.inner.fault.lock().expect("not poisoned")
    }

    /// Returns how many calls reached the store.
    pub(crate) fn calls(&self) -> usize {
        self.inner.calls.load(Ordering::SeqCst)
    }

    /// Returns the store without faults.
    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.inner.store
    }

    async fn call(&self) -> Result<(), StoreError> {
        self.inner.calls.fetch_add(1, Ordering::SeqCst);
        match self.fault() {
            Fault::None | Fault::LostReplies => Ok(()),
            Fault::Error(kind) => Err(StoreError::new(kind, "injected")),
            Fault::Hang => pending().await,
            Fault::Panic => panic!("injected"),
            Fault::PanicAfterWaiting => {
                tokio::task::yield_now().await;
                panic!("injected")
            }
        }
    }
}

impl Store for FaultyStore {
    fn capability(&self) -> Capability {
        let capability = self.inner.store.capability();
        if self.inner.ahead.is_zero() { capability } else { capability.with_clock_source(ClockSource::Store) }
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.call().await?;
        self.check_corrupt(request.charges())?;
        self.inner.store.decide(request, now + self.inner.ahead).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        self.call().await?;
        self.check_corrupt(std::slice::from_ref(charge))?;
        self.inner.store.decide_one(charge, &(clock.now() + self.inner.ahead)).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        if let Err(error) = self.call().await {
            return batch.iter().map(|_| Err(error.clone())).collect();
        }
        let mut results = self.inner.store.decide_batch(batch, now + self.inner.ahead).await;
        for (run, result) in batch.iter().zip(&mut results) {
            if let Err(error) = self.check_corrupt(run.request().charges()) {
                *result = Err(error);
            }
        }
        if self.fault() != Fault::LostReplies {
            return results;
        }
        let lost = StoreError::new(ErrorKind::Unavailable, "injected").with_unknown_effect();
        results.iter().map(|_| Err(lost.clone())).collect()
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.inner.store.decide_detached(request, now + self.inner.ahead);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.call().await?;
        self.check_corrupt(&[limit.charge(key)])?;
        self.inner.store.export(limit, key, now + self.inner.ahead).await
    }

    async fn forget_idempotency_keys(&self, _: &[(Key<'_>, IdempotencyKey)]) {
        let _ = self.call().await;
    }
}

/// The events of a guarded store, one line each.
#[derive(Debug, Default)]
pub(crate) struct EventLog(Mutex<Vec<String>>);

impl EventLog {
    /// Returns the lines with this prefix.
    pub(crate) fn starting_with(&self, prefix: &str) -> Vec<String> {
        let lines = self.0.lock().expect("not poisoned");
        lines.iter().filter(|line| line.starts_with(prefix)).cloned().collect()
    }
}

impl Observer for EventLog {
    fn observe(&self, event: Event<'_>) {
        let line = match event {
            Event::FellBack { limit, reason, decision } => {
                format!("fell back: {limit}, {reason}, {}", decision.source())
            }
            Event::BreakerChanged { store, state } => format!("breaker: {state} of {store}"),
            Event::Reconciled { keys, lost, .. } => format!("reconciled: {keys}, lost {lost}"),
            Event::StoreCalled { error, .. } => {
                format!("called: {}", error.map_or("fine", |error| error.kind().as_str()))
            }
            Event::Failed { limit, error } => format!("failed: {limit}, {}", error.kind()),
            _ => return,
        };
        self.0.lock().expect("not poisoned").push(line);
    }
}

/// A guarded store with injected faults, and its clock.
pub(crate) struct Fixture {
    pub(crate) faulty: FaultyStore,
    pub(crate) guarded: Guarded<FaultyStore>,
    pub(crate) clock: ManualClock,
    pub(crate) events: Arc<EventLog>,
}

impl Fixture {
    pub(crate) fn new(
        configure: impl FnOnce(GuardedBuilder<FaultyStore>) -> GuardedBuilder<FaultyStore>,
    ) -> Self {
        Self::on(FaultyStore::new(), configure)
    }

    pub(crate) fn on(
        faulty: FaultyStore,
        configure: impl FnOnce(GuardedBuilder<FaultyStore>) -> GuardedBuilder<FaultyStore>,
    ) -> Self {
        let (clock, events) = (ManualClock::default(), Arc::new(EventLog::default()));
        let builder = configure(Guarded::builder(faulty.clone()));
        let guarded = builder.build().expect("valid");
        guarded.attach_observer(&(Arc::clone(&events) as _));
        Self { faulty, guarded, clock, events }
    }

    pub(crate) async fn check(&self, limit: &Limit, key: &str) -> Decision {
        self.charge(limit.charge(key)).await.expect("a decision")
    }

    pub(crate) async fn charge(&self, charge: Charge<'_>) -> Result<Decision, StoreError> {
        self.guarded.decide_one(&charge, &self.clock).await
    }

    pub(crate) async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.guarded.decide(Request::new(charges), self.clock.now()).await
    }

    /// Returns what remains of a limit on the store itself.
    pub(crate) fn remaining(&self, limit: &Limit, key: &str) -> u32 {
        let now = self.clock.now() + self.faulty.inner.ahead;
        self.faulty.memory().charge_now(&limit.charge(key).with_cost(0), &now).remaining()
    }

    /// Lets calls fail until the breaker is open.
    pub(crate) async fn open_breaker(&self, limit: &Limit) {
        self.faulty.inject(Fault::Error(ErrorKind::Unavailable));
        for _ in 0..100 {
            if self.guarded.breaker_state() == BreakerState::Open {
                return;
            }
            let _ = self.charge(limit.charge(UNRELATED).with_cost(0)).await;
        }
        panic!("failing calls open the breaker");
    }

    /// Ends all faults, and makes calls until the breaker is closed.
    pub(crate) async fn recover(&self, limit: &Limit) {
        self.faulty.inject(Fault::None);
        self.clock.advance(Duration::from_secs(8));
        for _ in 0..200 {
            if self.guarded.breaker_state() == BreakerState::Closed {
                return;
            }
            let _ = self.charge(limit.charge(UNRELATED).with_cost(0)).await;
            // Lets the reconciliation task run.
            tokio::task::yield_now().await;
        }
        panic!("successful probes close the breaker");
    }
}

/// A fallback with half of each limit.
pub(crate) fn half() -> FallbackStore {
    FallbackStore::new(MemoryStore::new(), Share::one_of(2))
}
