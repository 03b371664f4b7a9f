//! A guarded store whose Redis was killed, with an open circuit breaker.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate::memory::MemoryStore;
use tollgate::{BreakerState, Decision, Limit, Limiter, Source, StoreError};
use tollgate_resilience::{FallbackStore, Guarded, Share};
use tollgate_store_redis::RedisStore;

use crate::keys::Walk;
use crate::redis::server::Server;
use crate::redis::subject::Failure;
use crate::redis::tollgate::connect;
use crate::subject::Subject;

pub const NAME: &str = "dead store";

/// The default deadline of a guard.
pub const DEADLINE: Duration = Duration::from_millis(20);
/// The number of processes that share the limits.
const PROCESSES: u32 = 10;

/// The number of calls that succeed before the server is killed.
const BEFORE: u32 = 100;
/// The breaker opens after a handful of failures; if it is closed after this many, that is a bug.
const MAX_FAILURES: u32 = 1_000;

pub type DeadLimiter = Limiter<Guarded<RedisStore>>;

/// Builds a limiter that falls back to memory, because its Redis is dead and the circuit breaker is open.
pub async fn limiter(limit: &Limit, keys: usize) -> Result<DeadLimiter, Failure> {
    let server = Server::open(None).await?;
    let limiter = Limiter::new(guarded(connect(&server.place(0)).await?, keys));
    let mut decided = 0;
    while decided < BEFORE {
        // A decision of the fallback does not count; nothing is measured yet.
        decided += u32::from(limiter.check(limit, "user").await?.source() == Source::Store);
    }
    drop(server);
    for _ in 0..MAX_FAILURES {
        let _decided_by_fallback = limiter.check(limit, "user").await?;
        if limiter.store().breaker_state() == BreakerState::Open {
            return Ok(limiter);
        }
    }
    Err(format!("the circuit breaker is not open {MAX_FAILURES} checks after the end of the store").into())
}

fn guarded(redis: RedisStore, keys: usize) -> Guarded<RedisStore> {
    let fallback = FallbackStore::new(MemoryStore::config().max_keys(keys).build(), Share::one_of(PROCESSES));
    Guarded::builder(redis).deadline(DEADLINE).on_failure(fallback).build().expect("valid")
}

/// Returns whether a check was allowed by the fallback store.
pub fn is_admitted(decision: Result<Decision, StoreError>) -> bool {
    decision.is_ok_and(|decision| decision.is_allowed() && decision.source() == Source::Fallback)
}

/// The dead store as a subject in this process.
pub struct Dead {
    pub limiter: DeadLimiter,
    pub limit: Limit,
    /// Runs the probes of the store.
    pub runtime: Handle,
}

impl Dead {
    /// Checks in the context of the runtime.
    fn check_inside(&self, key: &str) -> bool {
        let mut check = pin!(self.limiter.check(&self.limit, key));
        // Nearly always the first poll is ready, and no runtime is measured, as for the memory store. A probe waits for
        // the store: its time counts, too.
        is_admitted(match check.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(decision) => decision,
            Poll::Pending => self.runtime.block_on(check),
        })
    }
}

impl Subject for Dead {
    fn check(&self, key: &str) -> bool {
        let _inside = self.runtime.enter();
        self.check_inside(key)
    }

    /// Enters the runtime once per lap: the callers of a service are in one anyway.
    fn lap(&self, mut walk: Walk<'_>, checks: u32) -> u32 {
        let _inside = self.runtime.enter();
        let mut admitted = 0;
        for _ in 0..checks {
            admitted += u32::from(self.check_inside(black_box(walk.step())));
        }
        admitted
    }
}
