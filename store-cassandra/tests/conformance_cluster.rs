//! The conformance suites of stores and of document stores on a cluster of three real nodes with a replication factor
//! of 3.

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;
use tokio::sync::OnceCell;
use tollgate_conformance::{DocumentSubject, Subject, document_trials, trials};
use tollgate_store_cassandra::{CassandraDocuments, CassandraStore, Config, Replication};
use tollgate_testkit::{CassandraCluster, QUICK};

/// How many versions of a document are kept.
const HISTORY: u32 = 3;

/// Returns the configuration of the cluster, with its schema.
async fn config() -> Config {
    static CLUSTER: OnceCell<CassandraCluster> = OnceCell::const_new();
    let start = async || {
        let cluster = CassandraCluster::start_with(QUICK).await;
        config_of(&cluster).create_schema(&Replication::Simple(3)).await.expect("a schema");
        cluster.settled().await;
        cluster
    };
    config_of(CLUSTER.get_or_init(start).await)
}

fn config_of(cluster: &CassandraCluster) -> Config {
    // Three nodes and the trials share one machine.
    Config::new(format!("{}/conformance", cluster.url()))
        .call_timeout(Duration::from_secs(20))
        .document_versions(HISTORY)
        .require_reachable()
}

#[derive(Default)]
struct Limits {
    store: OnceCell<CassandraStore>,
}

impl Subject for Limits {
    type Store = CassandraStore;

    async fn open(&self) -> CassandraStore {
        let connect = async || config().await.connect().await.expect("a reachable cluster");
        self.store.get_or_init(connect).await.clone()
    }

    fn replay_steps(&self) -> usize {
        200
    }
}

#[derive(Default)]
struct Documents {
    store: OnceCell<CassandraDocuments>,
}

async fn connect() -> CassandraDocuments {
    config().await.connect_documents().await.expect("a reachable cluster")
}

impl DocumentSubject for Documents {
    type Store = CassandraDocuments;

    async fn open(&self) -> CassandraDocuments {
        self.store.get_or_init(connect).await.clone()
    }

    fn history(&self) -> usize {
        HISTORY as usize
    }

    fn changes_per_editor(&self) -> usize {
        3
    }

    async fn open_another(&self, _: &CassandraDocuments) -> Option<CassandraDocuments> {
        Some(connect().await)
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Trials wait for the cluster more than they compute.
    arguments.test_threads.get_or_insert(8);
    let mut all = trials(Limits::default());
    // Replicas make no difference to names and texts.
    let same = |name: &str| ["names::", "texts::"].iter().any(|part| name.starts_with(part));
    all.extend(document_trials(Documents::default()).into_iter().filter(|trial| !same(trial.name())));
    libtest_mimic::run(&arguments, all).exit_code()
}
