//! The configuration of a store, and of documents.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session_builder::SessionBuilder;
use scylla::statement::{Consistency, SerialConsistency};
use tollgate_core::{ErrorKind, StoreError};

use crate::documents::CassandraDocuments;
use crate::options::StoreOptions;
use crate::replication::Replication;
use crate::schema::{DOCUMENTS, LIMITS, Table};
use crate::session::{self, LazySession};
use crate::store::CassandraStore;
use crate::url::ClusterUrl;

/// Configures a [`CassandraStore`] or [`CassandraDocuments`]: the cluster, consistency levels, timeouts and cache.
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::cassandra::{Config, Replication};
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
/// `cassandra://user:password@host,host:port/keyspace?datacenter=dc1&table=limits&documents=documents`
///
/// - The hosts are contact points: the driver discovers the other nodes. Default port: 9042.
/// - `user:password@` is optional. Percent-encode special characters.
/// - `datacenter` is the same as [`local_datacenter`](Self::local_datacenter), `table` the same as
///   [`table`](Self::table), and `documents` the same as [`documents_table`](Self::documents_table). All are optional;
///   where both the URL and the option are set, they must be equal.
/// - Anything else is an error: other parameters, a fragment, a user without a password, empty hosts.
#[derive(Clone)]
#[must_use = "a configuration does nothing until it connects"]
pub struct Config {
    url: String,
    table: Option<String>,
    documents_table: Option<String>,
    document_versions: u32,
    datacenter: Option<String>,
    options: StoreOptions,
    require_reachable: bool,
}

/// The most versions of a document that can be kept: the transaction of every change names all of them.
const MAX_DOCUMENT_VERSIONS: u32 = 1_000;

/// What to connect to.
#[derive(Debug)]
struct Target {
    url: ClusterUrl,
    limits: Table,
    documents: Table,
}

impl Config {
    /// Creates a configuration for the cluster at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            table: None,
            documents_table: None,
            document_versions: 20,
            datacenter: None,
            options: StoreOptions::default(),
            require_reachable: false,
        }
    }

    /// Sets the name of the table. Default: `limits`. Processes with the same keyspace and table share their limits.
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.table = Some(name.into());
        self
    }

    /// Sets the name of the table of documents. Default: `documents`. Processes with the same keyspace and table share
    /// their documents.
    pub fn documents_table(mut self, name: impl Into<String>) -> Self {
        self.documents_table = Some(name.into());
        self
    }

    /// Sets how many versions of a document are kept, 1 to 1,000. Default: 20. Each change drops the versions before
    /// these, for all processes.
    pub fn document_versions(mut self, count: u32) -> Self {
        self.document_versions = count;
        self
    }

    /// Sets the local datacenter, whose nodes are the coordinators and whose replicas form the local quorum. Default:
    /// none, and all nodes are used alike, which suits a cluster in one datacenter.
    pub fn local_datacenter(mut self, name: impl Into<String>) -> Self {
        self.datacenter = Some(name.into());
        self
    }

    /// Sets the consistency levels of lightweight transactions: of the commit, and of the Paxos phase. Default:
    /// `LOCAL_QUORUM` and `LOCAL_SERIAL`.
    ///
    /// A keyspace that is replicated in several datacenters needs `SERIAL`, at the price of a round trip between
    /// datacenters per check. All processes that share a table must use the same levels.
    pub fn consistency(mut self, commit: Consistency, serial: SerialConsistency) -> Self {
        self.options.consistency = commit;
        self.options.serial_consistency = serial;
        self
    }

    /// Sets the timeout for opening a connection. Default: 1 s. [`Duration::MAX`] is no timeout.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// Sets the timeout of a call, including all retries. Default: 2 s. A request over several entities may take
    /// twice as long, because it may have to send compensating refunds.
    ///
    /// A node that does not respond within half of this time is given up. The rest is used to find out whether the
    /// transaction was applied, and to try another replica.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.options.call_timeout = timeout;
        self
    }

    /// Sets how much longer than necessary a row is kept: its time-to-live is the time until its state equals a fresh
    /// one, plus this margin, so that clients with differing clocks agree. Default: 1 min. Minimum: twice the
    /// [call timeout](Self::call_timeout).
    pub fn expiry_margin(mut self, margin: Duration) -> Self {
        self.options.expiry_margin = margin;
        self
    }

    /// Sets the size of the cache of rows as this process saw them last. Default: 64 MiB, enough for 150,000 token
    /// buckets. A cache miss costs a second transaction.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.options.cache_bytes = bytes;
        self
    }

    /// Changes the driver's session options, such as TLS (`session.tls_context` with a rustls configuration),
    /// compression or the number of connections.
    ///
    /// ```
    /// use tollgate::cassandra::{Config, scylla};
    ///
    /// let two = scylla::client::PoolSize::PerHost(2.try_into().expect("not 0"));
    /// let config = Config::new("cassandra://db/limits").session(move |session| session.pool_size(two.clone()));
    /// ```
    pub fn session(
        mut self,
        customize: impl Fn(SessionBuilder) -> SessionBuilder + Send + Sync + 'static,
    ) -> Self {
        self.options.customize_session = Arc::new(customize);
        self
    }

    /// Makes [`connect`](Self::connect) fail if the cluster cannot be reached. Default: `connect` succeeds, and calls
    /// fail until the cluster can be reached.
    pub fn require_reachable(mut self) -> Self {
        self.require_reachable = true;
        self
    }

    /// Creates the keyspace and the tables of limits and of documents if they do not exist, and upgrades older tables.
    /// Call it once, when you deploy; calling it again changes nothing. An existing keyspace keeps its replication.
    ///
    /// The user needs `CREATE` and `ALTER` for this call only. To create the tables by hand; a program that keeps no
    /// documents does not need the second one:
    ///
    /// ```text
    /// CREATE TABLE limits (
    ///     key blob, limit_name text, state blob, guard boolean, PRIMARY KEY (key, limit_name)
    /// ) WITH comment = 'tollgate limits, schema 1' AND gc_grace_seconds = 86400 AND compaction = {
    ///     'class': 'TimeWindowCompactionStrategy',
    ///     'compaction_window_unit': 'HOURS', 'compaction_window_size': 1
    /// };
    /// CREATE TABLE documents (
    ///     key blob, item blob, value blob, PRIMARY KEY (key, item)
    /// ) WITH comment = 'tollgate documents, schema 1';
    /// ```
    pub async fn create_schema(&self, replication: &Replication) -> Result<(), StoreError> {
        let target = self.parse()?;
        let create = async {
            let session = session::open(&target.url, &self.options).await?;
            for table in [target.limits, target.documents] {
                table.create(&session, replication, self.options.serial_consistency).await?;
            }
            Ok(())
        };
        Box::pin(create).await
    }

    /// Connects to the cluster. An invalid configuration, rejected credentials and a missing or outdated schema are
    /// errors. An unreachable cluster is an error only with [`require_reachable`](Self::require_reachable).
    pub async fn connect(self) -> Result<CassandraStore, StoreError> {
        let Target { url, limits, .. } = self.parse()?;
        let session = LazySession::new(url, limits, self.options.clone());
        self.check_connected(session.get().await.map(|_| ()))?;
        Ok(CassandraStore::new(session, self.options))
    }

    /// Connects to the cluster for its documents, as [`connect`](Self::connect) does for limits. The table of limits is
    /// not needed.
    pub async fn connect_documents(self) -> Result<CassandraDocuments, StoreError> {
        let Target { url, documents, .. } = self.parse()?;
        let session = LazySession::new(url, documents, self.options.clone());
        self.check_connected(session.get().await.map(|_| ()))?;
        Ok(CassandraDocuments::new(session, self.options, self.document_versions))
    }

    /// Returns the error of an attempt to connect, unless a later attempt may succeed.
    fn check_connected(&self, attempt: Result<(), StoreError>) -> Result<(), StoreError> {
        match attempt {
            Err(error) if self.require_reachable || !error.is_retryable() => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn parse(&self) -> Result<Target, StoreError> {
        self.check()?;
        let mut url = ClusterUrl::parse(&self.url)?;
        let datacenter = only("local_datacenter", self.datacenter.as_deref(), url.datacenter.as_deref())?;
        let limits = only("table", self.table.as_deref(), url.table.as_deref())?.unwrap_or("limits");
        let documents = only("documents_table", self.documents_table.as_deref(), url.documents.as_deref())?
            .unwrap_or("documents");
        if limits == documents {
            return Err(refused(
                "cassandra: limits and documents have the same table; set Config::table or Config::documents_table \
                 to another name"
                    .to_owned(),
            ));
        }
        let limits = Table::new(&LIMITS, &url.keyspace, limits)?;
        let documents = Table::new(&DOCUMENTS, &url.keyspace, documents)?;
        url.datacenter = datacenter.map(str::to_owned);
        Ok(Target { url, limits, documents })
    }

    /// Returns an error for an option that no store can work with. It names the option and what would be right.
    fn check(&self) -> Result<(), StoreError> {
        let is_serial = matches!(self.options.consistency, Consistency::Serial | Consistency::LocalSerial);
        let problems = [
            (
                self.options.connect_timeout.is_zero(),
                "connect_timeout must not be zero; use Duration::MAX for no timeout",
            ),
            (
                self.options.call_timeout.is_zero(),
                "call_timeout must not be zero; use Duration::MAX for no timeout",
            ),
            (
                !(1..=MAX_DOCUMENT_VERSIONS).contains(&self.document_versions),
                "document_versions must be 1 to 1000",
            ),
            (is_serial, "consistency: the level of the commit must not be serial; use LocalQuorum or Quorum"),
            (
                self.datacenter.as_ref().is_some_and(String::is_empty),
                "local_datacenter must not be empty; leave it out if all nodes are used alike",
            ),
        ];
        match problems.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, problem)) => Err(refused(format!("cassandra: Config::{problem}"))),
            None => Ok(()),
        }
    }
}

/// Returns the value of an option that can also be part of the URL.
fn only<'a>(
    option: &str,
    configured: Option<&'a str>,
    in_url: Option<&'a str>,
) -> Result<Option<&'a str>, StoreError> {
    match (configured, in_url) {
        (Some(configured), Some(in_url)) if configured != in_url => {
            let what = format!("cassandra: Config::{option} and the URL have different values");
            Err(refused(format!("{what}; set one of them, or the same value")))
        }
        _ => Ok(configured.or(in_url)),
    }
}

fn refused(message: String) -> StoreError {
    StoreError::new(ErrorKind::Refused, message)
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, which may contain a password.
        f.debug_struct("Config")
            .field("table", &self.table)
            .field("documents_table", &self.documents_table)
            .field("document_versions", &self.document_versions)
            .field("datacenter", &self.datacenter)
            .field("options", &self.options)
            .field("require_reachable", &self.require_reachable)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_work_are_refused() {
        let config = || Config::new("cassandra://bob:secret@db/limits?table=one&datacenter=dc1");
        assert!(config().table("one").local_datacenter("dc1").parse().is_ok());
        let longest = config().connect_timeout(Duration::MAX).call_timeout(Duration::MAX);
        assert!(longest.expiry_margin(Duration::MAX).cache_bytes(u64::MAX).parse().is_ok());
        for (config, problem) in [
            (config().connect_timeout(Duration::ZERO), "Config::connect_timeout must not be zero"),
            (config().call_timeout(Duration::ZERO), "Config::call_timeout must not be zero"),
            (
                config().consistency(Consistency::Serial, SerialConsistency::Serial),
                "use LocalQuorum or Quorum",
            ),
            (config().local_datacenter(""), "Config::local_datacenter must not be empty"),
            (config().local_datacenter("dc2"), "Config::local_datacenter and the URL have different values"),
            (config().table("two"), "Config::table and the URL have different values"),
            (config().documents_table("one"), "limits and documents have the same table"),
            (config().document_versions(0), "Config::document_versions must be 1 to 1000"),
            (config().document_versions(1_001), "Config::document_versions must be 1 to 1000"),
        ] {
            let error = config.parse().expect_err(problem);
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(error.to_string().contains(problem) && !error.to_string().contains("secret"), "{error}");
        }
    }
}
