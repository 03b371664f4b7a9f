//! How a store reaches its servers and what it does there.

use std::fmt;
use std::time::Duration;

use tollgate_core::StoreError;

use crate::lane::Backoff;
use crate::settings::Settings;
use crate::store::RedisStore;
use crate::topology::Topology;
use crate::url::{Login, Target};

/// How to reach Redis, and what to do there. Everything has a default but where it is.
///
/// | what | URL |
/// |---|---|
/// | one server | `redis://[user:password@]host[:port][/database]` |
/// | one server, encrypted | `rediss://…` |
/// | Sentinel | `redis+sentinel://[user:password@]host[:port],…/name-of-the-primary[/database]` |
/// | Cluster | `redis+cluster://[user:password@]host[:port],…` |
/// | client-side shards | `redis+shards://[user:password@]host[:port],…[/database]` |
///
/// The last three are encrypted as `rediss+sentinel://` and so on. A shard may name its replicas after a bar,
/// `a1|a2,b1|b2`: the one that takes writes is used, and the first gives the shard its name, which decides what lives
/// there. Whom the URL logs in as is meant for the servers; sentinels have a [login of their own](Self::sentinel_login).
///
/// ```no_run
/// # async fn start() -> Result<(), tollgate_core::StoreError> {
/// use std::time::Duration;
/// use tollgate_core::Limiter;
/// use tollgate_store_redis::Config;
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
    pub(crate) connections: Connections,
    call_timeout: Duration,
    settings: Settings,
    must_be_there: bool,
}

/// How connections are made.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pub(crate) size: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) backoff: Backoff,
}

impl fmt::Debug for Config {
    /// Without the URL: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("prefix", &self.prefix)
            .field("has_root_certificate", &self.root_certificate.is_some())
            .field("connections", &self.connections)
            .field("call_timeout", &self.call_timeout)
            .field("settings", &self.settings)
            .field("must_be_there", &self.must_be_there)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// The servers at `url`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: "tollgate".to_owned(),
            root_certificate: None,
            sentinel_login: None,
            connections: Connections {
                size: 1,
                connect_timeout: Duration::from_secs(1),
                backoff: Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(2) },
            },
            call_timeout: Duration::from_secs(1),
            settings: Settings {
                callers_time: false,
                margin: Duration::from_secs(30),
                memory: Duration::from_secs(60),
            },
            must_be_there: false,
        }
    }

    /// What the names of all keys begin with; `tollgate` unless said. Programs with the same prefix share their limits.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// A certificate (PEM) to trust instead of those that the machine trusts.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// Who to log in as at the sentinels; nobody unless said. The login in the URL is for the servers that they watch.
    pub fn sentinel_login(mut self, user: Option<&str>, password: &str) -> Self {
        self.sentinel_login = Some(Login { user: user.map(str::to_owned), password: password.to_owned() });
        self
    }

    /// How many connections to each server; one unless said. Each carries any number of calls at once, so more than
    /// one helps only where a single one keeps a core busy.
    pub fn connections(mut self, size: usize) -> Self {
        self.connections.size = size.max(1);
        self
    }

    /// The longest time a connection may take to be made; a second unless said.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connections.connect_timeout = timeout;
        self
    }

    /// The longest time a call may take, whatever happens on the way; a second unless said.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// How long to leave a server alone that could not be connected to: `first` after the first attempt, then twice as
    /// long each time up to `longest`. Calls fail at once meanwhile. 50 ms and 2 s unless said.
    pub fn reconnect_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.connections.backoff = Backoff { first, longest };
        self
    }

    /// By how much a state outlives the moment at which it equals a fresh one, for clocks that are off between a server and
    /// its replicas; 30 seconds unless said. A bucket's key may live for twice the margin, because to leave its time-to-live
    /// alone halves the price of a write. Where very many keys come once and never again, a shorter margin saves memory.
    pub fn expiry_margin(mut self, margin: Duration) -> Self {
        self.settings.margin = margin;
        self
    }

    /// How long an operation id is remembered; a minute unless said.
    pub fn operation_memory(mut self, memory: Duration) -> Self {
        self.settings.memory = memory;
        self
    }

    /// The caller's time decides, not the server's: for traces that are replayed. In production all clients would have
    /// to agree on the time. States live a day longer then, because the server's own clock ends them.
    pub fn by_callers_time(mut self) -> Self {
        self.settings.callers_time = true;
        self.settings.margin = Duration::from_secs(86_400);
        self
    }

    /// Connecting fails if the server is not there. Unless said, a store starts without it and says so call by call.
    pub fn must_be_there(mut self) -> Self {
        self.must_be_there = true;
        self
    }

    /// A store. What is wrong with the configuration is an error here; that a server is not there yet is none, unless
    /// [it must be](Self::must_be_there).
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let target =
            Target::parse(&self.url, self.root_certificate.as_deref(), self.sentinel_login.as_ref())?;
        let topology = Topology::new(target, &self.connections)?;
        let store = RedisStore::new(topology, &self.prefix, self.settings, self.call_timeout);
        let there = store.reach().await;
        if self.must_be_there { there.map(|()| store) } else { Ok(store) }
    }
}
