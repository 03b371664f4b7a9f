//! Callers that check without end, until they are stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{Limit, Limiter, Source, SystemClock, Timer};
use tollgate_resilience::Guarded;
use tollgate_store_redis::RedisStore;
use tollgate_testkit::until;

use crate::fixture::{CALLERS, Fixture, KEY, POLICIES};
use crate::measurements::Measurements;

pub(crate) struct Callers {
    measurements: Arc<Measurements>,
    tasks: JoinSet<()>,
}

impl Callers {
    pub(crate) fn start(fixture: &Fixture) -> Self {
        let measurements = Arc::new(Measurements::default());
        let mut tasks = JoinSet::new();
        for caller in 0..CALLERS {
            let (guarded, limits) = (Arc::clone(&fixture.guarded), fixture.limits.clone());
            tasks.spawn(check_all(Arc::clone(&measurements), caller, Limiter::new(guarded), limits));
        }
        Self { measurements, tasks }
    }

    /// Waits until the store has decided some more charges of each limit.
    pub(crate) async fn until_decided_by_the_store(&self) {
        until_more(self.measurements.decided_by_store.each_ref(), 100, "the store decides").await;
    }

    /// Waits until the policies have decided some more charges of each limit for each caller: none waits for the store.
    pub(crate) async fn until_decided_by_policies(&self) {
        let counters = self.measurements.decided_by_policy.as_flattened();
        until_more(counters, 3, "the policies decide for every caller").await;
    }

    pub(crate) async fn stop(self) -> Arc<Measurements> {
        self.measurements.stop.store(true, Ordering::SeqCst);
        self.tasks.join_all().await;
        self.measurements
    }
}

async fn until_more<'a>(counters: impl IntoIterator<Item = &'a AtomicU32>, more: u32, condition: &str) {
    let counters: Vec<_> =
        counters.into_iter().map(|counter| (counter, counter.load(Ordering::SeqCst) + more)).collect();
    let reached = async || counters.iter().all(|(counter, enough)| counter.load(Ordering::SeqCst) >= *enough);
    until(condition, reached).await;
}

async fn check_all(
    measurements: Arc<Measurements>,
    caller: usize,
    limiter: Limiter<Arc<Guarded<RedisStore>>>,
    limits: [Limit; 3],
) {
    let clock = SystemClock::new();
    while !measurements.stop.load(Ordering::SeqCst) {
        for (index, limit) in limits.iter().enumerate() {
            check(&measurements, caller, &limiter, index, limit).await;
        }
        clock.sleep(Duration::from_millis(5)).await;
    }
}

async fn check(
    measurements: &Measurements,
    caller: usize,
    limiter: &Limiter<Arc<Guarded<RedisStore>>>,
    index: usize,
    limit: &Limit,
) {
    let decision = limiter.check(limit, KEY).await.expect("every check has a policy");
    measurements.granted[index].fetch_add(decision.granted(), Ordering::SeqCst);
    let as_specified = match decision.source() {
        Source::Store => {
            measurements.granted_by_store[index].fetch_add(decision.granted(), Ordering::SeqCst);
            measurements.decided_by_store[index].fetch_add(1, Ordering::SeqCst);
            true
        }
        source => {
            measurements.decided_by_policy[caller][index].fetch_add(1, Ordering::SeqCst);
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
