//! The Cassandra node: one that is started for the run, or one at a given URL.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tollgate_store_cassandra::{Config, Replication};
use tollgate_testkit::Cassandra;

use crate::redis::subject::Failure;

const SCHEME: &str = "cassandra://";
const KEYSPACE: &str = "tollgate_bench";
const TIMEOUT: Duration = Duration::from_secs(20);

pub struct Server {
    url: String,
    own: Option<Cassandra>,
}

impl Server {
    /// Connects to the node at `url`, or starts one. Creates an empty keyspace.
    pub async fn open(url: Option<String>) -> Result<Self, Failure> {
        let server = if let Some(url) = url {
            Self { url, own: None }
        } else {
            eprintln!("starting a node");
            let own = Cassandra::for_measuring().await;
            Self { url: own.url(), own: Some(own) }
        };
        server.clean().await?;
        server.config()?.create_schema(&Replication::Simple(1)).await?;
        Ok(server)
    }

    fn hosts(&self) -> Result<&str, Failure> {
        let hosts = self.url.strip_prefix(SCHEME).filter(|hosts| !hosts.contains(['/', '@', '?']));
        hosts.ok_or_else(|| format!("{} is not {SCHEME}HOST:PORT", self.url).into())
    }

    /// Returns the URL for a store.
    pub fn store_url(&self) -> Result<String, Failure> {
        Ok(format!("{SCHEME}{}/{KEYSPACE}", self.hosts()?))
    }

    /// Returns a configuration with long timeouts, for a node that has just started or shares its machine. They do not
    /// affect the speed.
    pub fn config(&self) -> Result<Config, Failure> {
        let config = Config::new(self.store_url()?).require_reachable();
        Ok(config
            .connect_timeout(TIMEOUT)
            .call_timeout(TIMEOUT)
            .session(|session| session.keepalive_interval(TIMEOUT).keepalive_timeout(TIMEOUT)))
    }

    /// Returns the qualified name of the table of the store.
    pub fn table() -> String {
        format!("{KEYSPACE}.limits")
    }

    /// Opens a session of the driver.
    pub async fn session(&self) -> Result<Session, Failure> {
        let hosts: Vec<_> = self.hosts()?.split(',').collect();
        Ok(SessionBuilder::new().known_nodes(hosts).build().await?)
    }

    /// Drops the keyspace of the run. A node that was started for the run needs no cleaning.
    pub async fn clean(&self) -> Result<(), Failure> {
        if self.own.is_none() {
            let drop = format!("DROP KEYSPACE IF EXISTS {KEYSPACE}");
            self.session().await?.query_unpaged(drop, ()).await?;
        }
        Ok(())
    }
}
