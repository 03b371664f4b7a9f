//! The conformance suite on one real Cassandra: a container, or whatever `TOLLGATE_TEST_CASSANDRA` names. As
//! `tollgate::connect` makes a store: with its calls gathered.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::{Subject, run};
use tollgate_resilience::Coalesced;
use tollgate_store_cassandra::{CassandraStore, Config, Replication};
use tollgate_testkit as servers;

#[derive(Default)]
struct Cassandra {
    store: OnceCell<CassandraStore>,
}

impl Subject for Cassandra {
    type Store = Coalesced<CassandraStore>;

    async fn open(&self) -> Self::Store {
        let connect = async || {
            let url = servers::cassandra_url().await;
            let config = Config::new(format!("{url}/conformance")).call_timeout(Duration::from_secs(20));
            config.create_schema(&Replication::Simple(1)).await.expect("a schema");
            config.must_be_there().connect().await.expect("a cluster to try")
        };
        let store = self.store.get_or_init(connect).await.clone();
        // One for each trial: those who gather share a time, and trials have their own.
        Coalesced::new(store).in_flight(1).patience(Duration::from_secs(10))
    }

    fn replay_steps(&self) -> usize {
        600
    }
}

fn main() -> ExitCode {
    run(Cassandra::default())
}
