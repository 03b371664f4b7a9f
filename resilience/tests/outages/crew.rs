//! Callers who never stop asking, and what they were told.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_core::store::Store;
use tollgate_core::{
    BreakerState, Clock, Event, Limit, LimitBuilder, Limiter, Observer, Source, SystemClock, Timer,
};
use tollgate_resilience::{Guarded, Local, OnFailure, Share};
use tollgate_store_memory::MemoryStore;
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

/// More than the usual, for a machine that has other things to do.
const DEADLINE: Duration = Duration::from_millis(50);
/// What may come on top of the deadline.
const GRACE: Duration = Duration::from_millis(10);
const CALLERS: usize = 16;
const KEY: &str = "somebody";

/// Waits until it is so.
pub(crate) async fn until(what: &str, so: impl AsyncFn() -> bool) {
    let clock = SystemClock::new();
    for _ in 0..6_000 {
        if so().await {
            return;
        }
        // Nothing tells when that is.
        clock.sleep(Duration::from_millis(10)).await;
    }
    panic!("it never happened that {what}");
}

/// A guarded store on Redis, with a limit for each policy.
pub(crate) struct Scene {
    redis: RedisStore,
    pub(crate) guarded: Arc<Guarded<RedisStore>>,
    breaker: Arc<Transitions>,
    limits: [Limit; 3],
}

/// Whatever happens, it passes; it does not; half of it passes.
const POLICIES: [&str; 3] = ["open", "shut", "shared"];

impl Scene {
    pub(crate) async fn on(redis: &Redis) -> Self {
        let backoff = Duration::from_millis(10);
        let config = Config::new(redis.url()).must_be_there().reconnect_backoff(backoff, 4 * backoff);
        let redis = config.connect().await.expect("a server");
        let breaker = Arc::new(Transitions::default());
        let guarded = Guarded::new(redis.clone())
            .on_failure_of("open", OnFailure::Allow)
            .on_failure_of("shut", OnFailure::Deny)
            .on_failure_of("shared", Local::on(MemoryStore::new(), Share::one_of(2)))
            .deadline(DEADLINE)
            .pauses(Duration::from_millis(100), Duration::from_millis(400))
            .observed_by(Arc::clone(&breaker) as _);
        // So long that no window ends while this runs.
        let long = Limit::per(400_000, Duration::from_secs(300 * 86_400)).fixed_window();
        let limits = POLICIES.map(|name| LimitBuilder::clone(&long).build(name).expect("valid"));
        Self { redis, guarded: Arc::new(guarded), breaker, limits }
    }

    /// Everything that must hold once the store is back.
    pub(crate) async fn is_right_after(&self, crew: Crew) {
        // A machine with other things to do may have made the last call late.
        until("the store is asked again", async || self.guarded.breaker() == BreakerState::Closed).await;
        let told = crew.stop().await;
        until("the store knows everything", async || {
            // Whatever is left to be told goes with a call that succeeds.
            let _ = self
                .guarded
                .decide_one(&self.limits[2].charge("somebody else").with_cost(0), &SystemClock::new())
                .await;
            self.counted(2).await >= told.passed[2].load(Ordering::SeqCst)
        })
        .await;
        let counts = self.guarded.counts();
        let unclear = u32::try_from(counts.failed).expect("not that many");
        for (index, name) in POLICIES.into_iter().enumerate() {
            let (passed, counted) = (told.by_store[index].load(Ordering::SeqCst), self.counted(index).await);
            // What others than the store let pass is told to it by one policy only.
            let passed = if name == "shared" { told.passed[index].load(Ordering::SeqCst) } else { passed };
            assert!(passed <= counted, "{name}: {passed} passed, {counted} were counted; {counts:?}");
            assert!(
                counted <= passed + unclear,
                "{name}: {passed} passed, {counted} were counted; {counts:?}"
            );
        }
        assert_eq!((counts.panicked, counts.lost), (0, 0));
        assert_eq!(
            told.wrong.lock().expect("not poisoned")[..],
            [] as [String; 0],
            "every limit by its policy"
        );
        self.breaker.are_as_specified();
        self.is_exact().await;

        // The callers' own timers were late, too, on a machine that had other things to do.
        let (longest, bare) = (told.longest.get(), told.longest_bare.get());
        let allowed = DEADLINE.max(bare) + GRACE;
        assert!(longest <= allowed, "somebody waited {longest:?}; a bare timer {bare:?}");
    }

    async fn counted(&self, index: usize) -> u32 {
        let (limit, limiter) = (&self.limits[index], Limiter::new(self.redis.clone()));
        until("redis answers", async || limiter.peek(limit, KEY).await.is_ok()).await;
        let decision = limiter.peek(limit, KEY).await.expect("redis answers");
        limit.capacity() - decision.remaining()
    }

    /// Exactly the limit passes, for any number of callers.
    async fn is_exact(&self) {
        let limit = Limit::per_day(500).build("afterwards").expect("valid");
        let passed = Arc::new(AtomicU32::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (guarded, limit, passed) = (Arc::clone(&self.guarded), limit.clone(), Arc::clone(&passed));
            callers.spawn(async move {
                let limiter = Limiter::new(guarded);
                let mut asked = 0;
                while asked < 100 {
                    let decision = limiter.check(&limit, KEY).await.expect("an answer");
                    // Should one be late, it does not count: it was not the store that decided.
                    if decision.source() == Source::Store {
                        asked += 1;
                        passed.fetch_add(decision.granted(), Ordering::SeqCst);
                    }
                }
            });
        }
        let before = self.guarded.counts().failed;
        callers.join_all().await;
        let unclear = u32::try_from(self.guarded.counts().failed - before).expect("not that many");
        let passed = passed.load(Ordering::SeqCst);
        assert!(passed <= 500 && passed + unclear >= 500, "{passed} of 500 passed, {unclear} unclear");
    }
}

/// What the breaker did, in order.
#[derive(Debug, Default)]
struct Transitions(Mutex<Vec<BreakerState>>);

impl Observer for Transitions {
    fn observe(&self, event: Event<'_>) {
        if let Event::BreakerChanged { state } = event {
            self.0.lock().expect("not poisoned").push(state);
        }
    }
}

impl Transitions {
    fn are_as_specified(&self) {
        use BreakerState::{Closed, HalfOpen, Open};
        let mut last = Closed;
        let all = self.0.lock().expect("not poisoned");
        for state in all.iter().copied() {
            let may = match last {
                Closed => state == Open,
                Open => state == HalfOpen,
                _ => state == Open || state == Closed,
            };
            assert!(may, "{last} to {state} in {all:?}");
            last = state;
        }
        assert!(all.contains(&Open) && last == Closed, "{all:?}");
    }
}

/// The longest of many spans.
#[derive(Debug, Default)]
pub(crate) struct Longest(AtomicU64);

impl Longest {
    fn note(&self, span: Duration) {
        self.0.fetch_max(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// What callers were told; by limit where there are three.
#[derive(Debug, Default)]
pub(crate) struct Told {
    passed: [AtomicU32; 3],
    by_store: [AtomicU32; 3],
    asked_store: [AtomicU32; 3],
    asked_policy: [AtomicU32; 3],
    /// Answers that no policy gives.
    wrong: Mutex<Vec<String>>,
    longest: Longest,
    /// What a timer of the same length took beside them, without a store.
    longest_bare: Longest,
    stop: AtomicBool,
}

pub(crate) struct Crew {
    told: Arc<Told>,
    tasks: JoinSet<()>,
}

impl Crew {
    pub(crate) fn start(scene: &Scene) -> Self {
        let told = Arc::new(Told::default());
        let mut tasks = JoinSet::new();
        for _ in 0..CALLERS {
            let (guarded, limits) = (Arc::clone(&scene.guarded), scene.limits.clone());
            tasks.spawn(Arc::clone(&told).call(Limiter::new(guarded), limits));
            tasks.spawn(Arc::clone(&told).wait_without_a_store());
        }
        Self { told, tasks }
    }

    /// Until the store has decided some more of each limit.
    pub(crate) async fn until_decided_by_the_store(&self) {
        Self::more_of(&self.told.asked_store, "the store decides").await;
    }

    /// Until the policies have.
    pub(crate) async fn until_decided_by_policies(&self) {
        Self::more_of(&self.told.asked_policy, "policies decide").await;
    }

    async fn more_of(counters: &[AtomicU32; 3], what: &str) {
        let read = || counters.each_ref().map(|counter| counter.load(Ordering::SeqCst));
        let before = read();
        until(what, async || read().iter().zip(before).all(|(now, before)| *now >= before + 100)).await;
    }

    pub(crate) async fn stop(self) -> Arc<Told> {
        self.told.stop.store(true, Ordering::SeqCst);
        self.tasks.join_all().await;
        self.told
    }
}

impl Told {
    async fn call(self: Arc<Self>, limiter: Limiter<Arc<Guarded<RedisStore>>>, limits: [Limit; 3]) {
        let clock = SystemClock::new();
        while !self.stop.load(Ordering::SeqCst) {
            for (index, limit) in limits.iter().enumerate() {
                self.check(&limiter, index, limit, &clock).await;
            }
            // Callers have other things to do as well.
            clock.sleep(Duration::from_millis(5)).await;
        }
    }

    async fn wait_without_a_store(self: Arc<Self>) {
        let clock = SystemClock::new();
        while !self.stop.load(Ordering::SeqCst) {
            let began = clock.now();
            let _ = timeout(DEADLINE, std::future::pending::<()>()).await;
            self.longest_bare.note(clock.now().since(began));
        }
    }

    async fn check(
        &self,
        limiter: &Limiter<Arc<Guarded<RedisStore>>>,
        index: usize,
        limit: &Limit,
        clock: &SystemClock,
    ) {
        let began = clock.now();
        let decision = limiter.check(limit, KEY).await.expect("every check has a policy");
        self.longest.note(clock.now().since(began));
        self.passed[index].fetch_add(decision.granted(), Ordering::SeqCst);
        let right = match decision.source() {
            Source::Store => {
                self.by_store[index].fetch_add(decision.granted(), Ordering::SeqCst);
                self.asked_store[index].fetch_add(1, Ordering::SeqCst);
                true
            }
            source => {
                self.asked_policy[index].fetch_add(1, Ordering::SeqCst);
                match POLICIES[index] {
                    "open" => source == Source::Policy && decision.is_allowed(),
                    "shut" => source == Source::Policy && decision.is_denied(),
                    _ => source == Source::Fallback && decision.limit() == limit.capacity() / 2,
                }
            }
        };
        if !right {
            self.wrong.lock().expect("not poisoned").push(format!("{}: {decision:?}", limit.name()));
        }
    }
}
