//! The conformance suite on a cluster of three real nodes with a replication factor of 3.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::{Subject, run};
use tollgate_store_cassandra::{CassandraStore, Config, Replication};
use tollgate_testkit::{CassandraCluster, QUICK};

#[derive(Default)]
struct Cluster {
    store: OnceCell<(CassandraStore, CassandraCluster)>,
}

impl Subject for Cluster {
    type Store = CassandraStore;

    async fn open(&self) -> CassandraStore {
        let connect = async || {
            let cluster = CassandraCluster::start_with(QUICK).await;
            let config = Config::new(format!("{}/conformance", cluster.url()));
            // Three nodes and the trials share one machine.
            let config = config.call_timeout(Duration::from_secs(20)).require_reachable();
            config.create_schema(&Replication::Simple(3)).await.expect("a schema");
            cluster.settled().await;
            (config.connect().await.expect("a reachable cluster"), cluster)
        };
        self.store.get_or_init(connect).await.0.clone()
    }

    fn replay_steps(&self) -> usize {
        200
    }
}

fn main() -> ExitCode {
    run(Cluster::default())
}
