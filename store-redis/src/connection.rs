//! One connection that all callers share: opened on demand, checked when suspect, replaced when closed.
//!
//! The connection stays checked out of a deadpool pool, and calls are sent over clones of its handle. Checking it out
//! per call would cost a round trip (the pool's `PING`) and exclude all other callers. The pool opens and checks it.

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
use crate::stats::Counters;

/// A connection shared by all callers, reopened when necessary.
#[derive(Debug)]
pub(crate) struct SharedConnection {
    server: String,
    /// Advice for error messages in case the URL has the wrong choice of TLS.
    tls_hint: &'static str,
    pool: Pool,
    /// The number of connections to the server that were closed.
    disconnects: Arc<AtomicU64>,
    backoff: Backoff,
    counters: Arc<Counters>,
    /// The number of the next connection.
    next_number: AtomicU64,
    state: Mutex<ConnectionState>,
}

/// The waiting time after a failed attempt to connect.
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

enum ConnectionState {
    Empty,
    Live(Live),
    /// An attempt is under way. The channel closes when it ends.
    Connecting(watch::Receiver<()>),
    /// The last attempt failed. The next one starts at `until` at the earliest.
    Down {
        until: Instant,
        failures: u32,
        error: StoreError,
    },
}

impl std::fmt::Debug for ConnectionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Live(_) => "Live",
            Self::Connecting(_) => "Connecting",
            Self::Down { .. } => "Down",
        })
    }
}

/// An open connection, checked out of the pool while it is in use.
struct Live {
    pooled: Connection,
    id: ConnectionId,
    /// The value of `disconnects` when this connection was last known to be open. If it has changed, this connection
    /// may be among the closed ones, and the pool has to check it.
    disconnects: u64,
}

/// Identifies one of the connections that a [`SharedConnection`] has had.
#[derive(Clone)]
pub(crate) struct ConnectionId {
    number: u64,
    /// The number of replies received over it.
    replies: Arc<AtomicU64>,
}

/// A call that was sent and waits for its reply. If it is dropped before its end was reported, the caller gave up: an
/// outer deadline was shorter than the call's own.
///
/// That is normal on a working connection. But if no reply at all has arrived since the call was sent, the connection
/// may be dead, and nothing else would detect that as long as all callers give up early.
pub(crate) struct InFlight<'a> {
    connection: &'a SharedConnection,
    id: ConnectionId,
    /// The number of replies when the call was sent.
    replies_before: u64,
    ended: bool,
}

impl InFlight<'_> {
    /// Records that the server replied.
    pub(crate) fn answered(mut self) {
        self.id.replies.fetch_add(1, Ordering::Relaxed);
        self.ended = true;
    }

    /// Records that the server replied as a replica. Its host name may resolve to another server by now.
    pub(crate) fn answered_by_replica(self) {
        let (connection, number) = (self.connection, self.id.number);
        self.answered();
        connection.discard(number);
    }

    /// Records that the connection was closed, or that no reply arrived before the call's deadline.
    pub(crate) fn lost(mut self) {
        self.connection.suspect(self.id.number);
        self.ended = true;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if !self.ended && self.id.replies.load(Ordering::Relaxed) == self.replies_before {
            self.connection.suspect(self.id.number);
        }
    }
}

impl SharedConnection {
    pub(crate) fn new(
        server: String,
        tls_hint: &'static str,
        pool: Pool,
        disconnects: Arc<AtomicU64>,
        backoff: Backoff,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            server,
            tls_hint,
            pool,
            disconnects,
            backoff,
            counters,
            next_number: AtomicU64::new(0),
            state: Mutex::new(ConnectionState::Empty),
        }
    }

    /// Returns the connection. Opens one if there is none.
    pub(crate) async fn get(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<(MultiplexedConnection, ConnectionId), Fault> {
        // A caller that has waited for an attempt gets its result, and does not start another one.
        let mut waited = false;
        loop {
            let mut done = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                match &*state {
                    ConnectionState::Live(live)
                        if live.disconnects == self.disconnects.load(Ordering::Relaxed) =>
                    {
                        return Ok(((*live.pooled).clone(), live.id.clone()));
                    }
                    ConnectionState::Connecting(done) => done.clone(),
                    ConnectionState::Down { until, error, .. } if waited || now() < *until => {
                        return Err(Fault::NotSent(error.clone()));
                    }
                    ConnectionState::Empty | ConnectionState::Live(_) | ConnectionState::Down { .. } => {
                        self.start_connecting(&mut state)
                    }
                }
            };
            // The sender is dropped when the attempt ends, whether it succeeded or not.
            if timeout_at(deadline, done.changed()).await.is_err() {
                let message = format!("timed out while connecting to redis at {}", self.server);
                return Err(Fault::NotSent(StoreError::new(ErrorKind::Timeout, message)));
            }
            waited = true;
        }
    }

    /// Records that a call is about to be sent over a connection.
    pub(crate) fn start(&self, id: ConnectionId) -> InFlight<'_> {
        let replies_before = id.replies.load(Ordering::Relaxed);
        InFlight { connection: self, id, replies_before, ended: false }
    }

    /// Connects in a task of its own, so that a caller that gives up does not abort the attempt.
    fn start_connecting(self: &Arc<Self>, state: &mut ConnectionState) -> watch::Receiver<()> {
        let (sender, receiver) = watch::channel(());
        let failures = match std::mem::replace(state, ConnectionState::Connecting(receiver.clone())) {
            ConnectionState::Down { failures, .. } => failures,
            // A live connection returns to the pool, which checks it when it is checked out again.
            ConnectionState::Live(_) | ConnectionState::Empty | ConnectionState::Connecting(_) => 0,
        };
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let disconnects = shared.disconnects.load(Ordering::Relaxed);
            let next = match shared.pool.get().await {
                Ok(pooled) => {
                    let number = shared.next_number.fetch_add(1, Ordering::Relaxed);
                    let id = ConnectionId { number, replies: Arc::default() };
                    ConnectionState::Live(Live { pooled, id, disconnects })
                }
                Err(problem) => {
                    shared.counters.failed_connects.increment();
                    ConnectionState::Down {
                        until: in_future(shared.backoff.after(failures)),
                        failures: failures.saturating_add(1),
                        error: shared.connect_error(problem),
                    }
                }
            };
            *shared.state.lock().unwrap_or_else(PoisonError::into_inner) = next;
            drop(sender);
        });
        receiver
    }

    fn connect_error(&self, problem: PoolError) -> StoreError {
        match problem {
            PoolError::Backend(error) => error::not_connected(error, &self.server, self.tls_hint),
            PoolError::Timeout(_) => StoreError::new(
                ErrorKind::Timeout,
                format!("timed out while connecting to redis at {}; if {}", self.server, self.tls_hint),
            ),
            other => StoreError::new(
                ErrorKind::Unavailable,
                format!("cannot connect to redis at {}: {other}", self.server),
            ),
        }
    }

    /// Returns a connection to the pool, which checks it before the next call uses it.
    fn suspect(&self, number: u64) {
        drop(self.remove(number));
    }

    /// Closes a connection, so that the next call opens a new one.
    fn discard(&self, number: u64) {
        if let Some(live) = self.remove(number) {
            drop(Connection::take(live.pooled));
        }
    }

    /// Removes a connection, unless another one has replaced it already.
    fn remove(&self, number: u64) -> Option<Live> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(&*state, ConnectionState::Live(live) if live.id.number == number) {
            return None;
        }
        match std::mem::replace(&mut *state, ConnectionState::Empty) {
            ConnectionState::Live(live) => Some(live),
            ConnectionState::Empty | ConnectionState::Connecting(_) | ConnectionState::Down { .. } => None,
        }
    }
}
