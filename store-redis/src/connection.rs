//! One connection that all callers share: opened on demand, checked when suspect, replaced when closed.
//!
//! The connection stays checked out of a deadpool pool, and calls are sent over clones of its handle. Checking it out
//! per call would cost a round trip (the pool's `PING`) and exclude all other callers. The pool opens and checks it.
//!
//! A connection belongs to the runtime that opened it, and so does an attempt to connect: both end with that runtime,
//! whatever their state was. Calls on another runtime notice it and connect again.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_redis::{Connection, Pool, PoolError};
use futures_util::future::{self, Either, FutureExt};
use redis::aio::MultiplexedConnection;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};
use tollgate_core::{ErrorKind, StoreError};

use crate::error::{self, Fault, Peer};
use crate::eviction::EvictionCheck;
use crate::server::{in_future, now};
use crate::stats::Counters;

/// A connection shared by all callers, reopened when necessary.
#[derive(Debug)]
pub(crate) struct SharedConnection {
    source: Arc<ConnectionSource>,
    /// The number of the next connection.
    next_number: AtomicU64,
    state: Mutex<ConnectionState>,
}

/// Where connections to one server come from. All of them share it.
#[derive(Debug)]
pub(crate) struct ConnectionSource {
    pub(crate) peer: Peer,
    pub(crate) pool: Pool,
    /// The number of connections to the server that were closed.
    pub(crate) disconnects: Arc<AtomicU64>,
    pub(crate) backoff: Backoff,
    pub(crate) connect_timeout: Duration,
    /// `None` for servers that hold no state.
    pub(crate) eviction: Option<EvictionCheck>,
    pub(crate) counters: Arc<Counters>,
}

/// The waiting time after a failed attempt to connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    /// Returns the waiting time after this many failures before the last one. A random part of up to half of it is left
    /// out, so that clients which lost their connections together do not reconnect together.
    fn after(&self, failures: u32) -> Duration {
        let full = self.first.saturating_mul(1 << failures.min(16)).min(self.longest);
        full.saturating_sub(full.mul_f64(fastrand::f64() / 2.0))
    }
}

enum ConnectionState {
    Empty,
    Live(Live),
    /// An attempt is under way. The channel closes when it ends. If it is closed in this state, the runtime of the
    /// attempt has ended before the attempt did.
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
    /// The other end is in a task of the connection's runtime: closed means that the runtime has ended, and the
    /// connection with it, without a report.
    runtime: oneshot::Sender<()>,
}

impl Live {
    fn is_open(&self, source: &ConnectionSource) -> bool {
        self.disconnects == source.disconnects.load(Ordering::Relaxed) && !self.runtime.is_closed()
    }
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
    pub(crate) fn new(source: Arc<ConnectionSource>) -> Self {
        Self { source, next_number: AtomicU64::new(0), state: Mutex::new(ConnectionState::Empty) }
    }

    /// Returns the connection. Opens one if there is none.
    pub(crate) async fn get(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<(MultiplexedConnection, ConnectionId), Fault> {
        // A caller that has waited for an attempt gets its result, and does not start another one. If the attempt was
        // aborted, it has none: then the caller starts one, but only one.
        let (mut waited, mut started) = (false, false);
        loop {
            let mut done = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                match &*state {
                    ConnectionState::Live(live) if live.is_open(&self.source) => {
                        return Ok(((*live.pooled).clone(), live.id.clone()));
                    }
                    ConnectionState::Connecting(done) if done.has_changed().is_ok() => done.clone(),
                    ConnectionState::Connecting(_) if started => return Err(self.aborted()),
                    ConnectionState::Down { until, error, .. } if waited || now() < *until => {
                        return Err(Fault::NotSent(error.clone()));
                    }
                    ConnectionState::Empty
                    | ConnectionState::Live(_)
                    | ConnectionState::Connecting(_)
                    | ConnectionState::Down { .. } => {
                        started = true;
                        self.start_connecting(&mut state)
                    }
                }
            };
            // The sender is dropped when the attempt ends, whether it succeeded or not. The time is checked as well,
            // because an attempt that ends at once never lets the timeout be polled.
            if timeout_at(deadline, done.changed()).await.is_err() || now() >= deadline {
                let message = format!("timed out while connecting to {}", self.source.peer);
                return Err(Fault::NotSent(StoreError::new(ErrorKind::Timeout, message)));
            }
            waited = true;
        }
    }

    fn aborted(&self) -> Fault {
        let message = format!("the runtime that was connecting to {} has ended", self.source.peer);
        Fault::NotSent(StoreError::new(ErrorKind::Unavailable, message))
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
            let source = Arc::clone(&shared.source);
            let disconnects = source.disconnects.load(Ordering::Relaxed);
            let connection = match source.pool.get().await {
                Ok(connection) => connection,
                Err(problem) => {
                    source.counters.failed_connects.increment();
                    shared.set(ConnectionState::Down {
                        until: in_future(source.backoff.after(failures)),
                        failures: failures.saturating_add(1),
                        error: source.connect_error(problem),
                    });
                    return drop(sender);
                }
            };
            let eviction = source.check_eviction((*connection).clone());
            let (runtime, replaced) = oneshot::channel();
            let number = shared.next_number.fetch_add(1, Ordering::Relaxed);
            let id = ConnectionId { number, replies: Arc::default() };
            shared.set(ConnectionState::Live(Live { pooled: connection, id, disconnects, runtime }));
            drop(sender);
            // From now on, the task has no purpose but to end with the runtime, or with the connection.
            drop((shared, source));
            if let Either::Left(((), replaced)) = future::select(eviction, replaced).await {
                let _ = replaced.await;
            }
        });
        receiver
    }

    fn set(&self, state: ConnectionState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
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

impl ConnectionSource {
    /// Checks whether the server may evict keys. The command is sent at once, before any call of the connection, and
    /// the returned future waits for its reply.
    fn check_eviction(
        self: &Arc<Self>,
        connection: MultiplexedConnection,
    ) -> Pin<Box<impl Future<Output = ()> + use<>>> {
        let source = Arc::clone(self);
        let check = async move {
            if let Some(eviction) = &source.eviction {
                eviction.run(connection, in_future(source.connect_timeout)).await;
            }
        };
        let mut check = Box::pin(check.fuse());
        let _ = check.as_mut().now_or_never();
        check
    }

    fn connect_error(&self, problem: PoolError) -> StoreError {
        match problem {
            PoolError::Backend(error) => error::not_connected(error, &self.peer),
            PoolError::Timeout(_) => error::connect_timed_out(&self.peer),
            other => {
                StoreError::new(ErrorKind::Unavailable, format!("cannot connect to {}: {other}", self.peer))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_doubles_up_to_the_longest_and_varies() {
        let backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(2) };
        for (failures, full) in [(0, 50), (1, 100), (5, 1_600), (6, 2_000), (u32::MAX, 2_000)] {
            let full = Duration::from_millis(full);
            let waits: Vec<_> = (0..100).map(|_| backoff.after(failures)).collect();
            assert!(waits.iter().all(|wait| (full / 2..=full).contains(wait)), "{failures}: {waits:?}");
            assert!(
                waits.iter().any(|wait| *wait != waits[0]),
                "{failures}: clients would reconnect together"
            );
        }
        let longest = Backoff { first: Duration::MAX, longest: Duration::MAX };
        assert!((0..100).all(|failures| longest.after(failures) >= Duration::MAX / 2));
        let none = Backoff { first: Duration::ZERO, longest: Duration::ZERO };
        assert_eq!(none.after(3), Duration::ZERO);
    }
}
