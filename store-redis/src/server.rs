//! One server: a few connections that all callers share, and scripts called over them.
//!
//! A connection carries any number of calls at once, so a thousand callers need no more of them than one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_redis::{Manager, Pool, Runtime, Timeouts};
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, PushInfo, PushKind, Value};
use tokio::time::{Instant, timeout_at};
use tollgate_core::{ErrorKind, StoreError};

use crate::call::Call;
use crate::config::Connections;
use crate::error::{self, Fault};
use crate::lane::Lane;

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
                let (pool, disconnects) = (pool.clone(), Arc::clone(&disconnects));
                Arc::new(Lane::new(name.clone(), other_wire, pool, disconnects, connections.backoff))
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
        let (mut connection, mark) = lane.connection(deadline).await?;
        if now() >= deadline {
            let message = format!("redis at {} was not asked: no time was left", self.name);
            return Err(Fault::NotSent(StoreError::new(ErrorKind::Timeout, message)));
        }
        let sending = lane.sending(mark);
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
                sending.lost();
                return Err(Fault::Lost(self.too_late()));
            }
        };
        let answer = answer.map_err(|error| error::after_sending(error, &self.name));
        match &answer {
            Err(Fault::Lost(_)) => sending.lost(),
            Err(Fault::Refused(error::Refusal::ReadOnly(_))) => sending.answered_by_a_replica(),
            _ => sending.answered(),
        }
        answer
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
