//! The conformance suite on a real cluster of three nodes, with a replica on each.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::servers::CassandraCluster;
use tollgate_conformance::{Subject, run};
use tollgate_store_cassandra::{CassandraStore, Config, Replication};

/// A store, and the nodes that must not be dropped before it.
#[derive(Default)]
struct Opened(OnceCell<(CassandraStore, CassandraCluster)>);

impl Subject for Opened {
    type Store = CassandraStore;

    async fn open(&self) -> CassandraStore {
        let open = async || {
            let cluster = CassandraCluster::start().await;
            // A machine that is busy with nodes and trials may keep a call waiting.
            let config =
                Config::new(format!("{}/conformance", cluster.url())).call_timeout(Duration::from_secs(20));
            config.create_schema(&Replication::Simple(3)).await.expect("a schema");
            cluster.settled().await;
            (config.must_be_there().connect().await.expect("a cluster to try"), cluster)
        };
        self.0.get_or_init(open).await.0.clone()
    }

    fn replay_steps(&self) -> usize {
        300
    }
}

fn main() -> ExitCode {
    run(Opened::default())
}
