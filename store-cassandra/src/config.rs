//! What users say about a cluster.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session_builder::SessionBuilder;
use scylla::statement::{Consistency, SerialConsistency};
use tollgate_core::StoreError;

use crate::link::{self, Link};
use crate::schema::{Replication, Table};
use crate::store::CassandraStore;
use crate::url::Target;

/// A cluster, and how it is used.
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate_store_cassandra::{Config, Replication};
///
/// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::new("cassandra://db1,db2/limits").call_timeout(Duration::from_millis(500));
/// // Once, when you deploy:
/// config.create_schema(&Replication::in_datacenters([("dc1", 3)])).await?;
/// // In every process:
/// let store = config.connect().await?;
/// # Ok(())
/// # }
/// ```
///
/// # URLs
///
/// `cassandra://host,host:port/keyspace`, with a login as `user:password@` before the hosts. The hosts are where to begin; the
/// others are found through them. `?datacenter=dc1` is the same as [`local_datacenter`](Self::local_datacenter), and
/// `?table=name` as [`table`](Self::table).
#[derive(Clone)]
#[must_use = "a configuration does nothing until it connects"]
pub struct Config {
    url: String,
    table: Option<String>,
    datacenter: Option<String>,
    settings: Settings,
    must_be_there: bool,
}

/// What counts after connecting.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) consistency: Consistency,
    pub(crate) serial: SerialConsistency,
    pub(crate) connect_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) margin: Duration,
    pub(crate) cache_bytes: u64,
    pub(crate) customize: Arc<dyn Fn(SessionBuilder) -> SessionBuilder + Send + Sync>,
}

impl Settings {
    /// What must be left of a call's time for it to be worth sending something.
    pub(crate) fn reserve(&self) -> Duration {
        (self.call_timeout / 8).min(Duration::from_secs(1))
    }

    /// What became of a transaction must still show when somebody looks for it.
    pub(crate) fn margin(&self) -> Duration {
        self.margin.max(self.call_timeout.saturating_mul(2))
    }
}

impl Config {
    /// The cluster at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            table: None,
            datacenter: None,
            settings: Settings {
                consistency: Consistency::LocalQuorum,
                serial: SerialConsistency::LocalSerial,
                connect_timeout: Duration::from_secs(1),
                call_timeout: Duration::from_secs(2),
                margin: Duration::from_secs(60),
                cache_bytes: 64 << 20,
                customize: Arc::new(|builder| builder),
            },
            must_be_there: false,
        }
    }

    /// The name of the table; `limits` unless said. Programs with the same keyspace and table share their limits.
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = Some(name.into());
        self
    }

    /// The datacenter whose nodes are asked, and whose replicas agree among themselves. Without one, all nodes are asked
    /// alike: fine for a cluster in one datacenter.
    pub fn local_datacenter(mut self, name: impl Into<String>) -> Self {
        self.datacenter = Some(name.into());
        self
    }

    /// Which replicas must have stored a transaction (`LOCAL_QUORUM` unless said), and which must agree on it
    /// (`LOCAL_SERIAL` unless said: those of the local datacenter). A keyspace that is replicated in several datacenters needs
    /// `SERIAL`, at the price of a trip between them per check. All programs that share a table must say the same.
    pub fn consistency(mut self, stored: Consistency, agreed: SerialConsistency) -> Self {
        self.settings.consistency = stored;
        self.settings.serial = agreed;
        self
    }

    /// The longest time a connection may take to be made; a second unless said.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// The longest time a call may take, whatever happens on the way; 2 seconds unless said, and twice that for a request
    /// over several entities, which may have to give back. A node that has not answered
    /// within half of it is given up, so that there is time to find out what became of the call, and to ask another.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.settings.call_timeout = timeout;
        self
    }

    /// By how much a row outlives the moment at which it equals a fresh one, for clients whose clocks are off; a minute
    /// unless said, and never less than two calls may take.
    pub fn expiry_margin(mut self, margin: Duration) -> Self {
        self.settings.margin = margin;
        self
    }

    /// How much memory there is for rows as they were seen last; 64 MiB unless said, enough for 150,000 buckets. Whatever is not
    /// remembered costs a second transaction.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.settings.cache_bytes = bytes;
        self
    }

    /// Whatever else the driver can be told, such as encryption (`session.tls_context`, which takes a configuration of
    /// rustls), compression, numbers of connections.
    ///
    /// ```
    /// use tollgate_store_cassandra::{Config, scylla};
    ///
    /// let two = scylla::client::PoolSize::PerHost(2.try_into().expect("not 0"));
    /// let config = Config::new("cassandra://db/limits").session(move |session| session.pool_size(two.clone()));
    /// ```
    pub fn session(
        mut self,
        customize: impl Fn(SessionBuilder) -> SessionBuilder + Send + Sync + 'static,
    ) -> Self {
        self.settings.customize = Arc::new(customize);
        self
    }

    /// Connecting fails if no node is there. Unless said, a store starts without one and says so call by call.
    pub fn must_be_there(mut self) -> Self {
        self.must_be_there = true;
        self
    }

    /// Makes the keyspace and the table, or brings an older table up to date. Once, when you deploy: what is there stays
    /// as it is, and doing it twice changes nothing. The user needs `CREATE` and `ALTER` for this, and only for this. By hand it
    /// is:
    ///
    /// ```text
    /// CREATE TABLE limits (
    ///     key blob, limit_name text, state blob, guard boolean, PRIMARY KEY (key, limit_name)
    /// ) WITH comment = 'tollgate limits, schema 1' AND gc_grace_seconds = 86400 AND compaction = {
    ///     'class': 'TimeWindowCompactionStrategy',
    ///     'compaction_window_unit': 'HOURS', 'compaction_window_size': 1
    /// };
    /// ```
    pub async fn create_schema(&self, replication: &Replication) -> Result<(), StoreError> {
        let (target, table) = self.target()?;
        let create = async {
            let session = link::session(&target, &self.settings).await?;
            table.create(&session, replication, self.settings.serial).await
        };
        Box::pin(create).await
    }

    /// A store. What is wrong with the configuration, the login or the schema is an error here; that no node is there yet
    /// is none, unless [one must be](Self::must_be_there).
    pub async fn connect(self) -> Result<CassandraStore, StoreError> {
        let (target, table) = self.target()?;
        let link = Link::new(target, table, self.settings.clone());
        let there = link.get().await.map(|_| ());
        match there {
            Err(error) if self.must_be_there || !error.is_retryable() => Err(error),
            _ => Ok(CassandraStore::new(link, self.settings)),
        }
    }

    fn target(&self) -> Result<(Target, Table), StoreError> {
        let mut target = Target::parse(&self.url)?;
        if self.datacenter.is_some() {
            target.datacenter.clone_from(&self.datacenter);
        }
        let name = self.table.as_deref().or(target.table.as_deref()).unwrap_or("limits");
        let table = Table::new(&target.keyspace, name)?;
        Ok((target, table))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the URL: it may hold a password.
        f.debug_struct("Config")
            .field("table", &self.table)
            .field("datacenter", &self.datacenter)
            .field("settings", &self.settings)
            .field("must_be_there", &self.must_be_there)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("consistency", &self.consistency)
            .field("serial", &self.serial)
            .field("connect_timeout", &self.connect_timeout)
            .field("call_timeout", &self.call_timeout)
            .field("margin", &self.margin)
            .field("cache_bytes", &self.cache_bytes)
            .finish_non_exhaustive()
    }
}
