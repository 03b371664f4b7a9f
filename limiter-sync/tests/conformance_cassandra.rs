//! The conformance suite through `Synced`, with one real Cassandra as the central store: a container, or the cluster
//! that `TOLLGATE_TEST_CASSANDRA` names. As `tollgate::connect` creates a store: with its calls coalesced.

mod through;

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::Subject;
use tollgate_resilience::Coalesced;
use tollgate_store_cassandra::{CassandraStore, Config, Replication};

#[derive(Default)]
struct Cassandra {
    store: OnceCell<CassandraStore>,
}

impl Subject for Cassandra {
    type Store = Coalesced<CassandraStore>;

    async fn open(&self) -> Self::Store {
        let connect = async || {
            let url = tollgate_testkit::cassandra_url().await;
            let config = Config::new(format!("{url}/synced")).call_timeout(Duration::from_secs(20));
            config.create_schema(&Replication::Simple(1)).await.expect("a schema");
            config.require_reachable().connect().await.expect("a cluster")
        };
        let store = self.store.get_or_init(connect).await.clone();
        // One per trial: a coalesced call has one time, and each trial has its own.
        Coalesced::builder(store)
            .max_in_flight(1)
            .overtake_after(Duration::from_secs(10))
            .build()
            .expect("valid")
    }

    // A step takes milliseconds.
    fn replay_steps(&self) -> usize {
        200
    }
}

fn main() -> ExitCode {
    through::run(Cassandra::default, false)
}
