//! One server: a few connections that all callers share, and scripts called over them.
//!
//! A connection carries any number of calls at once, so a thousand callers need no more of them than one. The
//! connections are kept checked out of a deadpool pool, and calls are sent over clones of their handles: to check one
//! out per call would cost a round trip and exclude everybody else. The pool opens and checks them.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_redis::{Connection, Manager, Pool, PoolError, Runtime, Timeouts};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, PushInfo, PushKind, Value};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tollgate_core::{ErrorKind, StoreError};

use crate::call::Call;
use crate::config::Connections;
use crate::error::{self, Fault};

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    /// How errors call it: no credentials.
    name: String,
    lanes: Vec<Arc<Lane>>,
    next: AtomicUsize,
}

impl Server {
    pub(crate) fn new(info: ConnectionInfo, connections: &Connections) -> Result<Self, StoreError> {
        let name = info.addr().to_string();
        let other_wire = match info.addr() {
            ConnectionAddr::TcpTls { .. } => "it does not speak TLS, use redis:// instead of rediss://",
            _ => "it speaks TLS, use rediss:// instead of redis://",
        };
        let disconnects = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&disconnects);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(connections.connect_timeout))
            // Each call has its own deadline.
            .set_response_timeout(None)
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<(), redis::aio::SendError>(())
            });
        let refused = |problem: String| {
            StoreError::new(ErrorKind::Refused, format!("redis at {name} cannot be connected to: {problem}"))
        };
        let manager = Manager::new_with_config(info, config).map_err(|error| refused(error.to_string()))?;
        let pool = Pool::builder(manager)
            .max_size(connections.size.max(1))
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(connections.connect_timeout),
                create: Some(connections.connect_timeout),
                recycle: Some(connections.connect_timeout),
            })
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let lanes = (0..connections.size.max(1))
            .map(|_| {
                Arc::new(Lane {
                    server: name.clone(),
                    other_wire,
                    pool: pool.clone(),
                    disconnects: Arc::clone(&disconnects),
                    backoff: connections.backoff,
                    made: AtomicU64::new(0),
                    state: Mutex::new(State::Empty),
                })
            })
            .collect();
        Ok(Self { name, lanes, next: AtomicUsize::new(0) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Connects, if nobody has yet.
    pub(crate) async fn connect(&self, deadline: Instant) -> Result<(), Fault> {
        self.lane().connection(deadline).await.map(drop)
    }

    /// Runs a script. The server learns its text when it does not know it yet.
    pub(crate) async fn run(&self, call: &Call, asking: bool, deadline: Instant) -> Result<Value, Fault> {
        match self.send(&call.by_name(), asking, deadline).await {
            Err(Fault::Refused(error::Refusal::NoScript)) => {
                self.send(&call.by_text(), asking, deadline).await
            }
            answer => answer,
        }
    }

    /// Sends a command and waits for its answer, but not longer than until `deadline`.
    pub(crate) async fn send(&self, command: &Cmd, asking: bool, deadline: Instant) -> Result<Value, Fault> {
        let lane = self.lane();
        let (mut connection, number) = lane.connection(deadline).await?;
        if now() >= deadline {
            let message = format!("redis at {} was not asked: no time was left", self.name);
            return Err(Fault::NotSent(StoreError::new(ErrorKind::Timeout, message)));
        }
        let answer = async {
            if !asking {
                return connection.send_packed_command(command).await;
            }
            // In one piece, so that nobody else's command comes in between.
            let mut both = redis::Pipeline::with_capacity(2);
            both.cmd("ASKING").add_command(command.clone());
            // As values: an error of the whole would not say where it redirects to.
            let mut answers = connection.send_packed_commands(&both, 0, 2).await?;
            Ok(answers.pop().unwrap_or(Value::Nil))
        };
        let answer = match timeout_at(deadline, answer).await {
            Ok(Ok(value)) => value.extract_error(),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                lane.suspect(number);
                return Err(Fault::Lost(self.too_late()));
            }
        };
        answer.map_err(|error| {
            let fault = error::after_sending(error, &self.name);
            match fault {
                Fault::Lost(_) => lane.suspect(number),
                Fault::Refused(error::Refusal::ReadOnly(_)) => lane.leave(number),
                _ => {}
            }
            fault
        })
    }

    fn too_late(&self) -> StoreError {
        StoreError::new(ErrorKind::Timeout, format!("redis at {} did not answer in time", self.name))
    }

    fn lane(&self) -> &Arc<Lane> {
        match &self.lanes[..] {
            [only] => only,
            lanes => &lanes[self.next.fetch_add(1, Ordering::Relaxed) % lanes.len()],
        }
    }
}

/// One connection, whoever it is to at the moment.
#[derive(Debug)]
struct Lane {
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
    /// Tells it from the one before.
    number: u64,
    /// How many connections had ended when this one was last known to be fine. If more have by now, it may be among
    /// them: the pool finds out.
    seen: u64,
}

impl Lane {
    /// The connection, made if there is none.
    async fn connection(self: &Arc<Self>, deadline: Instant) -> Result<(MultiplexedConnection, u64), Fault> {
        // Whoever has waited for an attempt is told how it went, and does not start the next one.
        let mut waited = false;
        loop {
            let mut done = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                match &*state {
                    State::Live(live) if live.seen == self.disconnects.load(Ordering::Relaxed) => {
                        return Ok(((*live.pooled).clone(), live.number));
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
                    State::Live(Live { pooled, number: lane.made.fetch_add(1, Ordering::Relaxed), seen })
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
        if !matches!(&*state, State::Live(live) if live.number == number) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Empty) {
            State::Live(live) => Some(live),
            _ => None,
        }
    }
}

/// The instant for deadlines and back-off, which are about this process and not about limits.
#[expect(clippy::disallowed_methods, reason = "deadlines of calls are real time, whatever clock decides")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The instant after a span, however long somebody has made that.
pub(crate) fn in_future(span: Duration) -> Instant {
    const LONG: Duration = Duration::from_secs(30 * 365 * 86_400);
    now() + span.min(LONG)
}
