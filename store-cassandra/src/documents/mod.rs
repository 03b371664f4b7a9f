//! Versioned documents on Cassandra.
//!
//! # Layout
//!
//! - `change`: changes, with lost responses. `read`: reading. `call`: the requests of a call, with retries.
//! - `head`, `revision`: what is stored, and its form. `item`: where.
//! - `statements`: the prepared statements.

mod call;
mod change;
mod head;
mod item;
mod read;
mod revision;
mod statements;

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_core::StoreError;
use tollgate_core::documents::{
    Change, Document, DocumentError, DocumentStore, Polled, Revision, check_document,
};

use crate::Config;
use crate::options::StoreOptions;
use crate::session::LazySession;
use call::Call;
use head::Head;
use statements::DocumentStatements;

/// The size of the parts that texts are stored in. Servers accept much larger ones, but not a whole document: the
/// largest mutation is half a segment of the commit log.
const PART_SIZE: usize = 256 * 1024;

/// Versioned documents on Apache Cassandra, such as rule sets: a [`DocumentStore`]. Clones share their connections.
///
/// Created by [`Config::connect_documents`]. Calls need a tokio runtime.
///
/// ```no_run
/// use tollgate::cassandra::{Config, Replication};
/// use tollgate_core::documents::{Change, DocumentStore};
/// # use tollgate_core::Time;
///
/// # async fn edit(now: Time) -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::new("cassandra://db1,db2/limits");
/// config.create_schema(&Replication::in_datacenters([("dc1", 3)])).await?; // once, when you deploy
/// let documents = config.connect_documents().await?;
/// let change = Change::by("ada", now).with_comment("first rules");
/// let first = documents.put("rules/shop", "domain: shop", None, &change).await?;
/// documents.put("rules/shop", "domain: shop\nrules: []", Some(first.version), &change).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// A change is one lightweight transaction on the document's head, which names its last versions. Texts are written
/// before, under a random id, so that a writer that is killed has changed nothing or everything; later changes remove
/// what it has left behind. Heads are read serially, and texts at quorum, whatever [`Config::consistency`] says of
/// commits: a change is visible once it has returned. If the response to the transaction is lost, a serial read finds out whether it was applied; an error of unknown effect remains only if the
/// servers do not answer that either, or if 32 other changes have followed.
///
/// # Limits
///
/// - The author and the comment of a change have at most 64 KiB together.
/// - A document is one partition: its size times the number of kept versions should stay below 100 MB.
/// - [`Config::call_timeout`] applies to a whole change or a whole text. [`list`](DocumentStore::list) reads the head of
///   every document that it returns, and has that time for every 32 of them.
/// - A deleted document leaves its history and its name in the table, because its versions go on growing.
#[derive(Clone, Debug)]
pub struct CassandraDocuments {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    session: LazySession<DocumentStatements>,
    options: StoreOptions,
    /// How many versions of a document are kept.
    versions: u32,
}

impl Inner {
    async fn start(&self) -> Result<Call<'_>, StoreError> {
        Call::start(&self.session, &self.options).await
    }
}

impl CassandraDocuments {
    /// Connects to the cluster at `url`, with defaults for everything else. [`Config`] documents the URL.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Config::new(url).connect_documents().await
    }

    pub(crate) fn new(
        session: LazySession<DocumentStatements>,
        options: StoreOptions,
        versions: u32,
    ) -> Self {
        Self { inner: Arc::new(Inner { session, options, versions }) }
    }

    async fn version(
        &self,
        name: &str,
        select: impl Fn(&Head) -> Option<u64> + Send,
    ) -> Result<Option<Document>, DocumentError> {
        check_document(name, "")?;
        let (partition, call) = (item::partition(name), self.inner.start().await?);
        let stored = call.head(&partition).await?;
        Ok(read::document(&call, &partition, stored, select).await?)
    }
}

#[async_trait]
impl DocumentStore for CassandraDocuments {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        self.version(name, Head::current).await
    }

    async fn get_if_changed(&self, name: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        check_document(name, "")?;
        let (partition, call) = (item::partition(name), self.inner.start().await?);
        let stored = call.head(&partition).await?;
        if known.is_some() && stored.head.current() == known {
            return Ok(Polled::Unchanged);
        }
        let document = read::document(&call, &partition, stored, Head::current).await?;
        Ok(document.map_or(Polled::Missing, Polled::Changed))
    }

    async fn put(
        &self,
        name: &str,
        text: &str,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        change::change(&self.inner, name, Some(text), expected, change).await
    }

    async fn delete(&self, name: &str, expected: u64, change: &Change) -> Result<Revision, DocumentError> {
        change::change(&self.inner, name, None, Some(expected), change).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        Ok(read::list(&self.inner, prefix).await?)
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        check_document(name, "")?;
        let call = self.inner.start().await?;
        Ok(read::history(&call, &item::partition(name)).await?)
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        self.version(name, |head| head.text_of(version).map(|_| version)).await
    }
}
