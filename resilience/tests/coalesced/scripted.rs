//! A store that records its calls, replies when a test releases them, and fails on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Charge, Clock, Decision, ErrorKind, Key, Limit, ManualClock, Request, StoreError, Time, Verdict,
};
use tollgate_resilience::{Coalesced, CoalescedBuilder};
use tollgate_store_memory::MemoryStore;

pub(crate) const NOW: Time = Time::from_secs(1_790_000_000);

/// How a call fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Error,
    Panic,
    /// The last verdict of every run is missing.
    MissingVerdict,
}

/// A call in short: `direct a:1`, or its runs, such as `3×a:1`.
pub(crate) type RecordedCall = Vec<String>;

pub(crate) struct ScriptedStore {
    memory: MemoryStore,
    /// The indexes of calls that get no reply yet.
    held: watch::Sender<BTreeSet<usize>>,
    faults: Mutex<BTreeMap<usize, Fault>>,
    calls: Mutex<Vec<RecordedCall>>,
    ended: AtomicUsize,
}

type Coalescing = CoalescedBuilder<Arc<ScriptedStore>, ManualClock>;

/// A coalesced scripted store, with one call in flight by default. The clock measures the age of calls.
pub(crate) struct Fixture {
    pub(crate) script: Arc<ScriptedStore>,
    pub(crate) store: Coalesced<Arc<ScriptedStore>, ManualClock>,
    pub(crate) clock: ManualClock,
}

impl Fixture {
    /// Holds the calls with these indexes until they are released.
    pub(crate) fn holding(held: impl IntoIterator<Item = usize>) -> Self {
        Self::configured(held, |builder| builder)
    }

    pub(crate) fn configured(
        held: impl IntoIterator<Item = usize>,
        configure: impl FnOnce(Coalescing) -> Coalescing,
    ) -> Self {
        let script = Arc::new(ScriptedStore {
            memory: MemoryStore::config().max_keys(4_096).build(),
            held: watch::Sender::new(held.into_iter().collect()),
            faults: Mutex::default(),
            calls: Mutex::default(),
            ended: AtomicUsize::new(0),
        });
        let clock = ManualClock::default();
        let builder = Coalesced::builder(Arc::clone(&script)).clock(clock.clone()).max_in_flight(1);
        Self { store: configure(builder).build().expect("valid"), script, clock }
    }

    pub(crate) fn failing(self, call: usize, fault: Fault) -> Self {
        self.script.faults.lock().unwrap_or_else(PoisonError::into_inner).insert(call, fault);
        self
    }

    pub(crate) fn release(&self, call: usize) {
        self.script.held.send_modify(|held| {
            held.remove(&call);
        });
    }

    pub(crate) fn calls(&self) -> Vec<RecordedCall> {
        self.script.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how many calls have ended: answered, failed, or abandoned.
    pub(crate) fn ended(&self) -> usize {
        self.script.ended.load(Ordering::Relaxed)
    }

    /// Starts a check in a task, and lets it run as far as it can.
    pub(crate) async fn check(
        &self,
        limit: &Limit,
        key: Key<'_>,
        cost: u32,
    ) -> tokio::task::JoinHandle<Result<Decision, StoreError>> {
        let (store, limit) = (self.store.clone(), limit.clone());
        let (namespace, entity) = (key.namespace().to_vec(), key.entity().to_vec());
        let task = tokio::spawn(async move {
            let charge = limit.charge(Key::new(&namespace, &entity)).with_cost(cost);
            store.decide_one(&charge, &NOW).await
        });
        run_all_tasks().await;
        task
    }

    /// Returns what remains of a limit on the store itself.
    pub(crate) async fn remaining(&self, limit: &Limit, key: &str) -> u32 {
        let charge = limit.charge(key).with_cost(0);
        let decision = self.script.memory.decide_one(&charge, &NOW).await;
        decision.expect("the memory store decides").remaining()
    }
}

/// Lets all tasks run as far as they can. There is one thread, and no task waits for time.
pub(crate) async fn run_all_tasks() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// Awaits a future that needs nothing else from the test.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    let too_long = async {
        for _ in 0..20 {
            run_all_tasks().await;
        }
    };
    tokio::select! {
        biased;
        output = future => output,
        () = too_long => panic!("a caller waits for ever"),
    }
}

/// Awaits a task.
pub(crate) async fn done<T>(task: tokio::task::JoinHandle<T>) -> T {
    soon(task).await.expect("no panic")
}

fn in_short(request: Request<'_>) -> String {
    let charge =
        |charge: &Charge<'_>| format!("{}:{}", String::from_utf8_lossy(charge.key().entity()), charge.cost());
    request.charges().iter().map(charge).collect::<Vec<_>>().join("+")
}

impl ScriptedStore {
    async fn start(&self, call: RecordedCall) -> (Option<Fault>, EndCounter<'_>) {
        let ended = EndCounter(&self.ended);
        let index = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.push(call);
            calls.len() - 1
        };
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held.contains(&index)).await.expect("the test goes on");
        let fault = self.faults.lock().unwrap_or_else(PoisonError::into_inner).remove(&index);
        assert!(!matches!(fault, Some(Fault::Panic)), "injected");
        (fault, ended)
    }
}

struct EndCounter<'a>(&'a AtomicUsize);

impl Drop for EndCounter<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn unavailable() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "injected")
}

impl Store for ScriptedStore {
    fn capability(&self) -> Capability {
        self.memory.capability()
    }

    /// Also called by `decide_one`, which has its default.
    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let (fault, _ended) = self.start(vec![format!("direct {}", in_short(request))]).await;
        match fault {
            None => self.memory.decide(request, now).await,
            Some(_) => Err(unavailable()),
        }
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let runs = batch.iter().map(|run| format!("{}×{}", run.count(), in_short(run.request())));
        let (fault, _ended) = self.start(runs.collect()).await;
        let mut results = self.memory.decide_batch(batch, now).await;
        match fault {
            None => {}
            Some(Fault::MissingVerdict) => {
                for result in &mut results {
                    let mut verdicts = result.clone().expect("the memory store decides").into_verdicts();
                    verdicts.pop();
                    *result = Ok(RunVerdict::from_verdicts(verdicts));
                }
            }
            Some(Fault::Error | Fault::Panic) => return batch.iter().map(|_| Err(unavailable())).collect(),
        }
        results
    }

    /// The length of the namespace, so that tests choose the route.
    fn route(&self, charge: &Charge<'_>) -> u64 {
        charge.key().namespace().len() as u64
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.memory.export(limit, key, now).await
    }
}

/// Returns a clock that shows this many nanoseconds after [`NOW`].
pub(crate) fn at(nanos: u64) -> impl Clock {
    Time::from_nanos(NOW.nanos() + nanos)
}
