//! Callers that check without end, until they are stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_core::{Clock, Limit, Limiter, Source, SystemClock, Timer};
use tollgate_resilience::Guarded;
use tollgate_store_redis::RedisStore;
use tollgate_testkit::until;

use crate::fixture::{CALLERS, DEADLINE, Fixture, KEY, POLICIES};
use crate::measurements::Measurements;

pub(crate) struct Callers {
    measurements: Arc<Measurements>,
    tasks: JoinSet<()>,
}

impl Callers {
    pub(crate) fn start(fixture: &Fixture) -> Self {
        let measurements = Arc::new(Measurements::default());
        let mut tasks = JoinSet::new();
        for _ in 0..CALLERS {
            let (guarded, limits) = (Arc::clone(&fixture.guarded), fixture.limits.clone());
            tasks.spawn(check_all(Arc::clone(&measurements), Limiter::new(guarded), limits));
            tasks.spawn(measure_bare_timers(Arc::clone(&measurements)));
        }
        Self { measurements, tasks }
    }

    /// Waits until the store has decided some more charges of each limit.
    pub(crate) async fn until_decided_by_the_store(&self) {
        Self::until_more(&self.measurements.decided_by_store, "the store decides").await;
    }

    /// Waits until the policies have decided some more charges of each limit.
    pub(crate) async fn until_decided_by_policies(&self) {
        Self::until_more(&self.measurements.decided_by_policy, "the policies decide").await;
    }

    async fn until_more(counters: &[AtomicU32; 3], condition: &str) {
        let read = || counters.each_ref().map(|counter| counter.load(Ordering::SeqCst));
        let before = read();
        let more = async || read().iter().zip(before).all(|(now, before)| *now >= before + 100);
        until(condition, more).await;
    }

    pub(crate) async fn stop(self) -> Arc<Measurements> {
        self.measurements.stop.store(true, Ordering::SeqCst);
        self.tasks.join_all().await;
        self.measurements
    }
}

async fn check_all(
    measurements: Arc<Measurements>,
    limiter: Limiter<Arc<Guarded<RedisStore>>>,
    limits: [Limit; 3],
) {
    let clock = SystemClock::new();
    while !measurements.stop.load(Ordering::SeqCst) {
        for (index, limit) in limits.iter().enumerate() {
            check(&measurements, &limiter, index, limit, &clock).await;
        }
        clock.sleep(Duration::from_millis(5)).await;
    }
}

async fn check(
    measurements: &Measurements,
    limiter: &Limiter<Arc<Guarded<RedisStore>>>,
    index: usize,
    limit: &Limit,
    clock: &SystemClock,
) {
    let start = clock.now();
    let decision = limiter.check(limit, KEY).await.expect("every check has a policy");
    measurements.longest_call.record(clock.now().since(start));
    measurements.granted[index].fetch_add(decision.granted(), Ordering::SeqCst);
    let as_specified = match decision.source() {
        Source::Store => {
            measurements.granted_by_store[index].fetch_add(decision.granted(), Ordering::SeqCst);
            measurements.decided_by_store[index].fetch_add(1, Ordering::SeqCst);
            true
        }
        source => {
            measurements.decided_by_policy[index].fetch_add(1, Ordering::SeqCst);
            match POLICIES[index] {
                "open" => source == Source::Policy && decision.is_allowed(),
                "closed" => source == Source::Policy && decision.is_denied(),
                _ => source == Source::Fallback && decision.limit() == limit.capacity() / 2,
            }
        }
    };
    if !as_specified {
        let line = format!("{}: {decision:?}", limit.name());
        measurements.unexpected.lock().expect("not poisoned").push(line);
    }
}

async fn measure_bare_timers(measurements: Arc<Measurements>) {
    let clock = SystemClock::new();
    while !measurements.stop.load(Ordering::SeqCst) {
        let start = clock.now();
        let _ = timeout(DEADLINE, std::future::pending::<()>()).await;
        measurements.longest_timer.record(clock.now().since(start));
    }
}
