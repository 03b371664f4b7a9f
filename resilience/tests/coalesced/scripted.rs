//! A store that remembers what it was asked, answers when a test lets it, and fails as told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{Charge, Clock, Decision};
use tollgate_core::{ErrorKind, Key, Limit, ManualClock, Request, StoreError, Time, Verdict};
use tollgate_resilience::Coalesced;
use tollgate_store_memory::MemoryStore;

pub(crate) const NOW: Time = Time::from_secs(1_790_000_000);

/// How a call goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Fails,
    Panics,
    /// The answers lack the last verdict of every run.
    FallsShort,
}

/// What a call was about, in short: `alone a:1`, or runs such as `3×a:1`.
pub(crate) type Asked = Vec<String>;

pub(crate) struct Scripted {
    memory: MemoryStore,
    /// Calls that are not answered yet, by their numbers.
    held: watch::Sender<BTreeSet<usize>>,
    faults: Mutex<BTreeMap<usize, Fault>>,
    calls: Mutex<Vec<Asked>>,
    ended: AtomicUsize,
}

/// A scripted store behind a wrapper whose patience goes by `clock`.
pub(crate) struct Stand {
    pub(crate) script: Arc<Scripted>,
    pub(crate) store: Coalesced<Arc<Scripted>, ManualClock>,
    pub(crate) clock: ManualClock,
}

impl Stand {
    /// The calls with these numbers, counted from zero, are not answered before they are let go.
    pub(crate) fn holding(held: impl IntoIterator<Item = usize>) -> Self {
        let script = Arc::new(Scripted {
            memory: MemoryStore::config().keys(4_096).build(),
            held: watch::Sender::new(held.into_iter().collect()),
            faults: Mutex::default(),
            calls: Mutex::default(),
            ended: AtomicUsize::new(0),
        });
        let clock = ManualClock::default();
        Self { store: Coalesced::with_clock(Arc::clone(&script), clock.clone()).in_flight(1), script, clock }
    }

    pub(crate) fn going_wrong(self, call: usize, fault: Fault) -> Self {
        self.script.faults.lock().unwrap_or_else(PoisonError::into_inner).insert(call, fault);
        self
    }

    pub(crate) fn let_go(&self, call: usize) {
        self.script.held.send_modify(|held| {
            held.remove(&call);
        });
    }

    pub(crate) fn calls(&self) -> Vec<Asked> {
        self.script.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls that are over: answered, failed, or given up.
    pub(crate) fn ended(&self) -> usize {
        self.script.ended.load(Ordering::Relaxed)
    }

    /// A check in a task of its own, which has got as far as it can when this returns.
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
        everybody_moves().await;
        task
    }
}

/// Lets all tasks run until nothing moves any more. There is one thread, and nothing here waits for time.
pub(crate) async fn everybody_moves() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// What comes of it, without anything else that a test would have to do first.
pub(crate) async fn soon<F: Future>(answer: F) -> F::Output {
    let too_long = async {
        for _ in 0..20 {
            everybody_moves().await;
        }
    };
    tokio::select! {
        biased;
        answer = answer => answer,
        () = too_long => panic!("somebody waits for ever"),
    }
}

/// What comes of a task.
pub(crate) async fn done<T>(task: tokio::task::JoinHandle<T>) -> T {
    soon(task).await.expect("no panic")
}

/// What is asked, in short.
fn told(request: Request<'_>) -> String {
    let charge =
        |charge: &Charge<'_>| format!("{}:{}", String::from_utf8_lossy(charge.key().entity()), charge.cost());
    request.charges().iter().map(charge).collect::<Vec<_>>().join("+")
}

impl Scripted {
    async fn begin(&self, asked: Asked) -> (Option<Fault>, Ended<'_>) {
        let ended = Ended(&self.ended);
        let number = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.push(asked);
            calls.len() - 1
        };
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held.contains(&number)).await.expect("the test goes on");
        let fault = self.faults.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        assert!(!matches!(fault, Some(Fault::Panics)), "the store panics, as told");
        (fault, ended)
    }
}

struct Ended<'a>(&'a AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn unavailable() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "not there, as told")
}

impl Store for Scripted {
    fn capability(&self) -> Capability {
        self.memory.capability()
    }

    /// A call at once takes the same way as one without a shortcut.
    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let (fault, _ended) = self.begin(vec![format!("alone {}", told(request))]).await;
        match fault {
            None => self.memory.decide(request, now).await,
            Some(_) => Err(unavailable()),
        }
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        let asked = batch.iter().map(|run| format!("{}×{}", run.count(), told(run.request()))).collect();
        let (fault, _ended) = self.begin(asked).await;
        let mut answers = self.memory.decide_batch(batch, now).await;
        match fault {
            None => {}
            Some(Fault::FallsShort) => {
                for answer in &mut answers {
                    let mut verdicts = answer.clone().expect("memory answers").into_verdicts();
                    verdicts.pop();
                    *answer = Ok(RunVerdict::from_verdicts(verdicts));
                }
            }
            Some(Fault::Fails | Fault::Panics) => return batch.iter().map(|_| Err(unavailable())).collect(),
        }
        answers
    }

    /// As long as the namespace, so that tests can choose.
    fn route(&self, charge: &Charge<'_>) -> u64 {
        charge.key().namespace().len() as u64
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.memory.export(limit, key, now).await
    }
}

/// What is left of a limit, by the store itself.
pub(crate) async fn left(stand: &Stand, limit: &Limit, key: &str) -> u32 {
    let charge = limit.charge(key).with_cost(0);
    let told = stand.script.memory.decide_one(&charge, &NOW).await;
    told.expect("memory answers").remaining()
}

/// Time as somebody says.
pub(crate) fn at(nanos: u64) -> impl Clock {
    Time::from_nanos(NOW.nanos() + nanos)
}
