//! The conformance suite for document stores: on a single server, where writers are killed, too; on a cluster; behind
//! Sentinel, after a failover; and on client-side shards.

mod killed;
mod servers;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tokio::sync::OnceCell;
use tollgate_conformance::{DocumentSubject, KilledPut, document_trials, labelled};
use tollgate_store_redis::{Config, RedisDocuments};

use servers::{Deployment, Servers};

const HISTORY: u32 = 4;

/// A document store that is opened once, and its servers.
struct Subject {
    deployment: Deployment,
    opened: OnceCell<(RedisDocuments, Servers)>,
}

/// Returns a configuration whose timeout is long, because a machine that runs many servers and trials may be slow.
fn config(url: &str) -> Config {
    Config::new(url).document_history(HISTORY).call_timeout(Duration::from_secs(20))
}

impl Subject {
    fn new(deployment: Deployment) -> Self {
        Self { deployment, opened: OnceCell::new() }
    }

    async fn opened(&self) -> &(RedisDocuments, Servers) {
        let open = async || {
            let mut servers = Servers::start(self.deployment).await;
            let connecting = config(servers.url()).require_reachable().connect_documents();
            let documents = connecting.await.expect("reachable servers");
            servers.fail_over(&documents).await;
            (documents, servers)
        };
        self.opened.get_or_init(open).await
    }
}

impl DocumentSubject for Subject {
    type Store = RedisDocuments;

    async fn open(&self) -> RedisDocuments {
        self.opened().await.0.clone()
    }

    fn history(&self) -> usize {
        HISTORY as usize
    }

    async fn open_another(&self, _: &RedisDocuments) -> Option<RedisDocuments> {
        let connecting = config(self.opened().await.1.url()).require_reachable().connect_documents();
        Some(connecting.await.expect("reachable servers"))
    }

    async fn held_versions(&self, _: &RedisDocuments, name: &str) -> Option<usize> {
        let key = format!("tollgate:{{documents}}/d/{name}");
        let fields = self.opened().await.1.fields(&key).await;
        let held = |kind| fields.iter().filter(|field| field.starts_with(kind)).count();
        // Revisions and texts. `latest` and `oldest` start with other letters.
        Some(held('r').max(held('t')))
    }

    async fn kill_writer(&self, _: &RedisDocuments, change: KilledPut<'_>, steps: usize) -> bool {
        match &self.opened().await.1 {
            Servers::Single(redis, _) => killed::kill_writer(redis, change, steps).await,
            Servers::Cluster(..) | Servers::Sentinel(..) | Servers::Shards(..) => false,
        }
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Trials wait for servers more than they compute.
    arguments.test_threads.get_or_insert(8);
    let trials = |(deployment, label): (Deployment, &'static str)| -> Vec<Trial> {
        let trials = document_trials(Subject::new(deployment));
        trials.into_iter().map(|trial| labelled(trial, label)).collect()
    };
    let deployments = [
        (Deployment::Single, "single server"),
        (Deployment::Cluster, "cluster"),
        (Deployment::Sentinel, "sentinel"),
        (Deployment::Shards, "shards"),
    ];
    libtest_mimic::run(&arguments, deployments.into_iter().flat_map(trials).collect()).exit_code()
}
