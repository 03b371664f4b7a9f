//! The primary: the server that accepts writes, if there are several.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Value, from_redis_value};
use tokio::time::Instant;
use tollgate_core::{ErrorKind, StoreError};

use super::discovery::{Discovery, Pending, QueryError, first_success};
use crate::error::{self, Address, Fault};
use crate::server::{Connector, Server};
use crate::url::Access;

/// The server that accepts writes.
#[derive(Debug)]
pub(crate) enum Primary {
    /// The only server.
    Fixed(Arc<Server>),
    /// One of several, found by queries.
    Discovered(Discovered),
}

/// A primary that is discovered, and discovered again when it may have changed.
#[derive(Debug)]
pub(crate) struct Discovered {
    search: Arc<Search>,
    discovery: Discovery,
}

#[derive(Debug)]
struct Search {
    source: PrimarySource,
    connector: Connector,
    /// The last primary that was found, until another one is.
    current: Mutex<Option<Arc<Server>>>,
}

/// What to query.
#[derive(Debug)]
enum PrimarySource {
    /// The servers themselves.
    Candidates(Vec<Arc<Server>>),
    /// Sentinels that monitor the servers.
    Sentinels(Box<Monitored>),
}

/// A primary that sentinels monitor under a name.
#[derive(Debug)]
struct Monitored {
    sentinels: Vec<Arc<Server>>,
    name: String,
    access: Access,
    /// The servers that sentinels have named since the last one was found. Kept, so that each has its backoff.
    named: Mutex<HashMap<Address, Arc<Server>>>,
}

impl Primary {
    pub(crate) fn one_of(mut servers: Vec<Arc<Server>>, connector: Connector) -> Self {
        match servers.pop() {
            Some(only) if servers.is_empty() => Self::Fixed(only),
            last => {
                servers.extend(last);
                Self::discovered(PrimarySource::Candidates(servers), connector)
            }
        }
    }

    pub(crate) fn monitored(
        sentinels: Vec<Arc<Server>>,
        name: String,
        access: Access,
        connector: Connector,
    ) -> Self {
        let monitored = Monitored { sentinels, name, access, named: Mutex::default() };
        Self::discovered(PrimarySource::Sentinels(Box::new(monitored)), connector)
    }

    fn discovered(source: PrimarySource, connector: Connector) -> Self {
        let search = Search { source, connector, current: Mutex::default() };
        Self::Discovered(Discovered { search: Arc::new(search), discovery: Discovery::default() })
    }

    /// Returns the server to send writes to.
    pub(crate) async fn server(&self, deadline: Instant) -> Result<Arc<Server>, Fault> {
        match self {
            Self::Fixed(server) => Ok(Arc::clone(server)),
            Self::Discovered(discovered) => discovered.server(deadline).await,
        }
    }

    /// Starts a discovery. Calls use the current primary meanwhile.
    pub(crate) fn discover(&self) -> Option<Pending> {
        match self {
            Self::Fixed(_) => None,
            Self::Discovered(discovered) => Some(discovered.discover()),
        }
    }
}

impl Discovered {
    async fn server(&self, deadline: Instant) -> Result<Arc<Server>, Fault> {
        if let Some(server) = self.search.current() {
            return Ok(server);
        }
        self.discover().wait(deadline).await?;
        let missing =
            || Fault::NotSent(StoreError::new(ErrorKind::Internal, "the discovered primary is missing"));
        self.search.current().ok_or_else(missing)
    }

    fn discover(&self) -> Pending {
        let search = Arc::clone(&self.search);
        self.discovery.start(|| async move { search.find().await })
    }
}

impl Search {
    fn current(&self) -> Option<Arc<Server>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn find(&self) -> Result<(), StoreError> {
        let found = match &self.source {
            PrimarySource::Candidates(servers) => {
                let queries = servers.iter().cloned().map(|server| self.check_role(server));
                first_success(queries, "no server of the shard accepts writes").await?
            }
            PrimarySource::Sentinels(monitored) => {
                let queries =
                    monitored.sentinels.iter().cloned().map(|sentinel| self.query(monitored, sentinel));
                let found = first_success(queries, "no sentinel returned the primary").await?;
                let mut named = monitored.named.lock().unwrap_or_else(PoisonError::into_inner);
                named.retain(|_, server| Arc::ptr_eq(server, &found));
                found
            }
        };
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|before| before.name() != found.name()) {
            self.connector.counters().failovers.increment();
        }
        *current = Some(found);
        Ok(())
    }

    /// Returns the server if it reports to be a primary.
    async fn check_role(&self, server: Arc<Server>) -> Result<Arc<Server>, QueryError> {
        let mut command = Cmd::new();
        command.arg("ROLE");
        let role = match server.query(&command, self.connector.query_deadline()).await? {
            Value::Array(parts) => {
                parts.into_iter().next().and_then(|role| from_redis_value::<String>(role).ok())
            }
            _ => None,
        };
        match role.as_deref() {
            Some("master") => Ok(server),
            Some(role) => {
                let message = format!("redis at {} is a {role} and does not accept writes", server.name());
                Err(QueryError::reply(StoreError::new(ErrorKind::Unavailable, message)))
            }
            None => Err(QueryError::reply(error::unexpected_reply(server.name()))),
        }
    }

    /// Returns the primary that a sentinel names. Checks the server's own role as well, because a sentinel that is
    /// partitioned from the others may name a former primary.
    async fn query(&self, monitored: &Monitored, sentinel: Arc<Server>) -> Result<Arc<Server>, QueryError> {
        let name = &monitored.name;
        let mut command = Cmd::new();
        command.arg("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let reply = sentinel.query(&command, self.connector.query_deadline()).await?;
        if reply == Value::Nil {
            let message = format!("the sentinel at {} does not know `{name}`", sentinel.name());
            return Err(QueryError::reply(StoreError::new(ErrorKind::Refused, message)));
        }
        let Ok((host, port)) = from_redis_value::<(String, u16)>(reply) else {
            return Err(QueryError::reply(error::unexpected_reply(sentinel.name())));
        };
        let address = Address { host, port };
        let server = monitored.server(address, &self.connector).map_err(QueryError::reply)?;
        self.check_role(server).await.map_err(|error| QueryError { answered: true, ..error })
    }
}

impl Monitored {
    fn server(&self, address: Address, connector: &Connector) -> Result<Arc<Server>, StoreError> {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = named.get(&address) {
            return Ok(Arc::clone(server));
        }
        let server = Arc::new(Server::new(self.access.to(&address), connector)?);
        named.insert(address, Arc::clone(&server));
        Ok(server)
    }
}
