//! Subjects of Tollgate.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate::memory::{DirectLimiter, MemoryStore};
use tollgate::store::Store;
use tollgate::{Limit, LimitBuilder, Limiter};

use crate::subject::{Quota, Subject, Traffic};

/// The largest count of a limit; no run reaches it.
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

/// The same as [`keyed`], with a sliding window instead of a bucket.
pub fn window(traffic: Traffic, keys: usize) -> Box<dyn Subject> {
    Box::new(Keyed { limiter: limiter(keys), limit: limit(traffic, LimitBuilder::sliding_window) })
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
