//! Concurrent callers, and the results they got. Their clock stands still, so that every unit can be counted.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{Decision, Effect, ErrorKind, LeaseId, Limit, Limiter, ManualClock, StoreError};
use tollgate_store_cassandra::{CassandraStore, Config};

const CALLERS: usize = 32;
/// Enough for every node to be the preferred replica of some.
const ENTITIES: usize = 16;
/// Only stops a test that hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// One limit that is never exhausted, and two that soon are.
fn limits() -> [Limit; 3] {
    let hour = Duration::from_secs(3_600);
    [
        Limit::per_day(1_000_000).build("bucket"),
        Limit::per_day(20).fixed_window().build("window"),
        Limit::concurrent(10).lease(hour).build("slots"),
    ]
    .map(|limit| limit.expect("valid"))
}

/// The results for one limit of one entity.
#[derive(Debug, Default)]
struct Count {
    allowed: AtomicU32,
    /// Calls with an unknown effect.
    unknown: AtomicU32,
}

#[derive(Debug)]
pub(crate) struct Results {
    name: &'static str,
    clock: ManualClock,
    counts: [[Count; 3]; ENTITIES],
    succeeded: AtomicU32,
    failed: AtomicU32,
    /// Errors that an outage does not explain.
    unexpected: Mutex<Vec<StoreError>>,
    /// How many calls of each caller have ended.
    ended: [AtomicU32; CALLERS],
    stop: AtomicBool,
}

pub(crate) struct Load {
    results: Arc<Results>,
    callers: JoinSet<()>,
}

type LoadLimiter = Limiter<CassandraStore, ManualClock>;

impl Load {
    /// Starts callers. Their entities have this name as a prefix.
    pub(crate) async fn start(config: Config, name: &'static str) -> Self {
        let store = config.require_reachable().connect().await.expect("a reachable cluster");
        let results = Arc::new(Results {
            name,
            clock: ManualClock::default(),
            counts: Default::default(),
            succeeded: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            unexpected: Mutex::default(),
            ended: Default::default(),
            stop: AtomicBool::new(false),
        });
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let limiter = Limiter::with_clock(store.clone(), results.clock.clone());
            // Some of them use idempotency keys.
            let limiter = if caller % 4 == 0 { limiter.exactly_once() } else { limiter };
            callers.spawn(Arc::clone(&results).call(limiter, caller));
        }
        Self { results, callers }
    }

    /// Returns how many calls succeeded, and how many failed.
    pub(crate) fn calls(&self) -> (u32, u32) {
        (self.results.succeeded.load(Ordering::SeqCst), self.results.failed.load(Ordering::SeqCst))
    }

    /// Waits until so many more calls have succeeded, and some of each caller have ended: none waits for a node.
    pub(crate) async fn wait_for_decisions(&self, more: u32) {
        let before = self.calls().0;
        self.until("calls succeed", || self.calls().0 >= before + more).await;
        self.wait_for_every_caller().await;
    }

    /// Waits until so many more calls have failed, and some of each caller have ended: none waits for a node.
    pub(crate) async fn wait_for_failures(&self, more: u32) {
        let before = self.calls().1;
        self.until("calls fail", || self.calls().1 >= before + more).await;
        self.wait_for_every_caller().await;
    }

    /// A caller's first call may have started earlier.
    async fn wait_for_every_caller(&self) {
        let ended = || self.results.ended.each_ref().map(|ended| ended.load(Ordering::SeqCst));
        let before = ended();
        let more = || ended().iter().zip(before).all(|(now, before)| *now >= before + 2);
        self.until("two calls of every caller end", more).await;
    }

    async fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let waiting = async {
            while !condition() {
                pause().await;
            }
        };
        let waited = tokio::time::timeout(TEST_TIMEOUT, waiting).await;
        assert!(waited.is_ok(), "{}: timed out waiting until {what}: {:?}", self.results.name, self.results);
    }

    pub(crate) fn assert_most_succeeded_since(&self, before: (u32, u32)) {
        let (succeeded, failed) = self.calls();
        let (succeeded, failed) = (succeeded - before.0, failed - before.1);
        assert!(succeeded > 3 * failed, "{succeeded} calls succeeded, {failed} failed");
    }

    pub(crate) async fn stop(self) -> Arc<Results> {
        self.results.stop.store(true, Ordering::SeqCst);
        let stopped = tokio::time::timeout(TEST_TIMEOUT, self.callers.join_all()).await;
        assert!(stopped.is_ok(), "calls that end");
        self.results
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "callers must not retry at once after an error that was returned at once"
)]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

impl Results {
    fn entity(&self, index: usize) -> String {
        format!("{} {index}", self.name)
    }

    async fn call(self: Arc<Self>, limiter: LoadLimiter, caller: usize) {
        let limits = limits();
        for round in caller.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let (entity, limit) = (round % ENTITIES, round / ENTITIES % limits.len());
            let key = self.entity(entity);
            // Only the concurrency limit uses the lease.
            let charge = limits[limit].charge(key.as_str()).with_lease(LeaseId::unique());
            let result = limiter.charge(charge).await;
            self.ended[caller].fetch_add(1, Ordering::SeqCst);
            if self.record(&self.counts[entity][limit], result).is_err() {
                pause().await;
            }
        }
    }

    fn record(&self, count: &Count, result: Result<Decision, StoreError>) -> Result<(), ()> {
        match result {
            Ok(decision) => {
                count.allowed.fetch_add(decision.granted(), Ordering::SeqCst);
                self.succeeded.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            Err(error) => {
                let unknown = error.effect() == Effect::Unknown;
                count.unknown.fetch_add(unknown.into(), Ordering::SeqCst);
                self.failed.fetch_add(1, Ordering::SeqCst);
                if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
                    self.unexpected.lock().expect("no panic").push(error);
                }
                Err(())
            }
        }
    }

    /// Asserts that limits were not exceeded, and that every allowed call is counted once.
    pub(crate) async fn assert_all_calls_are_counted(&self, config: Config) {
        let unexpected = self.unexpected.lock().expect("no panic").clone();
        assert!(unexpected.is_empty(), "{}: {unexpected:?}", self.name);
        let store = config.require_reachable().connect().await.expect("a reachable cluster");
        let limiter = Limiter::with_clock(store, self.clock.clone());
        for (entity, counts) in self.counts.iter().enumerate() {
            for (limit, count) in limits().iter().zip(counts) {
                let decision = limiter.peek(limit, &self.entity(entity)).await.expect("a decision");
                let used = decision.limit() - decision.remaining();
                let allowed = count.allowed.load(Ordering::SeqCst);
                let unknown = count.unknown.load(Ordering::SeqCst);
                assert!(
                    allowed <= used && used <= allowed + unknown && allowed <= limit.capacity(),
                    "{} {entity}, {}: {allowed} allowed, {unknown} unknown, {used} counted",
                    self.name,
                    limit.name()
                );
            }
        }
    }
}
