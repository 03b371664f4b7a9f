//! The one server of several that takes writes.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Value, from_redis_value};
use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use crate::config::Connections;
use crate::error::{Address, Fault};
use crate::server::Server;
use crate::url::Access;

/// A server that takes writes, whichever that is at the moment.
#[derive(Debug)]
pub(crate) struct Primary {
    source: Source,
    current: Mutex<Option<Arc<Server>>>,
}

/// Who knows which one it is.
#[derive(Debug)]
enum Source {
    /// There is only one.
    Fixed(Arc<Server>),
    /// They do, themselves.
    Candidates(Vec<Arc<Server>>),
    /// Sentinels that watch them.
    Sentinels(Box<Watched>),
}

/// Servers that sentinels watch, under a name.
#[derive(Debug)]
struct Watched {
    sentinels: Vec<Arc<Server>>,
    name: String,
    access: Access,
    connections: Connections,
}

impl Primary {
    pub(crate) fn fixed(server: Arc<Server>) -> Self {
        Self { source: Source::Fixed(server), current: Mutex::default() }
    }

    pub(crate) fn one_of(mut servers: Vec<Arc<Server>>) -> Self {
        let source = match servers.pop() {
            Some(only) if servers.is_empty() => Source::Fixed(only),
            last => {
                servers.extend(last);
                Source::Candidates(servers)
            }
        };
        Self { source, current: Mutex::default() }
    }

    pub(crate) fn watched(
        sentinels: Vec<Arc<Server>>,
        name: String,
        access: Access,
        connections: Connections,
    ) -> Self {
        let watched = Watched { sentinels, name, access, connections };
        Self { source: Source::Sentinels(Box::new(watched)), current: Mutex::default() }
    }

    /// The server to send writes to.
    pub(crate) async fn server(&self, deadline: Instant) -> Result<Arc<Server>, Fault> {
        if let Source::Fixed(server) = &self.source {
            return Ok(Arc::clone(server));
        }
        if let Some(server) = &*self.current() {
            return Ok(Arc::clone(server));
        }
        let found = match &self.source {
            Source::Fixed(server) => Arc::clone(server),
            Source::Candidates(servers) => first_that_writes(servers, deadline).await?,
            Source::Sentinels(watched) => {
                let address = ask_sentinels(&watched.sentinels, &watched.name, deadline).await?;
                let info = watched.access.to(&address);
                Arc::new(Server::new(info, &watched.connections).map_err(Fault::NotSent)?)
            }
        };
        // Whoever was first has connections already.
        Ok(Arc::clone(self.current().get_or_insert(found)))
    }

    /// There is no other server that it could be.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.source, Source::Fixed(_))
    }

    /// It may no longer be the one: the next caller finds out.
    pub(crate) fn distrust(&self, server: &Arc<Server>) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, server)) {
            *current = None;
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<Arc<Server>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn first_that_writes(servers: &[Arc<Server>], deadline: Instant) -> Result<Arc<Server>, Fault> {
    let mut problem = None;
    for server in servers {
        match role(server, deadline).await {
            Ok(role) if role == "master" => return Ok(Arc::clone(server)),
            Ok(role) => {
                let message = format!("redis at {} is a {role} and takes no writes", server.name());
                problem.get_or_insert(StoreError::new(ErrorKind::Unavailable, message));
            }
            Err(fault) => problem = Some(fault.into_error()),
        }
    }
    Err(Fault::NotSent(nobody(problem, "no server of the shard takes writes")))
}

async fn role(server: &Server, deadline: Instant) -> Result<String, Fault> {
    let mut ask = Cmd::new();
    ask.arg("ROLE");
    match server.send(&ask, false, deadline).await? {
        Value::Array(parts) => match parts.into_iter().next().map(from_redis_value::<String>) {
            Some(Ok(role)) => Ok(role),
            _ => Err(Fault::NotSent(crate::error::not_understood(server.name()))),
        },
        _ => Err(Fault::NotSent(crate::error::not_understood(server.name()))),
    }
}

/// The first sentinel that knows decides.
async fn ask_sentinels(sentinels: &[Arc<Server>], name: &str, deadline: Instant) -> Result<Address, Fault> {
    let mut ask = Cmd::new();
    ask.arg("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let mut problem = None;
    for sentinel in sentinels {
        match sentinel.send(&ask, false, deadline).await {
            Ok(Value::Nil) => {
                let message = format!("the sentinel at {} does not know `{name}`", sentinel.name());
                problem.get_or_insert(StoreError::new(ErrorKind::Refused, message));
            }
            Ok(value) => match from_redis_value::<(String, u16)>(value) {
                Ok((host, port)) => return Ok(Address { host, port }),
                Err(_) => problem = Some(crate::error::not_understood(sentinel.name())),
            },
            Err(fault) => problem = Some(fault.into_error()),
        }
    }
    Err(Fault::NotSent(nobody(problem, "no sentinel says who the primary is")))
}

/// Nothing was sent to a server that decides, whatever happened to those that were asked for the way.
fn nobody(problem: Option<StoreError>, what: &str) -> StoreError {
    match problem {
        Some(problem) => {
            let kind = match problem.kind() {
                ErrorKind::Internal => ErrorKind::Unavailable,
                kind => kind,
            };
            StoreError::new(kind, format!("{what}: {problem}")).caused_by(problem)
        }
        None => StoreError::new(ErrorKind::Unavailable, what.to_owned()),
    }
}
