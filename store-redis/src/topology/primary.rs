//! The one server of several that takes writes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Value, from_redis_value};
use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use super::inquiry::{Inquiry, Pending, Problem, first_answer};
use crate::config::Connections;
use crate::error::{self, Address, Fault};
use crate::server::{Server, now};
use crate::url::Access;

/// A server that takes writes, whichever that is at the moment.
#[derive(Debug)]
pub(crate) enum Primary {
    /// There is only one.
    Fixed(Arc<Server>),
    /// Others know.
    Sought(Sought),
}

/// One that has to be found first, and again whenever it may have changed.
#[derive(Debug)]
pub(crate) struct Sought {
    search: Arc<Search>,
    inquiry: Inquiry,
}

#[derive(Debug)]
struct Search {
    source: Source,
    connections: Connections,
    /// The last that was found; kept as long as nobody names another.
    current: Mutex<Option<Arc<Server>>>,
}

/// Who knows which one it is.
#[derive(Debug)]
enum Source {
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
    /// Those that were named since the last that was found, so that each is left alone for a while if it is down.
    named: Mutex<HashMap<Address, Arc<Server>>>,
}

impl Primary {
    pub(crate) fn one_of(mut servers: Vec<Arc<Server>>, connections: Connections) -> Self {
        match servers.pop() {
            Some(only) if servers.is_empty() => Self::Fixed(only),
            last => {
                servers.extend(last);
                Self::sought(Source::Candidates(servers), connections)
            }
        }
    }

    pub(crate) fn watched(
        sentinels: Vec<Arc<Server>>,
        name: String,
        access: Access,
        connections: Connections,
    ) -> Self {
        let watched = Watched { sentinels, name, access, named: Mutex::default() };
        Self::sought(Source::Sentinels(Box::new(watched)), connections)
    }

    fn sought(source: Source, connections: Connections) -> Self {
        let search = Search { source, connections, current: Mutex::default() };
        Self::Sought(Sought { search: Arc::new(search), inquiry: Inquiry::default() })
    }

    /// The server to send writes to.
    pub(crate) async fn server(&self, deadline: Instant) -> Result<Arc<Server>, Fault> {
        match self {
            Self::Fixed(server) => Ok(Arc::clone(server)),
            Self::Sought(sought) => sought.server(deadline).await,
        }
    }

    /// It may be another by now: finds out, while calls go on with the one that is known.
    pub(crate) fn seek(&self) -> Option<Pending> {
        match self {
            Self::Fixed(_) => None,
            Self::Sought(sought) => Some(sought.seek()),
        }
    }
}

impl Sought {
    async fn server(&self, deadline: Instant) -> Result<Arc<Server>, Fault> {
        if let Some(server) = self.search.current() {
            return Ok(server);
        }
        self.seek().wait(deadline).await?;
        let lost = || Fault::NotSent(StoreError::new(ErrorKind::Internal, "a primary was found and lost"));
        self.search.current().ok_or_else(lost)
    }

    fn seek(&self) -> Pending {
        let search = Arc::clone(&self.search);
        self.inquiry.begin(|| async move { search.find().await })
    }
}

impl Search {
    fn current(&self) -> Option<Arc<Server>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn find(&self) -> Result<(), StoreError> {
        let found = match &self.source {
            Source::Candidates(servers) => {
                let asks = servers.iter().cloned().map(|server| self.writes(server));
                first_answer(asks, "no server of the shard takes writes").await?
            }
            Source::Sentinels(watched) => {
                let asks = watched.sentinels.iter().cloned().map(|sentinel| self.named_by(watched, sentinel));
                let found = first_answer(asks, "no sentinel says who the primary is").await?;
                let mut named = watched.named.lock().unwrap_or_else(PoisonError::into_inner);
                named.retain(|_, server| Arc::ptr_eq(server, &found));
                found
            }
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(())
    }

    /// How long one that is asked has time.
    fn deadline(&self) -> Instant {
        now() + self.connections.connect_timeout
    }

    /// The server, if it says that it takes writes.
    async fn writes(&self, server: Arc<Server>) -> Result<Arc<Server>, Problem> {
        let mut ask = Cmd::new();
        ask.arg("ROLE");
        let role = match server.send(&ask, false, self.deadline()).await? {
            Value::Array(parts) => {
                parts.into_iter().next().and_then(|role| from_redis_value::<String>(role).ok())
            }
            _ => None,
        };
        match role.as_deref() {
            Some("master") => Ok(server),
            Some(role) => {
                let message = format!("redis at {} is a {role} and takes no writes", server.name());
                Err(Problem::answer(StoreError::new(ErrorKind::Unavailable, message)))
            }
            None => Err(Problem::answer(error::not_understood(server.name()))),
        }
    }

    /// The server that a sentinel names. It must say so itself, too: a sentinel that is cut off from the others may
    /// name one that was.
    async fn named_by(&self, watched: &Watched, sentinel: Arc<Server>) -> Result<Arc<Server>, Problem> {
        let name = &watched.name;
        let mut ask = Cmd::new();
        ask.arg("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let answer = sentinel.send(&ask, false, self.deadline()).await?;
        if answer == Value::Nil {
            let message = format!("the sentinel at {} does not know `{name}`", sentinel.name());
            return Err(Problem::answer(StoreError::new(ErrorKind::Refused, message)));
        }
        let Ok((host, port)) = from_redis_value::<(String, u16)>(answer) else {
            return Err(Problem::answer(error::not_understood(sentinel.name())));
        };
        let address = Address { host, port };
        let server = watched.server(address, &self.connections).map_err(Problem::answer)?;
        self.writes(server).await.map_err(|problem| Problem { answered: true, ..problem })
    }
}

impl Watched {
    fn server(&self, address: Address, connections: &Connections) -> Result<Arc<Server>, StoreError> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = named.get(&address) {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(Server::new(self.access.to(&address), connections)?);
        named.insert(address, Arc::clone(&server));
        Ok(server)
    }
}
