//! Callers who never stop, and what they were told. Their time stands still, so that everything can be counted.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{
    Clock, Decision, Effect, ErrorKind, LeaseId, Limit, Limiter, ManualClock, StoreError, SystemClock,
};
use tollgate_store_cassandra::{CassandraStore, Config};

const CALLERS: u32 = 32;
/// On all nodes.
const ENTITIES: usize = 16;
/// For the runtime, beside what a bare timer takes.
const GRACE: Duration = Duration::from_millis(500);
/// Far longer than anything takes.
const AGES: Duration = Duration::from_secs(120);

/// One that is never used up, and two that soon are.
fn limits() -> [Limit; 3] {
    let hour = Duration::from_secs(3_600);
    [
        Limit::per_day(1_000_000).build("bucket"),
        Limit::per_day(20).fixed_window().build("window"),
        Limit::concurrent(10).lease(hour).build("places"),
    ]
    .map(|limit| limit.expect("valid"))
}

/// What callers were told of one limit of one entity.
#[derive(Debug, Default)]
struct Count {
    allowed: AtomicU32,
    /// Calls that may have taken effect.
    unclear: AtomicU32,
}

#[derive(Debug)]
pub(crate) struct Told {
    name: &'static str,
    clock: ManualClock,
    counts: [[Count; 3]; ENTITIES],
    answered: AtomicU32,
    failed: AtomicU32,
    /// Errors that no outage explains.
    wrong: Mutex<Vec<StoreError>>,
    /// The longest time that a call took, and a timer beside it, in nanoseconds.
    longest: AtomicU64,
    longest_bare: AtomicU64,
    stop: AtomicBool,
}

pub(crate) struct Crew {
    told: Arc<Told>,
    callers: JoinSet<()>,
}

type Calls = Limiter<CassandraStore, ManualClock>;

impl Crew {
    /// Callers with entities of this name.
    pub(crate) async fn start(config: Config, name: &'static str) -> Self {
        let store = config.must_be_there().connect().await.expect("a cluster");
        let told = Arc::new(Told {
            name,
            clock: ManualClock::default(),
            counts: Default::default(),
            answered: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            wrong: Mutex::default(),
            longest: AtomicU64::new(0),
            longest_bare: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let limiter = Limiter::with_clock(store.clone(), told.clock.clone());
            // Some of them name their checks.
            let limiter = if caller % 4 == 0 { limiter.exactly_once() } else { limiter };
            callers.spawn(Arc::clone(&told).call(limiter, caller as usize));
        }
        callers.spawn(Arc::clone(&told).wait());
        Self { told, callers }
    }

    /// How many calls were answered, and how many failed.
    pub(crate) fn calls(&self) -> (u32, u32) {
        (self.told.answered.load(Ordering::SeqCst), self.told.failed.load(Ordering::SeqCst))
    }

    /// When so many more have been answered.
    pub(crate) async fn decided(&self, more: u32) {
        let before = self.calls().0;
        self.until("calls are answered", || self.calls().0 >= before + more).await;
    }

    /// When so many more have failed.
    pub(crate) async fn failed(&self, more: u32) {
        let before = self.calls().1;
        self.until("calls fail", || self.calls().1 >= before + more).await;
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let waiting = async {
            while !is_so() {
                pause().await;
            }
        };
        let waited = tokio::time::timeout(AGES, waiting).await;
        assert!(waited.is_ok(), "{}: waited in vain until {what}: {:?}", self.told.name, self.told);
    }

    pub(crate) fn assert_most_were_answered_since(&self, before: (u32, u32)) {
        let (answered, failed) = self.calls();
        let (answered, failed) = (answered - before.0, failed - before.1);
        assert!(answered > 3 * failed, "{answered} were answered, {failed} failed");
    }

    pub(crate) async fn stop(self) -> Arc<Told> {
        self.told.stop.store(true, Ordering::SeqCst);
        let ended = tokio::time::timeout(AGES, self.callers.join_all()).await;
        assert!(ended.is_ok(), "calls that end");
        self.told
    }
}

#[expect(clippy::disallowed_methods, reason = "callers who are told at once would ask again at once")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

impl Told {
    fn entity(&self, index: usize) -> String {
        format!("{} {index}", self.name)
    }

    async fn call(self: Arc<Self>, limiter: Calls, caller: usize) {
        let (limits, clock) = (limits(), SystemClock::new());
        for round in caller.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let (entity, limit) = (round % ENTITIES, round / ENTITIES % limits.len());
            let key = self.entity(entity);
            let began = clock.now();
            // Only leases need one.
            let charge = limits[limit].charge(key.as_str()).with_lease(LeaseId::unique());
            let told = limiter.charge(charge).await;
            note(&self.longest, clock.now().since(began));
            if self.note(&self.counts[entity][limit], told).is_err() {
                pause().await;
            }
        }
    }

    fn note(&self, count: &Count, told: Result<Decision, StoreError>) -> Result<(), ()> {
        match told {
            Ok(decision) => {
                count.allowed.fetch_add(decision.granted(), Ordering::SeqCst);
                self.answered.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            Err(error) => {
                let unclear = error.effect() == Effect::Unknown;
                count.unclear.fetch_add(unclear.into(), Ordering::SeqCst);
                self.failed.fetch_add(1, Ordering::SeqCst);
                if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) {
                    self.wrong.lock().expect("no panic").push(error);
                }
                Err(())
            }
        }
    }

    /// What waiting takes where there is no store.
    async fn wait(self: Arc<Self>) {
        let clock = SystemClock::new();
        while !self.stop.load(Ordering::SeqCst) {
            let began = clock.now();
            pause().await;
            note(&self.longest_bare, clock.now().since(began));
        }
    }

    /// Beside what the machine adds to any wait.
    pub(crate) fn assert_nobody_waited_longer_than(&self, call: Duration) {
        let [longest, bare] = [&self.longest, &self.longest_bare]
            .map(|longest| Duration::from_nanos(longest.load(Ordering::SeqCst)));
        // A named call is asked for once more by the limiter.
        let most = 2 * call + bare + GRACE;
        assert!(longest <= most, "{}: somebody waited {longest:?}; a bare timer {bare:?}", self.name);
    }

    /// Limits have held, and whoever was let through is in the rows, once.
    pub(crate) async fn assert_all_are_counted(&self, config: Config) {
        let wrong = self.wrong.lock().expect("no panic").clone();
        assert!(wrong.is_empty(), "{}: {wrong:?}", self.name);
        let store = config.must_be_there().connect().await.expect("a cluster");
        let limiter = Limiter::with_clock(store, self.clock.clone());
        for (entity, counts) in self.counts.iter().enumerate() {
            for (limit, count) in limits().iter().zip(counts) {
                let told = limiter.peek(limit, &self.entity(entity)).await.expect("a look");
                let used = told.limit() - told.remaining();
                let allowed = count.allowed.load(Ordering::SeqCst);
                let unclear = count.unclear.load(Ordering::SeqCst);
                assert!(
                    allowed <= used && used <= allowed + unclear && allowed <= limit.capacity(),
                    "{} {entity}, {}: {allowed} were let through, {unclear} unclear, {used} are counted",
                    self.name,
                    limit.name()
                );
            }
        }
    }
}

fn note(longest: &AtomicU64, span: Duration) {
    longest.fetch_max(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
}
