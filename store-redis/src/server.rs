//! One server: a few shared connections, and the commands sent over them.
//!
//! Connections multiplex calls, so a thousand callers need no more connections than one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_redis::{Hook, Manager, Pool, Runtime, Timeouts};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, Pipeline, PushInfo, PushKind, Value,
};
use tokio::time::{Instant, timeout_at};
use tollgate_core::{ErrorKind, StoreError};

use crate::connection::{Backoff, ConnectionSource, SharedConnection};
use crate::error::{self, Fault, Peer, Role};
use crate::eviction::{Contents, EvictionCheck, Reports};
use crate::script_call::ScriptCall;
use crate::stats::{Counter, Counters};

/// How connections are opened.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionOptions {
    pub(crate) per_server: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) backoff: Backoff,
}

/// What every server of a store is created with.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    options: ConnectionOptions,
    contents: Contents,
    reports: Arc<Reports>,
    counters: Arc<Counters>,
}

impl Connector {
    pub(crate) fn new(options: ConnectionOptions, contents: Contents) -> Self {
        Self { options, contents, reports: Arc::default(), counters: Arc::default() }
    }

    pub(crate) fn reports(&self) -> &Arc<Reports> {
        &self.reports
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Returns the deadline of a command that finds the servers.
    pub(crate) fn query_deadline(&self) -> Instant {
        in_future(self.options.connect_timeout)
    }
}

/// What is sent together, so that no other command comes in between.
#[derive(Clone, Copy)]
enum Packet<'a> {
    /// A command, after `ASKING` if `asking`.
    Command {
        command: &'a Cmd,
        asking: bool,
    },
    Pipeline(&'a Pipeline),
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    /// The address, for error messages. Contains no credentials.
    name: String,
    /// The host. Empty for a Unix socket.
    host: String,
    connections: Vec<Arc<SharedConnection>>,
    next: AtomicUsize,
    counters: Arc<Counters>,
}

impl Server {
    /// Creates a server that holds state.
    pub(crate) fn new(info: ConnectionInfo, connector: &Connector) -> Result<Self, StoreError> {
        Self::with_role(info, Role::Redis, connector)
    }

    /// Creates a sentinel.
    pub(crate) fn sentinel(info: ConnectionInfo, connector: &Connector) -> Result<Self, StoreError> {
        Self::with_role(info, Role::Sentinel, connector)
    }

    fn with_role(info: ConnectionInfo, role: Role, connector: &Connector) -> Result<Self, StoreError> {
        let Connector { options, contents, reports, counters } = connector;
        let name = info.addr().to_string();
        let (host, tls) = match info.addr() {
            ConnectionAddr::Tcp(host, _) => (host.clone(), false),
            ConnectionAddr::TcpTls { host, .. } => (host.clone(), true),
            _ => (String::new(), false),
        };
        let peer = Peer { name: name.clone(), role, tls };
        let disconnects = Arc::new(AtomicU64::new(0));
        let disconnected = Arc::clone(&disconnects);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(options.connect_timeout))
            // Each call has its own deadline.
            .set_response_timeout(None)
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    disconnected.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<(), redis::aio::SendError>(())
            });
        let refused = |problem: String| {
            StoreError::new(ErrorKind::Refused, format!("cannot connect to redis at {name}: {problem}"))
        };
        let manager = Manager::new_with_config(info, config).map_err(|error| refused(error.to_string()))?;
        let opened = Arc::clone(counters);
        let pool = Pool::builder(manager)
            .max_size(options.per_server)
            .runtime(Runtime::Tokio1)
            .timeouts(Timeouts {
                wait: Some(options.connect_timeout),
                create: Some(options.connect_timeout),
                recycle: Some(options.connect_timeout),
            })
            .post_create(Hook::sync_fn(move |_, _| {
                opened.connections_opened.increment();
                Ok(())
            }))
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let eviction = match role {
            Role::Redis => {
                Some(EvictionCheck::new(name.clone(), *contents, Arc::clone(counters), Arc::clone(reports)))
            }
            Role::Sentinel => None,
        };
        let source = Arc::new(ConnectionSource {
            peer,
            pool,
            disconnects,
            backoff: options.backoff,
            connect_timeout: options.connect_timeout,
            eviction,
            counters: Arc::clone(counters),
        });
        let connection = || Arc::new(SharedConnection::new(Arc::clone(&source)));
        let connections = std::iter::repeat_with(connection).take(options.per_server).collect();
        Ok(Self { name, host, connections, next: AtomicUsize::new(0), counters: Arc::clone(counters) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Opens a connection if there is none.
    pub(crate) async fn connect(&self, deadline: Instant) -> Result<(), Fault> {
        self.connection().get(deadline).await.map(drop)
    }

    /// Runs a script. Sends its text if the server does not have it cached.
    pub(crate) async fn run(
        &self,
        call: &ScriptCall,
        asking: bool,
        deadline: Instant,
    ) -> Result<Value, Fault> {
        let counters = &self.counters;
        let packet = Packet::Command { command: &call.evalsha(), asking };
        match self.send(packet, deadline, &counters.calls).await {
            Err(Fault::Refused(error::Refusal::NoScript)) => {
                let packet = Packet::Command { command: &call.eval(), asking };
                self.send(packet, deadline, &counters.script_loads).await
            }
            reply => reply,
        }
    }

    /// Sends a command that finds the servers.
    pub(crate) async fn query(&self, command: &Cmd, deadline: Instant) -> Result<Value, Fault> {
        self.send(Packet::Command { command, asking: false }, deadline, &self.counters.topology_queries).await
    }

    /// Deletes keys by these commands, which are sent together.
    pub(crate) async fn delete(&self, commands: &Pipeline, deadline: Instant) -> Result<(), Fault> {
        self.send(Packet::Pipeline(commands), deadline, &self.counters.deletions).await.map(drop)
    }

    /// Sends a packet and waits for the reply until `deadline`. Increments `sent` once it is sent.
    async fn send(&self, packet: Packet<'_>, deadline: Instant, sent: &Counter) -> Result<Value, Fault> {
        let shared = self.connection();
        let (mut connection, id) = shared.get(deadline).await?;
        if now() >= deadline {
            let message = format!("no time left to call redis at {}", self.name);
            return Err(Fault::NotSent(StoreError::new(ErrorKind::Timeout, message)));
        }
        let in_flight = shared.start(id);
        sent.increment();
        let reply = async {
            // The replies to a pipeline as values: its error would not contain the address of a redirect.
            match packet {
                Packet::Command { command, asking: false } => connection.send_packed_command(command).await,
                Packet::Command { command, asking: true } => {
                    let mut both = Pipeline::with_capacity(2);
                    both.cmd("ASKING").add_command(command.clone());
                    let mut replies = connection.send_packed_commands(&both, 0, 2).await?;
                    Ok(replies.pop().unwrap_or(Value::Nil))
                }
                Packet::Pipeline(commands) => {
                    connection.send_packed_commands(commands, 0, commands.len()).await.map(Value::Array)
                }
            }
        };
        let reply = match timeout_at(deadline, reply).await {
            Ok(Ok(value)) => value.extract_error(),
            Ok(Err(error)) => Err(error),
            Err(_) => {
                in_flight.lost();
                return Err(Fault::Lost(self.timed_out()));
            }
        };
        let reply = reply.map_err(|error| error::after_sending(error, &self.name, &self.host));
        match &reply {
            Err(Fault::Lost(_)) => in_flight.lost(),
            Err(Fault::Refused(error::Refusal::ReadOnly(_))) => in_flight.answered_by_replica(),
            Ok(_) | Err(Fault::NotSent(_) | Fault::Refused(_)) => in_flight.answered(),
        }
        reply
    }

    fn timed_out(&self) -> StoreError {
        StoreError::new(ErrorKind::Timeout, format!("redis at {} did not answer in time", self.name))
    }

    /// Returns the next connection, round robin.
    fn connection(&self) -> &Arc<SharedConnection> {
        match &self.connections[..] {
            [only] => only,
            all => &all[self.next.fetch_add(1, Ordering::Relaxed) % all.len()],
        }
    }
}

/// Returns the current instant for deadlines and backoff, which are unrelated to the clock that decides.
#[expect(clippy::disallowed_methods, reason = "deadlines of calls are real time, whichever clock decides")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the instant after a span of any length, without overflow.
pub(crate) fn in_future(span: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);
    now() + span.min(LONGEST)
}
