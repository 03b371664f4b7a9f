//! A store whose Redis was killed, and whose guard has noticed.

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate::memory::MemoryStore;
use tollgate::{BreakerState, Decision, Limit, Limiter, Source, StoreError};
use tollgate_resilience::{Guarded, Local, Share};
use tollgate_store_redis::RedisStore;

use crate::keys::Walk;
use crate::redis::server::Server;
use crate::redis::subject::Failure;
use crate::redis::tollgate::connect;
use crate::subject::Subject;

pub const NAME: &str = "dead store";

/// How long the guard waits for an answer, as it does unless told otherwise.
pub const DEADLINE: Duration = Duration::from_millis(20);
/// So many programs share the limits.
const PROGRAMS: u32 = 10;

/// Answers of the server while it lives, so that it is a store in use that dies.
const BEFORE: u32 = 100;
/// The guard needs a handful of failures; this many without it having noticed is a bug.
const MOST_FAILURES: u32 = 1_000;

pub type DeadLimiter = Limiter<Guarded<RedisStore>>;

/// A limiter that falls back to memory, as its Redis is dead and no longer asked.
pub async fn limiter(limit: &Limit, keys: usize) -> Result<DeadLimiter, Failure> {
    let server = Server::reach(None).await?;
    let local = Local::on(MemoryStore::config().keys(keys).build(), Share::one_of(PROGRAMS));
    let guarded = Guarded::new(connect(&server.place(0)).await?).deadline(DEADLINE).on_failure(local);
    let limiter = Limiter::new(guarded);
    let mut answers = 0;
    while answers < BEFORE {
        // A late one does not count; nothing is measured yet.
        answers += u32::from(limiter.check(limit, "somebody").await?.source() == Source::Store);
    }
    drop(server);
    for _ in 0..MOST_FAILURES {
        let _decided_by_memory = limiter.check(limit, "somebody").await?;
        if limiter.store().breaker() == BreakerState::Open {
            return Ok(limiter);
        }
    }
    Err(format!("{MOST_FAILURES} checks after its end, the guard still asks the store").into())
}

/// Whether it was admitted, and by whom it has to be: the memory that stands in.
pub fn is_admitted(answer: Result<Decision, StoreError>) -> bool {
    answer.is_ok_and(|decision| decision.is_allowed() && decision.source() == Source::Fallback)
}

/// The dead store for races in this process.
pub struct Dead {
    pub limiter: DeadLimiter,
    pub limit: Limit,
    /// Whose threads drive what the store does now and then, to find out whether its server is back.
    pub runtime: Handle,
}

impl Dead {
    /// Checks within the runtime's context.
    fn check_inside(&self, key: &str) -> bool {
        let mut check = pin!(self.limiter.check(&self.limit, key));
        // Nearly always the first poll has the answer, and no runtime is measured, as for the
        // memory store. One that asks whether the server is back waits: its time counts, too.
        is_admitted(match check.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => self.runtime.block_on(check),
        })
    }
}

impl Subject for Dead {
    fn check(&self, key: &str) -> bool {
        let _inside = self.runtime.enter();
        self.check_inside(key)
    }

    /// Enters the runtime once per lap: a service's callers are in theirs anyway.
    fn lap(&self, mut walk: Walk<'_>, checks: u32) -> u32 {
        let _inside = self.runtime.enter();
        let mut admitted = 0;
        for _ in 0..checks {
            admitted += u32::from(self.check_inside(black_box(walk.step())));
        }
        admitted
    }
}
