//! One connection that all callers share: opened when it is needed, checked when it is in doubt, replaced when it is
//! gone.
//!
//! It is kept checked out of a deadpool pool, and calls are sent over clones of its handle: to check one out per call
//! would cost a round trip and exclude everybody else. The pool opens and checks it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_redis::{Connection, Pool, PoolError};
use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tollgate_core::{ErrorKind, StoreError};

use crate::error::{self, Fault};
use crate::server::{in_future, now};

/// One connection, whoever it is to at the moment.
#[derive(Debug)]
pub(crate) struct Lane {
    server: String,
    /// What to try if the server does not understand this side, nor this side it.
    other_wire: &'static str,
    pool: Pool,
    /// How many connections to the server have ended.
    disconnects: Arc<AtomicU64>,
    backoff: Backoff,
    /// How many connections it has had.
    made: AtomicU64,
    state: Mutex<State>,
}

/// How long to leave a server alone that could not be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    fn after(&self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.min(16)).min(self.longest)
    }
}

/// What a lane has.
enum State {
    Empty,
    Live(Live),
    /// Somebody is at it; the watch ends when they are done.
    Connecting(watch::Receiver<()>),
    /// It could not be reached, and is left alone until then.
    Down {
        until: Instant,
        failures: u32,
        error: StoreError,
    },
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Live(_) => "Live",
            Self::Connecting(_) => "Connecting",
            Self::Down { .. } => "Down",
        })
    }
}

/// A connection to send calls over, checked out of the pool for as long as it is in use.
struct Live {
    pooled: Connection,
    mark: Mark,
    /// How many connections had ended when this one was last known to be fine. If more have by now, it may be among
    /// them: the pool finds out.
    seen: u64,
}

/// Which connection of a lane it is.
#[derive(Clone)]
pub(crate) struct Mark {
    /// Tells it from the one before.
    number: u64,
    /// How many calls have been answered over it.
    answers: Arc<AtomicU64>,
}

/// A call that is being sent, and then waits for its answer. Whoever drops it before they have said how it ended has
/// given the call up: a deadline further out was shorter than the call's own.
///
/// That happens on connections that are fine. But if nothing at all has been answered over this one since, it may be
/// dead, and nobody else would ever notice as long as all callers give up early.
pub(crate) struct Sending<'a> {
    lane: &'a Lane,
    mark: Mark,
    /// How many answers there had been before it.
    before: u64,
    ended: bool,
}

impl Sending<'_> {
    /// The server said something to it.
    pub(crate) fn answered(mut self) {
        self.mark.answers.fetch_add(1, Ordering::Relaxed);
        self.ended = true;
    }

    /// The server said that it is not the one to ask: by now its name may stand for another.
    pub(crate) fn answered_by_a_replica(self) {
        let (lane, number) = (self.lane, self.mark.number);
        self.answered();
        lane.leave(number);
    }

    /// The connection ended, or no answer came for as long as the store waits for one.
    pub(crate) fn lost(mut self) {
        self.lane.suspect(self.mark.number);
        self.ended = true;
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if !self.ended && self.mark.answers.load(Ordering::Relaxed) == self.before {
            self.lane.suspect(self.mark.number);
        }
    }
}

impl Lane {
    /// Without a connection yet.
    pub(crate) fn new(
        server: String,
        other_wire: &'static str,
        pool: Pool,
        disconnects: Arc<AtomicU64>,
        backoff: Backoff,
    ) -> Self {
        Self {
            server,
            other_wire,
            pool,
            disconnects,
            backoff,
            made: AtomicU64::new(0),
            state: Mutex::new(State::Empty),
        }
    }

    /// The connection, made if there is none.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<(MultiplexedConnection, Mark), Fault> {
        // Whoever has waited for an attempt is told how it went, and does not start the next one.
        let mut waited = false;
        loop {
            let mut done = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                match &*state {
                    State::Live(live) if live.seen == self.disconnects.load(Ordering::Relaxed) => {
                        return Ok(((*live.pooled).clone(), live.mark.clone()));
                    }
                    State::Connecting(done) => done.clone(),
                    State::Down { until, error, .. } if waited || now() < *until => {
                        return Err(Fault::NotSent(error.clone()));
                    }
                    _ => self.start_connecting(&mut state),
                }
            };
            // The sender is dropped when the attempt is over, however it went.
            if timeout_at(deadline, done.changed()).await.is_err() {
                let message = format!("redis at {} could not be connected to in time", self.server);
                return Err(Fault::NotSent(StoreError::new(ErrorKind::Timeout, message)));
            }
            waited = true;
        }
    }

    /// A call is about to be sent over the connection with this mark.
    pub(crate) fn sending(&self, mark: Mark) -> Sending<'_> {
        let before = mark.answers.load(Ordering::Relaxed);
        Sending { lane: self, mark, before, ended: false }
    }

    /// Connects in a task of its own: a caller that gives up does not stop it.
    fn start_connecting(self: &Arc<Self>, state: &mut State) -> watch::Receiver<()> {
        let (sender, receiver) = watch::channel(());
        let failures = match std::mem::replace(state, State::Connecting(receiver.clone())) {
            State::Down { failures, .. } => failures,
            // Back into the pool with it: to check it out again is to check it.
            State::Live(_) | State::Empty | State::Connecting(_) => 0,
        };
        let lane = Arc::clone(self);
        tokio::spawn(async move {
            let seen = lane.disconnects.load(Ordering::Relaxed);
            let next = match lane.pool.get().await {
                Ok(pooled) => {
                    let number = lane.made.fetch_add(1, Ordering::Relaxed);
                    State::Live(Live { pooled, mark: Mark { number, answers: Arc::default() }, seen })
                }
                Err(problem) => State::Down {
                    until: in_future(lane.backoff.after(failures)),
                    failures: failures.saturating_add(1),
                    error: lane.unreachable(problem),
                },
            };
            *lane.state.lock().unwrap_or_else(PoisonError::into_inner) = next;
            drop(sender);
        });
        receiver
    }

    fn unreachable(&self, problem: PoolError) -> StoreError {
        match problem {
            PoolError::Backend(error) => error::not_connected(error, &self.server, self.other_wire),
            PoolError::Timeout(_) => StoreError::new(
                ErrorKind::Timeout,
                format!("redis at {} could not be connected to in time; if {}", self.server, self.other_wire),
            ),
            other => StoreError::new(
                ErrorKind::Unavailable,
                format!("redis at {} could not be connected to: {other}", self.server),
            ),
        }
    }

    /// Something went wrong on it: whoever comes next finds out whether it is still good.
    fn suspect(&self, number: u64) {
        // Back into the pool, which checks it.
        drop(self.remove(number));
    }

    /// It is good, but leads to a server that its name may no longer stand for: only a new one finds out.
    fn leave(&self, number: u64) {
        if let Some(live) = self.remove(number) {
            drop(Connection::take(live.pooled));
        }
    }

    /// The connection, unless another has taken its place meanwhile.
    fn remove(&self, number: u64) -> Option<Live> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(&*state, State::Live(live) if live.mark.number == number) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Empty) {
            State::Live(live) => Some(live),
            _ => None,
        }
    }
}
