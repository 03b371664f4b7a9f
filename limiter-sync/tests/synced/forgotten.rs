//! Which calls the central store forgets: those that were sent once and answered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tollgate_core::store::{Capability, Export, Run, RunVerdict, Store};
use tollgate_core::{
    Action, Clock, ErrorKind, IdempotencyKey, Key, Limit, ManualClock, Request, StoreError, Time, Verdict,
};
use tollgate_limiter_sync::Synced;
use tollgate_store_memory::MemoryStore;

use crate::fleet::KEY;

/// How many batches are forgotten at once.
const AT_ONCE: usize = 512;
/// How many batches that were sent repeatedly the central store has to remember.
const MAX_IN_DOUBT: usize = 1_024;

/// What happened to a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    sent: usize,
    answered: usize,
    forgotten: usize,
}

/// A central store that records what happens to batches.
#[derive(Clone, Debug)]
struct Recorder {
    central: Arc<MemoryStore>,
    loses_answers: Arc<AtomicBool>,
    batches: Arc<Mutex<HashMap<IdempotencyKey, Fate>>>,
    token_calls: Arc<AtomicUsize>,
}

impl Recorder {
    fn batches(&self) -> MutexGuard<'_, HashMap<IdempotencyKey, Fate>> {
        self.batches.lock().expect("not poisoned")
    }

    fn count(&self, which: impl Fn(&Fate) -> bool) -> usize {
        self.batches().values().filter(|fate| which(fate)).count()
    }
}

impl Store for Recorder {
    fn capability(&self) -> Capability {
        self.central.capability().with_unknown_effects()
    }

    async fn decide(&self, request: Request<'_>, now: Time) -> Result<Verdict, StoreError> {
        let verdict = self.central.decide(request, now).await?;
        if let Some(id) = request.idempotency_key() {
            self.token_calls.fetch_add(1, Ordering::Relaxed);
            let fate = Fate { sent: 1, answered: 1, forgotten: 0 };
            assert!(self.batches().insert(id, fate).is_none(), "not repeated");
        }
        Ok(verdict)
    }

    async fn decide_batch(&self, batch: &[Run<'_>], now: Time) -> Vec<Result<RunVerdict, StoreError>> {
        self.central.decide_batch(batch, now).await
    }

    async fn export(&self, limit: &Limit, key: Key<'_>, now: Time) -> Result<Export, StoreError> {
        self.central.export(limit, key, now).await
    }

    async fn apply_deltas(&self, request: Request<'_>, now: Time) -> Result<Vec<Export>, StoreError> {
        let id = request.idempotency_key().expect("every batch has one");
        self.batches().entry(id).or_default().sent += 1;
        let exports = self.central.apply_deltas(request, now).await?;
        if self.loses_answers.load(Ordering::Relaxed) {
            return Err(StoreError::new(ErrorKind::Timeout, "no answer").with_unknown_effect());
        }
        self.batches().entry(id).or_default().answered += 1;
        Ok(exports)
    }

    async fn forget_idempotency_keys(&self, answered: &[(Key<'_>, IdempotencyKey)]) {
        for (key, id) in answered {
            assert_eq!(*key, KEY.into(), "the key of the first charge");
            let mut batches = self.batches();
            let fate = batches.get_mut(id).expect("a batch that was sent");
            assert_eq!(fate.answered, 1, "not before it was answered: {fate:?}");
            fate.forgotten += 1;
        }
    }
}

struct Fixture {
    central: Recorder,
    node: Synced<Recorder, ManualClock>,
    limit: Limit,
}

impl Fixture {
    fn new() -> Self {
        let central = Recorder {
            central: Arc::new(MemoryStore::config().max_keys(10_000).build()),
            loses_answers: Arc::default(),
            batches: Arc::default(),
            token_calls: Arc::default(),
        };
        let node =
            Synced::builder(central.clone()).clock(ManualClock::default()).manual().build().expect("valid");
        let limit = Limit::per_day(1_000_000).fixed_window().build("slow").expect("valid");
        Self { central, node, limit }
    }

    /// Sends one batch. If its first answer is lost, sends it again.
    async fn send(&self, loses_answer: bool) {
        let debit = self.limit.charge(KEY).with_action(Action::Debit { at: None });
        assert!(self.node.decide_one(&debit, self.node.clock()).await.expect("decided locally").is_allowed());
        if loses_answer {
            self.central.loses_answers.store(true, Ordering::Relaxed);
            self.node.sync_now().await.expect_err("the answer is lost");
            self.central.loses_answers.store(false, Ordering::Relaxed);
        }
        self.node.sync_now().await.expect("the central store answers");
    }

    async fn close(&self) {
        self.node.close(Duration::from_secs(60)).await.expect("the central store answers");
    }

    async fn debited(&self) -> u32 {
        let peek = self.limit.charge(KEY).with_cost(0);
        let now = self.node.clock().now();
        let seen = self.central.central.decide_one(&peek, &now).await.expect("the memory store answers");
        self.limit.capacity() - seen.remaining()
    }
}

#[tokio::test]
async fn answered_calls_are_forgotten_hundreds_at_once() {
    let fixture = Fixture::new();
    let mut times = 0;
    for sent in 1..=4 * AT_ONCE {
        let before = fixture.central.count(|fate| fate.forgotten > 0);
        fixture.send(false).await;
        let forgotten = fixture.central.count(|fate| fate.forgotten > 0);
        assert!(sent - forgotten <= AT_ONCE, "{forgotten} of {sent} are forgotten");
        times += usize::from(forgotten > before);
    }
    assert_eq!(times, 3, "the last ones go with the next batch");
    fixture.close().await;
    assert_eq!(fixture.central.count(|fate| fate.forgotten == 1), 4 * AT_ONCE, "all of them, once each");
}

#[tokio::test]
async fn batches_that_were_sent_repeatedly_are_not_forgotten() {
    let fixture = Fixture::new();
    for number in 0..2 * AT_ONCE {
        fixture.send(number % 4 == 0).await;
    }
    fixture.close().await;
    let (once, repeated) = (2 * AT_ONCE * 3 / 4, 2 * AT_ONCE / 4);
    assert_eq!(fixture.central.count(|fate| fate.sent == 1 && fate.forgotten == 1), once);
    assert_eq!(fixture.central.count(|fate| fate.sent == 2 && fate.forgotten == 0), repeated);
}

/// The central store keeps a bounded number of keys, even if every batch is sent twice.
#[tokio::test]
async fn the_oldest_of_too_many_repeated_batches_are_forgotten() {
    let (fixture, still_known) = (Fixture::new(), |fate: &Fate| fate.sent == 2 && fate.forgotten == 0);
    for _ in 0..MAX_IN_DOUBT {
        fixture.send(true).await;
    }
    assert_eq!(fixture.central.count(|fate| fate.forgotten > 0), 0, "not too many yet");
    for _ in 0..2 * AT_ONCE {
        fixture.send(true).await;
        let known = fixture.central.count(still_known);
        assert!(known <= MAX_IN_DOUBT + AT_ONCE, "{known} are known");
    }
    fixture.close().await;
    assert_eq!(fixture.central.count(still_known), MAX_IN_DOUBT);
    assert_eq!(fixture.debited().await as usize, MAX_IN_DOUBT + 2 * AT_ONCE, "applied once each");
}

/// Rounds that only receive what other nodes have sent change nothing, and the central store remembers no such call.
#[tokio::test]
async fn batches_without_deltas_need_not_be_forgotten() {
    let fixture = Fixture::new();
    fixture.send(false).await;
    for _ in 0..4 {
        fixture.node.sync_now().await.expect("the central store answers");
    }
    fixture.close().await;
    let sent = fixture.central.count(|fate| fate.sent == 1);
    assert!(sent > 1, "some rounds have received: {sent}");
    assert_eq!(fixture.central.count(|fate| fate.forgotten == 1), 1);
}

/// A node whose share is used up takes more from the central store at once, by a call with an idempotency key.
#[tokio::test]
async fn calls_for_tokens_are_forgotten() {
    let Fixture { central, node, limit } = Fixture::new();
    let other = Synced::builder(central.clone()).clock(node.clock().clone()).manual().build().expect("valid");
    let take = async |node: &Synced<Recorder, ManualClock>| {
        let charge = limit.charge(KEY).with_cost(1_000);
        assert!(
            node.decide_one(&charge, node.clock()).await.expect("the central store answers").is_allowed()
        );
    };
    for _ in 0..3 {
        for node in [&other, &node] {
            take(node).await;
            node.sync_now().await.expect("the central store answers");
        }
        node.clock().advance(Duration::from_millis(100));
    }
    for _ in 0..900 {
        take(&node).await;
    }
    let token_calls = central.token_calls.load(Ordering::Relaxed);
    assert!(token_calls > 0, "its share was used up");
    let before = central.count(|fate| fate.forgotten == 1);
    node.close(Duration::from_secs(60)).await.expect("the central store answers");
    assert!(central.count(|fate| fate.forgotten == 1) >= before + token_calls, "all of them");
}
