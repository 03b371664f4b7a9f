//! A guarded store on Redis, and what must hold after outages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::store::Store;
use tollgate_core::{BreakerState, Limit, LimitBuilder, Limiter, Source, SystemClock, Timer};
use tollgate_resilience::{FallbackStore, Guarded, OnFailure, Share};
use tollgate_store_memory::MemoryStore;
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::{Redis, until};

use crate::callers::Callers;
use crate::measurements::{Measurements, Transitions};

/// Longer than the default, for a busy machine.
const DEADLINE: Duration = Duration::from_millis(50);
pub(crate) const CALLERS: usize = 16;
pub(crate) const KEY: &str = "user:42";
/// The limits, by their policies: fail open, fail closed, and a fallback store with half of the limit.
pub(crate) const POLICIES: [&str; 3] = ["open", "closed", "shared"];

fn policy(name: &str) -> OnFailure {
    match name {
        "open" => OnFailure::Allow,
        "closed" => OnFailure::Deny,
        _ => FallbackStore::new(MemoryStore::new(), Share::one_of(2)).into(),
    }
}

pub(crate) struct Fixture {
    redis: RedisStore,
    pub(crate) guarded: Arc<Guarded<RedisStore>>,
    breaker: Arc<Transitions>,
    pub(crate) limits: [Limit; 3],
}

impl Fixture {
    pub(crate) async fn on(redis: &Redis) -> Self {
        let backoff = Duration::from_millis(10);
        let config = Config::new(redis.url()).require_reachable().reconnect_backoff(backoff, 4 * backoff);
        let redis = config.connect().await.expect("a running server");
        let breaker = Arc::new(Transitions::default());
        // So long that no window ends during the test.
        let long = Limit::per(400_000, Duration::from_secs(300 * 86_400)).fixed_window();
        let limits = POLICIES.map(|name| LimitBuilder::clone(&long).build(name).expect("valid"));
        let mut builder = Guarded::builder(redis.clone())
            .deadline(DEADLINE)
            .open_for(Duration::from_millis(100), Duration::from_millis(400));
        for limit in &limits {
            builder = builder.on_failure_of(limit, policy(limit.name()));
        }
        let guarded = builder.build().expect("valid");
        guarded.attach_observer(&(Arc::clone(&breaker) as _));
        Self { redis, guarded: Arc::new(guarded), breaker, limits }
    }

    /// Verifies everything that must hold once the store answers again.
    pub(crate) async fn verify(&self, callers: Callers) {
        // On a busy machine, the last calls may have missed their deadline.
        let closed = async || self.guarded.breaker_state() == BreakerState::Closed;
        until("the breaker is closed", closed).await;
        let measured = callers.stop().await;
        self.wait_for_reconciliation(&measured).await;
        let stats = self.guarded.stats();
        let unknown = u32::try_from(stats.failed_calls).expect("few calls");
        for (index, name) in POLICIES.into_iter().enumerate() {
            // Only what the fallback store granted is reconciled.
            let granted = if name == "shared" { &measured.granted } else { &measured.granted_by_store };
            let (granted, counted) = (granted[index].load(Ordering::SeqCst), self.counted(index).await);
            assert!(
                granted <= counted && counted <= granted + unknown,
                "{name}: {granted} granted, {counted} counted; {stats:?}"
            );
        }
        assert_eq!((stats.panics, stats.lost), (0, 0));
        let unexpected = measured.unexpected.lock().expect("not poisoned").clone();
        assert_eq!(unexpected, [] as [String; 0], "every limit by its policy");
        self.breaker.verify();
        self.verify_exactness().await;
    }

    async fn wait_for_reconciliation(&self, measured: &Measurements) {
        until("reconciliation is complete", async || {
            // What is still pending is sent after a call that succeeds.
            let peek = self.limits[2].charge("user:43").with_cost(0);
            let _ = self.guarded.decide_one(&peek, &SystemClock::new()).await;
            self.counted(2).await >= measured.granted[2].load(Ordering::SeqCst)
        })
        .await;
    }

    /// Returns how much Redis has counted of a limit.
    async fn counted(&self, index: usize) -> u32 {
        let (limit, limiter) = (&self.limits[index], Limiter::new(self.redis.clone()));
        until("redis answers", async || limiter.peek(limit, KEY).await.is_ok()).await;
        let decision = limiter.peek(limit, KEY).await.expect("redis answers");
        limit.capacity() - decision.remaining()
    }

    /// Verifies that exactly the limit is granted, with concurrent callers.
    async fn verify_exactness(&self) {
        let limit = Limit::per_day(500).build("afterwards").expect("valid");
        let granted = Arc::new(AtomicU32::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (guarded, limit, granted) = (Arc::clone(&self.guarded), limit.clone(), Arc::clone(&granted));
            callers.spawn(async move {
                let (limiter, clock) = (Limiter::new(guarded), SystemClock::new());
                let mut decided = 0;
                while decided < 100 {
                    let decision = limiter.check(&limit, KEY).await.expect("a decision");
                    if decision.source() == Source::Store {
                        decided += 1;
                        granted.fetch_add(decision.granted(), Ordering::SeqCst);
                    } else {
                        // The store did not decide: on a busy machine, calls may miss their deadline, and the breaker
                        // open. Policies answer at once, so that without a pause no other task would run.
                        clock.sleep(Duration::from_millis(5)).await;
                    }
                }
            });
        }
        let before = self.guarded.stats().failed_calls;
        callers.join_all().await;
        let unknown = u32::try_from(self.guarded.stats().failed_calls - before).expect("few calls");
        let granted = granted.load(Ordering::SeqCst);
        assert!(
            granted <= 500 && granted + unknown >= 500,
            "{granted} of 500 granted, {unknown} calls with unknown effect"
        );
    }
}
