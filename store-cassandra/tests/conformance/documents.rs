//! Documents. Writers are killed after each of their requests.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::{DocumentSubject, KilledPut};
use tollgate_core::Time;
use tollgate_core::documents::{Change, DocumentStore};
use tollgate_store_cassandra::{CassandraDocuments, Config, Replication};
use tollgate_testkit::{Cassandra, CassandraProxy, Fault};

use crate::Server;

/// How many versions of a document are kept.
const HISTORY: u32 = 3;

#[derive(Default)]
pub(crate) struct Documents {
    store: OnceCell<CassandraDocuments>,
}

/// Returns a configuration of a keyspace of its own, so that the list of all documents has those of this suite only.
fn config(url: &str) -> Config {
    Config::new(format!("{url}/conformance_documents"))
        .document_versions(HISTORY)
        .call_timeout(Duration::from_secs(30))
        .connect_timeout(Duration::from_secs(20))
}

async fn connect(config: Config) -> CassandraDocuments {
    config.require_reachable().connect_documents().await.expect("a reachable cluster")
}

/// Connects through a proxy, whatever address the node reports.
async fn connect_through(proxy: &CassandraProxy) -> CassandraDocuments {
    // The driver expects the node on the port of the contact point.
    let expected = SocketAddr::new(proxy.node().ip(), proxy.address().port());
    let addresses = Arc::new(HashMap::from([(proxy.node(), proxy.address()), (expected, proxy.address())]));
    let config = config(&format!("cassandra://{}", proxy.address()));
    connect(config.session(move |session| session.address_translator(addresses.clone()))).await
}

impl DocumentSubject for Documents {
    type Store = CassandraDocuments;

    async fn open(&self) -> CassandraDocuments {
        let open = async || {
            let config = config(&Server::shared().await.url);
            config.create_schema(&Replication::Simple(1)).await.expect("a schema");
            connect(config).await
        };
        self.store.get_or_init(open).await.clone()
    }

    fn history(&self) -> usize {
        HISTORY as usize
    }

    fn changes_per_editor(&self) -> usize {
        5
    }

    async fn open_another(&self, _: &CassandraDocuments) -> Option<CassandraDocuments> {
        Some(connect(config(&Server::shared().await.url)).await)
    }

    async fn held_versions(&self, _: &CassandraDocuments, name: &str) -> Option<usize> {
        Some(versions_in_the_table(Server::shared().await.node.as_ref()?, name).await)
    }

    /// A step is a request.
    async fn kill_writer(&self, _: &CassandraDocuments, change: KilledPut<'_>, steps: usize) -> bool {
        let Some(node) = &Server::shared().await.node else { return false };
        let proxy = CassandraProxy::to(node, change.name).await;
        let writer = connect_through(&proxy).await;
        let mut faults = vec![Fault::None; steps];
        faults.push(Fault::LoseRequest);
        proxy.inject(&faults);
        let by = Change::by("killed", Time::from_secs(1_790_000_000));
        // The future is dropped when the request is lost.
        tokio::select! {
            result = writer.put(change.name, change.text, change.expected, &by) => {
                result.expect("a put that is not killed");
                false
            }
            () = proxy.lost() => true,
        }
    }
}

/// Returns how many versions have items in a document's partition, whether its head names them or not.
async fn versions_in_the_table(node: &Cassandra, name: &str) -> usize {
    let key = name.bytes().fold("0x00".to_owned(), |mut key, byte| {
        write!(key, "{byte:02x}").expect("writing to a string");
        key
    });
    let query =
        format!("SELECT item FROM conformance_documents.documents WHERE key = {key} AND item >= 0x01");
    let items = node.query(&query).await.into_iter().flatten().flatten();
    items.map(|item| item[..9].to_vec()).collect::<BTreeSet<_>>().len()
}
