//! Subjects of Tollgate.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::memory::{DirectLimiter, MemoryStore};
use tollgate::store::Store;
use tollgate::{Limit, LimitBuilder, Limiter};

use crate::subject::{Quota, Subject, Traffic};

/// The largest count of a log; no key of many reaches it.
const LOG_COUNT: u32 = 100_000;
/// The largest count of any other limit; no run reaches it.
const MAX_COUNT: u32 = 1_000_000_000;

fn limit(traffic: Traffic, algorithm: fn(LimitBuilder) -> LimitBuilder) -> Limit {
    let Quota { count, period } = traffic.quota();
    algorithm(Limit::per(count.min(MAX_COUNT), period)).build("bench").expect("a valid limit")
}

fn limiter(keys: usize) -> Limiter<MemoryStore> {
    Limiter::new(MemoryStore::config().max_keys(keys).build())
}

/// One limiter without keys.
pub fn direct(traffic: Traffic) -> Box<dyn Subject> {
    Box::new(Direct(DirectLimiter::new(limit(traffic, |limit| limit))))
}

/// A token bucket per key, through the synchronous call.
pub fn keyed(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    Box::new(Keyed { limiter: limiter(keys), limit: limit(traffic, |limit| limit) })
}

/// The same as [`keyed`], through the asynchronous call.
pub fn async_keyed(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    async_on(MemoryStore::config().max_keys(keys).build(), limit(traffic, |limit| limit))
}

/// The asynchronous call on a store that never waits.
pub fn async_on<S: Store + 'static>(store: S, limit: Limit) -> Box<dyn Subject> {
    Box::new(Async { limiter: Limiter::new(store), limit })
}

/// The same as [`keyed`], with another algorithm.
pub fn keyed_by(
    traffic: Traffic,
    keys: usize,
    algorithm: fn(LimitBuilder) -> LimitBuilder,
) -> Box<dyn Subject> {
    Box::new(Keyed { limiter: limiter(keys), limit: limit(traffic, algorithm) })
}

/// A token bucket per key that blocks a key after a denial. It refills slowly, so that its state lasts for the run.
pub fn blocking(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    let limit =
        Limit::per(1_000, traffic.quota().period).burst(MAX_COUNT / 2).block_for(Duration::from_secs(60));
    Box::new(Keyed { limiter: limiter(keys), limit: limit.build("bench").expect("a valid limit") })
}

/// A token bucket per key whose units take no whole number of nanoseconds.
pub fn uneven(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    let limit = Limit::per(MAX_COUNT - 1, traffic.quota().period).build("bench").expect("a valid limit");
    Box::new(Keyed { limiter: limiter(keys), limit })
}

/// A sliding log per key. It keeps an entry per check, so that it grows during a run.
pub fn log(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    let limit = Limit::per(LOG_COUNT, traffic.quota().period).sliding_log().build("bench");
    Box::new(Keyed { limiter: limiter(keys), limit: limit.expect("a valid limit") })
}

/// A smooth limiter that warms up per key. Its callers may wait for their start: the next one pays for the last.
pub fn warming_up(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    let warming_up = |limit: LimitBuilder| limit.warm_up(Duration::from_secs(1_000));
    Box::new(Queued { limiter: limiter(keys), limit: limit(traffic, warming_up) })
}

/// A concurrency limit per key of which one slot stays in use. A check acquires and releases another one.
pub fn concurrency(_: Traffic, keys: usize) -> Box<dyn Subject> {
    let limit = Limit::concurrent(8).lease(Duration::from_secs(1_000)).build("bench").expect("a valid limit");
    Box::new(Slots { limiter: limiter(keys), limit })
}

struct Direct(DirectLimiter);

impl Subject for Direct {
    fn check(&self, _: &str) -> bool {
        self.0.check().is_allowed()
    }
}

struct Keyed {
    limiter: Limiter<MemoryStore>,
    limit: Limit,
}

impl Subject for Keyed {
    fn check(&self, key: &str) -> bool {
        self.limiter.check_now(&self.limit, key).is_allowed()
    }
}

struct Queued {
    limiter: Limiter<MemoryStore>,
    limit: Limit,
}

impl Subject for Queued {
    fn check(&self, key: &str) -> bool {
        let charge = self.limit.charge(key).with_max_wait(Duration::from_secs(1_000));
        self.limiter.charge_now(charge).is_ok_and(|decision| decision.is_allowed())
    }
}

struct Slots {
    limiter: Limiter<MemoryStore>,
    limit: Limit,
}

impl Subject for Slots {
    fn check(&self, key: &str) -> bool {
        let lease = self.limiter.acquire_lease_now(&self.limit, key).expect("the limit has leases");
        let (is_admitted, free) = (lease.decision().is_allowed(), lease.decision().remaining());
        if free < self.limit.capacity() - 1 {
            self.limiter.release_now(lease);
        }
        is_admitted
    }
}

struct Async<S> {
    limiter: Limiter<S>,
    limit: Limit,
}

impl<S: Store> Subject for Async<S> {
    fn check(&self, key: &str) -> bool {
        // The store never waits: the first poll is ready, and no runtime is measured.
        match pin!(self.limiter.check(&self.limit, key)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(decision) => decision.expect("no error").is_allowed(),
            Poll::Pending => unreachable!("the store never waits"),
        }
    }
}
