//! A store that fails when told to.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate_core::store::{Capability, ClockSource, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, Event, Key, Limit, ManualClock, Observer, Request, StoreError, Time,
    Verdict,
};
use tollgate_resilience::{Guarded, Local, Share};
use tollgate_store_memory::MemoryStore;

/// What happens to calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Fine,
    Fails(ErrorKind),
    Hangs,
    Panics,
    /// After it has waited once.
    PanicsLater,
    /// Batches are executed, and their answers lost.
    LosesAnswers,
}

/// A memory store that fails when told to. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Faulty {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: MemoryStore,
    mode: Mutex<Mode>,
    calls: AtomicUsize,
    /// Whose state nobody understands.
    spoilt: Mutex<Option<&'static str>>,
    /// How far its clock is ahead of the callers'.
    ahead: Duration,
}

impl Faulty {
    pub(crate) fn new() -> Self {
        Self::ahead(Duration::ZERO)
    }

    /// One that decides by a clock of its own.
    pub(crate) fn ahead(ahead: Duration) -> Self {
        let (store, mode) = (MemoryStore::new(), Mutex::new(Mode::Fine));
        let (calls, spoilt) = (AtomicUsize::new(0), Mutex::new(None));
        Self { inner: Arc::new(Inner { store, mode, calls, spoilt, ahead }) }
    }

    pub(crate) fn is(&self, mode: Mode) {
        *self.inner.mode.lock().expect("not poisoned") = mode;
    }

    /// From now on nobody understands the state of this key.
    pub(crate) fn spoil(&self, who: &'static str) {
        *self.inner.spoilt.lock().expect("not poisoned") = Some(who);
    }

    fn understood(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        let spoilt = *self.inner.spoilt.lock().expect("not poisoned");
        let is_spoilt =
            |charge: &Charge<'_>| spoilt.is_some_and(|who| charge.key().entity() == who.as_bytes());
        if charges.iter().any(is_spoilt) {
            return Err(StoreError::new(ErrorKind::Corrupt, "as told"));
        }
        Ok(())
    }

    fn mode(&self) -> Mode {
        *self.inner.mode.lock().expect("not poisoned")
    }

    /// How many calls reached it.
    pub(crate) fn calls(&self) -> usize {
        self.inner.calls.load(Ordering::SeqCst)
    }

    /// The store behind the faults.
    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.inner.store
    }

    async fn call(&self) -> Result<(), StoreError> {
        self.inner.calls.fetch_add(1, Ordering::SeqCst);
        match self.mode() {
            Mode::Fine | Mode::LosesAnswers => Ok(()),
            Mode::Fails(kind) => Err(StoreError::new(kind, "as told")),
            Mode::Hangs => pending().await,
            Mode::Panics => panic!("as told"),
            Mode::PanicsLater => {
                tokio::task::yield_now().await;
                panic!("as told")
            }
        }
    }
}

impl Store for Faulty {
    fn capability(&self) -> Capability {
        let capability = self.inner.store.capability();
        if self.inner.ahead.is_zero() { capability } else { capability.with_clock_source(ClockSource::Store) }
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        self.call().await?;
        self.understood(request.charges())?;
        self.inner.store.decide(request, now + self.inner.ahead).await
    }

    async fn decide_one(&self, charge: &Charge<'_>, clock: &impl Clock) -> Result<Decision, StoreError> {
        self.call().await?;
        self.understood(std::slice::from_ref(charge))?;
        self.inner.store.decide_one(charge, &(clock.now() + self.inner.ahead)).await
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        if let Err(error) = self.call().await {
            return batch.iter().map(|_| Err(error.clone())).collect();
        }
        let mut answers = self.inner.store.decide_batch(batch, now + self.inner.ahead).await;
        for (run, answer) in batch.iter().zip(&mut answers) {
            if let Err(error) = self.understood(run.request().charges()) {
                *answer = Err(error);
            }
        }
        if self.mode() != Mode::LosesAnswers {
            return answers;
        }
        let lost = StoreError::new(ErrorKind::Unavailable, "as told").with_unknown_effect();
        answers.iter().map(|_| Err(lost.clone())).collect()
    }

    fn decide_detached(&self, request: Request<'_>, now: Time) {
        self.inner.store.decide_detached(request, now + self.inner.ahead);
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.call().await?;
        self.understood(&[limit.charge(key)])?;
        self.inner.store.export(limit, key, now + self.inner.ahead).await
    }
}

/// Everything that a guard tells, one line each.
#[derive(Debug, Default)]
pub(crate) struct Diary(Mutex<Vec<String>>);

impl Diary {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().expect("not poisoned").clone()
    }

    /// The lines that begin like this.
    pub(crate) fn about(&self, what: &str) -> Vec<String> {
        self.lines().into_iter().filter(|line| line.starts_with(what)).collect()
    }
}

impl Observer for Diary {
    fn observe(&self, event: Event<'_>) {
        let line = match event {
            Event::FellBack { limit, reason, decision } => {
                format!("fell back: {limit}, {reason}, {}", decision.source())
            }
            Event::BreakerChanged { state } => format!("breaker: {state}"),
            Event::Reconciled { keys, lost } => format!("handed over: {keys}, lost {lost}"),
            Event::StoreCalled { error, .. } => {
                format!("called: {}", error.map_or("fine", |error| error.kind().as_str()))
            }
            _ => return,
        };
        self.0.lock().expect("not poisoned").push(line);
    }
}

/// A store that can be made to fail, guarded, and the time.
pub(crate) struct Scene {
    pub(crate) faulty: Faulty,
    pub(crate) guarded: Guarded<Faulty>,
    pub(crate) clock: ManualClock,
    pub(crate) diary: Arc<Diary>,
}

impl Scene {
    pub(crate) fn new(with: impl FnOnce(Guarded<Faulty>) -> Guarded<Faulty>) -> Self {
        Self::on(Faulty::new(), with)
    }

    pub(crate) fn on(faulty: Faulty, with: impl FnOnce(Guarded<Faulty>) -> Guarded<Faulty>) -> Self {
        let (clock, diary) = (ManualClock::default(), Arc::new(Diary::default()));
        let guarded = with(Guarded::new(faulty.clone())).observed_by(Arc::clone(&diary) as _);
        Self { faulty, guarded, clock, diary }
    }

    pub(crate) async fn check(&self, limit: &Limit, who: &str) -> Decision {
        self.charge(limit.charge(who)).await.expect("an answer")
    }

    pub(crate) async fn charge(&self, charge: Charge<'_>) -> Result<Decision, StoreError> {
        self.guarded.decide_one(&charge, &self.clock).await
    }

    pub(crate) async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.guarded.decide(Request::new(charges), self.clock.now()).await
    }

    /// How much is left of a limit on the store itself.
    pub(crate) fn left(&self, limit: &Limit, who: &str) -> u32 {
        use tollgate_core::store::ImmediateStore;
        let now = self.clock.now() + self.faulty.inner.ahead;
        self.faulty.memory().charge_now(&limit.charge(who).with_cost(0), &now).remaining()
    }

    /// Lets calls fail until the breaker is open.
    pub(crate) async fn open(&self, limit: &Limit) {
        self.faulty.is(Mode::Fails(ErrorKind::Unavailable));
        for _ in 0..100 {
            if self.guarded.breaker() == tollgate_core::BreakerState::Open {
                return;
            }
            let _ = self.charge(limit.charge("somebody who does not matter").with_cost(0)).await;
        }
        panic!("a store that fails all the time is left alone");
    }

    /// Lets the store be fine again, and calls find out.
    pub(crate) async fn bring_back(&self, limit: &Limit) {
        self.faulty.is(Mode::Fine);
        self.clock.advance(Duration::from_secs(8));
        for _ in 0..200 {
            if self.guarded.breaker() == tollgate_core::BreakerState::Closed {
                return;
            }
            let _ = self.charge(limit.charge("somebody who does not matter").with_cost(0)).await;
            // Lets the task run that tells the store what it missed.
            tokio::task::yield_now().await;
        }
        panic!("a store that is fine is asked again");
    }
}

/// A memory store with half of each limit.
pub(crate) fn half() -> Local {
    Local::on(MemoryStore::new(), Share::one_of(2))
}
