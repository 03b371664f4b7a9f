//! The configuration of a store.

use std::fmt;
use std::time::Duration;

use tollgate_core::{ErrorKind, StoreError};

use crate::connection::Backoff;
use crate::documents::RedisDocuments;
use crate::eviction::Contents;
use crate::key;
use crate::server::{ConnectionOptions, Connector};
use crate::store::RedisStore;
use crate::timing::Timing;
use crate::topology::Topology;
use crate::url::{Login, Target};

/// The configuration of a [`RedisStore`], or of [`RedisDocuments`]. Only the URL is required.
///
/// | Deployment | URL |
/// |---|---|
/// | single server | `redis://[user:password@]host[:port][/database]` |
/// | single server, TLS | `rediss://…` |
/// | Sentinel | `redis+sentinel://[user:password@]host[:port],…/primary-name[/database]` |
/// | Cluster | `redis+cluster://[user:password@]host[:port],…` |
/// | client-side shards | `redis+shards://[user:password@]host[:port],…[/database]` |
/// | single server, Unix socket | `redis+unix:///path[?db=database&user=user&pass=password]` |
///
/// Sentinel, Cluster and shards use TLS as `rediss+sentinel://`, `rediss+cluster://` and `rediss+shards://`. Default
/// ports: 6379, and 26379 for sentinels. The user and password in the URL are those of the Redis servers; sentinels
/// have [their own](Self::sentinel_login). `:password@` is the password of the default user. Percent-encode special
/// characters.
///
/// Anything else in a URL is an error: other parameters, fragments, a user without a password, empty hosts in a list.
///
/// Shards are chosen by consistent hashing. A shard may list its replicas after a bar, as in `a1|a2,b1|b2`: the store
/// uses the one that accepts writes. The first address is the name of the shard on the hash ring, so keep it stable.
///
/// ```no_run
/// # async fn start() -> Result<(), tollgate::StoreError> {
/// use std::time::Duration;
/// use tollgate::Limiter;
/// use tollgate::redis::Config;
///
/// let store = Config::new("redis://127.0.0.1").call_timeout(Duration::from_millis(50)).connect().await?;
/// let limiter = Limiter::new(store);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a configuration does nothing until it connects"]
pub struct Config {
    url: String,
    prefix: String,
    root_certificate: Option<Vec<u8>>,
    sentinel_login: Option<Login>,
    pub(crate) connections: ConnectionOptions,
    call_timeout: Duration,
    timing: Timing,
    document_history: u32,
    require_reachable: bool,
}

impl fmt::Debug for Config {
    /// Leaves out the URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("prefix", &self.prefix)
            .field("has_root_certificate", &self.root_certificate.is_some())
            .field("connections", &self.connections)
            .field("call_timeout", &self.call_timeout)
            .field("timing", &self.timing)
            .field("document_history", &self.document_history)
            .field("require_reachable", &self.require_reachable)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Creates a configuration for the servers at `url`, with defaults for everything else.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: "tollgate".to_owned(),
            root_certificate: None,
            sentinel_login: None,
            connections: ConnectionOptions {
                per_server: 1,
                connect_timeout: Duration::from_secs(1),
                backoff: Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(2) },
            },
            call_timeout: Duration::from_secs(1),
            timing: Timing {
                caller_clock: false,
                expiry_margin: Duration::from_secs(30),
                idempotency_retention: Duration::from_secs(60),
            },
            document_history: 20,
            require_reachable: false,
        }
    }

    /// Sets the prefix of all keys. Programs with the same prefix share their limits. Default: `tollgate`.
    ///
    /// A colon separates the prefix from the namespace of a key, so a prefix must not contain one: `shop-tollgate`
    /// instead of `shop:tollgate`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the root certificate (PEM) to trust for TLS. Default: the certificates that the operating system trusts.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// Sets the user and password for the sentinels. Those in the URL are for the Redis servers. Default: no
    /// authentication.
    pub fn sentinel_login(mut self, user: Option<&str>, password: &str) -> Self {
        self.sentinel_login = Some(Login { user: user.map(str::to_owned), password: password.to_owned() });
        self
    }

    /// Sets the number of connections to each server, from 1 to 1,000. Calls are multiplexed, so more than one helps
    /// only if a single connection saturates a core. Default: 1.
    pub fn connections(mut self, per_server: usize) -> Self {
        self.connections.per_server = per_server;
        self
    }

    /// Sets the timeout for opening a connection. Default: 1 s. [`Duration::MAX`] is no timeout.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connections.connect_timeout = timeout;
        self
    }

    /// Sets the timeout of a call, connecting and retries included. Default: 1 s. [`Duration::MAX`] is no timeout.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// Sets the backoff after a failed attempt to connect: `first` at first, then doubled each time up to `longest`. A
    /// random part of up to half of it is left out, so that clients do not reconnect together. Calls fail immediately
    /// until it has elapsed. Default: 50 ms and 2 s. Zero is no backoff.
    pub fn reconnect_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.connections.backoff = Backoff { first, longest };
        self
    }

    /// Sets how long a key outlives the moment at which its state equals a fresh one, as an allowance for clock
    /// differences between a server and its replicas. Default: 30 s.
    ///
    /// A bucket's key may live for twice the margin: a write that leaves the time-to-live unchanged costs half as much.
    /// With very many keys that are used only once, a shorter margin saves memory.
    pub fn expiry_margin(mut self, margin: Duration) -> Self {
        self.timing.expiry_margin = margin;
        self
    }

    /// Sets how long an [idempotency key](tollgate_core::IdempotencyKey) is recognized; those of
    /// [`apply_deltas`](tollgate_core::store::Store::apply_deltas) are recognized for ten times as long. Default: 60 s.
    pub fn idempotency_retention(mut self, retention: Duration) -> Self {
        self.timing.idempotency_retention = retention;
        self
    }

    /// Lets the caller's clock decide instead of the server's, to replay traces. In production, the clocks of all
    /// clients would have to agree. Sets the [expiry margin](Self::expiry_margin) to one day, because keys still expire
    /// by the server's clock.
    pub fn caller_clock(mut self) -> Self {
        self.timing.caller_clock = true;
        self.timing.expiry_margin = Duration::from_secs(86_400);
        self
    }

    /// Sets how many versions of a document are kept, from 1 to 1,000. Every change drops those that are too many.
    /// Default: 20.
    pub fn document_history(mut self, versions: u32) -> Self {
        self.document_history = versions;
        self
    }

    /// Makes [`connect`](Self::connect) fail if a server cannot be reached or refuses the connection. Default:
    /// `connect` succeeds, and each call fails until the servers can be reached.
    pub fn require_reachable(mut self) -> Self {
        self.require_reachable = true;
        self
    }

    /// Creates a store, and connects to its servers for at most the [call timeout](Self::call_timeout).
    ///
    /// Fails if the URL or an option is invalid. A server that cannot be reached, or refuses the connection, is an
    /// error only with [`require_reachable`](Self::require_reachable); otherwise the store connects when it is called,
    /// and the call fails if it still cannot.
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let connector = Connector::new(self.connections.clone(), Contents::Limits);
        let topology = Topology::new(self.target()?, &connector)?;
        let store = RedisStore::new(topology, &self.prefix, self.timing, self.call_timeout, &connector);
        let reachable = store.connect_servers().await;
        if self.require_reachable { reachable.map(|()| store) } else { Ok(store) }
    }

    /// Creates a document store, and connects to its server as [`connect`](Self::connect) does. Its connections are its
    /// own.
    ///
    /// Options about clocks, idempotency keys and expiry have no effect on documents. Client-side shards keep all
    /// documents on the first shard of the URL, so let it stay the first one.
    pub async fn connect_documents(self) -> Result<RedisDocuments, StoreError> {
        let connector = Connector::new(self.connections.clone(), Contents::Documents);
        let topology = Topology::new(self.target()?.first_shard(), &connector)?;
        let (history, timeout) = (self.document_history, self.call_timeout);
        let documents = RedisDocuments::new(topology, &self.prefix, history, timeout, &connector);
        let reachable = documents.connect_servers().await;
        if self.require_reachable { reachable.map(|()| documents) } else { Ok(documents) }
    }

    /// Checks the options, and returns the servers of the URL.
    fn target(&self) -> Result<Target, StoreError> {
        self.check()?;
        Target::parse(&self.url, self.root_certificate.as_deref(), self.sentinel_login.as_ref())
    }

    /// Returns an error for an option that no store can work with. It names the option and what would be right.
    fn check(&self) -> Result<(), StoreError> {
        let Backoff { first, longest } = self.connections.backoff;
        let has_empty_password = self.sentinel_login.as_ref().is_some_and(|login| login.password.is_empty());
        let problems = [
            (
                !(1..=MAX_CONNECTIONS).contains(&self.connections.per_server),
                "connections must be from 1 to 1,000 per server",
            ),
            (
                self.connections.connect_timeout.is_zero(),
                "connect_timeout must not be zero; use Duration::MAX for no timeout",
            ),
            (self.call_timeout.is_zero(), "call_timeout must not be zero; use Duration::MAX for no timeout"),
            (
                first > longest,
                "reconnect_backoff must not be longer at first than at last; the second argument is the longest",
            ),
            (
                self.timing.idempotency_retention.is_zero(),
                "idempotency_retention must not be zero; use at least the time in which a call is repeated",
            ),
            (
                !(1..=MAX_DOCUMENT_HISTORY).contains(&self.document_history),
                "document_history must be from 1 to 1,000 versions",
            ),
            (
                self.prefix.contains(key::SEPARATOR),
                "prefix must not contain a `:`, which separates it from the namespace of a key; use `-` or `.` instead",
            ),
            (
                has_empty_password,
                "sentinel_login must have a password; leave it out if sentinels require none",
            ),
        ];
        match problems.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, problem)) => {
                Err(StoreError::new(ErrorKind::Refused, format!("redis: Config::{problem}")))
            }
            None => Ok(()),
        }
    }
}

/// More connections to one server than this are a mistake: servers accept 10,000 clients by default.
const MAX_CONNECTIONS: usize = 1_000;
/// A script reads and drops the whole history of a document at once.
const MAX_DOCUMENT_HISTORY: u32 = 1_000;
