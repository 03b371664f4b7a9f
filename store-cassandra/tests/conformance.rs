//! The conformance suite on one real Cassandra: a container, or the server at `TOLLGATE_TEST_CASSANDRA`. Calls are
//! batched, as `tollgate::connect` does.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::{Subject, run};
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
            let config = Config::new(format!("{url}/conformance")).call_timeout(Duration::from_secs(20));
            config.create_schema(&Replication::Simple(1)).await.expect("a schema");
            config.require_reachable().connect().await.expect("a reachable cluster")
        };
        let store = self.store.get_or_init(connect).await.clone();
        // One wrapper per trial: batched calls share one time, and every trial has its own clock.
        Coalesced::builder(store)
            .max_in_flight(1)
            .overtake_after(Duration::from_secs(10))
            .build()
            .expect("valid")
    }

    fn replay_steps(&self) -> usize {
        600
    }
}

fn main() -> ExitCode {
    run(Cassandra::default())
}
