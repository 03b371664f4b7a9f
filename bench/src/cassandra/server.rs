//! The Cassandra node: one of the bench's own for the length of a run, or one that it was told of.

use std::time::Duration;

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use tollgate_store_cassandra::{Config, Replication};
use tollgate_testkit::Cassandra;

use crate::redis::subject::Failure;

const SCHEME: &str = "cassandra://";
const KEYSPACE: &str = "tollgate_bench";
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Server {
    url: String,
    own: Option<Cassandra>,
}

impl Server {
    /// The node at `url`, or a new one; with a keyspace in which there is nothing yet.
    pub async fn reach(url: Option<String>) -> Result<Self, Failure> {
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

    /// Where a store finds it.
    pub fn store_url(&self) -> Result<String, Failure> {
        Ok(format!("{SCHEME}{}/{KEYSPACE}", self.hosts()?))
    }

    /// A store that waits for as long as a node may take that has just started, or that shares its machine. It is as fast
    /// as any other.
    pub fn config(&self) -> Result<Config, Failure> {
        let config = Config::new(self.store_url()?).must_be_there();
        Ok(config
            .connect_timeout(PATIENCE)
            .call_timeout(PATIENCE)
            .session(|session| session.keepalive_interval(PATIENCE).keepalive_timeout(PATIENCE)))
    }

    /// The name of the store's table, as it is written in a statement.
    pub fn table() -> String {
        format!("{KEYSPACE}.limits")
    }

    /// A session of the driver's own, as the store has one.
    pub async fn session(&self) -> Result<Session, Failure> {
        let hosts: Vec<_> = self.hosts()?.split(',').collect();
        Ok(SessionBuilder::new().known_nodes(hosts).build().await?)
    }

    /// Removes what a run left behind. A node of our own takes it along anyway.
    pub async fn clean(&self) -> Result<(), Failure> {
        if self.own.is_none() {
            let drop = format!("DROP KEYSPACE IF EXISTS {KEYSPACE}");
            self.session().await?.query_unpaged(drop, ()).await?;
        }
        Ok(())
    }
}
