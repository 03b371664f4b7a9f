//! Limits. Calls are batched, as `tollgate::connect` does.

use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::Subject;
use tollgate_resilience::Coalesced;
use tollgate_store_cassandra::{CassandraStore, Config, Replication};

use crate::Server;

#[derive(Default)]
pub(crate) struct Cassandra {
    store: OnceCell<CassandraStore>,
}

impl Subject for Cassandra {
    type Store = Coalesced<CassandraStore>;

    async fn open(&self) -> Self::Store {
        let connect = async || {
            let url = &Server::shared().await.url;
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
