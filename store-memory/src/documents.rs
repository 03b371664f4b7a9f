//! Versioned documents in memory: for tests, and for a single process whose rules come from elsewhere at each start.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use tollgate_core::documents::{
    Change, Document, DocumentError, DocumentStore, Polled, Revision, check_document,
};

/// How many versions of a document are kept.
const DEFAULT_HISTORY: usize = 20;

/// Stores versioned documents in memory. Clones share the documents.
///
/// ```
/// # mod tollgate { pub use tollgate_core::*; pub mod memory { pub use tollgate_store_memory::*; } }
/// use tollgate::Time;
/// use tollgate::documents::{Change, DocumentStore};
/// use tollgate::memory::MemoryDocuments;
///
/// # async fn example() -> Result<(), tollgate::documents::DocumentError> {
/// let documents = MemoryDocuments::new();
/// let change = Change::by("ada", Time::from_secs(1_790_000_000));
/// let first = documents.put("rules/shop", "domain: shop", None, &change).await?;
/// assert_eq!(first.version, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryDocuments {
    /// By name, the last versions, the newest first. There is at least one.
    documents: Arc<RwLock<BTreeMap<String, VecDeque<Arc<Version>>>>>,
    history: usize,
}

/// A version of a document. A deletion has an empty text.
#[derive(Debug)]
struct Version {
    text: String,
    revision: Revision,
}

type Documents = BTreeMap<String, VecDeque<Arc<Version>>>;

impl Version {
    fn to_document(&self) -> Option<Document> {
        (!self.revision.deleted)
            .then(|| Document { text: self.text.clone(), revision: self.revision.clone() })
    }
}

impl MemoryDocuments {
    /// Creates a store without documents.
    pub fn new() -> Self {
        Self { documents: Arc::default(), history: DEFAULT_HISTORY }
    }

    /// Sets how many versions of each document are kept, the current one included, at least 1. Default: 20.
    #[must_use]
    pub fn with_history(mut self, versions: usize) -> Self {
        self.history = versions.max(1);
        self
    }

    // Nothing panics between two changes of the map that belong together, so it is usable after a panic.
    fn read(&self) -> RwLockReadGuard<'_, Documents> {
        self.documents.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Documents> {
        self.documents.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the newest version, which may be a deletion.
    fn newest(&self, name: &str) -> Option<Arc<Version>> {
        self.read().get(name).and_then(VecDeque::front).cloned()
    }

    /// Adds a version, a deletion without a text, if the current one is the expected one.
    fn change(
        &self,
        name: &str,
        text: Option<&str>,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        check_document(name, text.unwrap_or_default())?;
        let text_and_deleted = (text.unwrap_or_default().to_owned(), text.is_none());
        let mut documents = self.write();
        let newest = documents.get(name).and_then(VecDeque::front).map(|version| &version.revision);
        let current = newest.filter(|revision| !revision.deleted).map(|revision| revision.version);
        if current != expected {
            return Err(DocumentError::Conflict { expected, current });
        }
        let (text, deleted) = text_and_deleted;
        let revision = change.revision(newest.map_or(0, |revision| revision.version) + 1, deleted);
        let versions = documents.entry(name.to_owned()).or_default();
        versions.push_front(Arc::new(Version { text, revision: revision.clone() }));
        versions.truncate(self.history);
        Ok(revision)
    }
}

impl Default for MemoryDocuments {
    fn default() -> Self {
        Self::new()
    }
}

/// Prints how many documents there are: their texts would fill a log.
impl fmt::Debug for MemoryDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let documents = self.read().len();
        f.debug_struct("MemoryDocuments")
            .field("documents", &documents)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DocumentStore for MemoryDocuments {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        check_document(name, "")?;
        Ok(self.newest(name).and_then(|version| version.to_document()))
    }

    async fn get_if_changed(&self, name: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        check_document(name, "")?;
        Ok(match self.newest(name) {
            Some(version) if version.revision.deleted => Polled::Missing,
            Some(version) if Some(version.revision.version) == known => Polled::Unchanged,
            Some(version) => version.to_document().map_or(Polled::Missing, Polled::Changed),
            None => Polled::Missing,
        })
    }

    async fn put(
        &self,
        name: &str,
        text: &str,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        self.change(name, Some(text), expected, change)
    }

    async fn delete(&self, name: &str, expected: u64, change: &Change) -> Result<Revision, DocumentError> {
        self.change(name, None, Some(expected), change)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        let documents = self.read();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let of_prefix = documents.range::<str, _>(from).take_while(|(name, _)| name.starts_with(prefix));
        let current = of_prefix.filter_map(|(name, versions)| {
            let revision = &versions.front()?.revision;
            (!revision.deleted).then(|| (name.clone(), revision.version))
        });
        Ok(current.collect())
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        check_document(name, "")?;
        let documents = self.read();
        let versions = documents.get(name).into_iter().flatten();
        Ok(versions.map(|version| version.revision.clone()).collect())
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        check_document(name, "")?;
        let documents = self.read();
        let mut versions = documents.get(name).into_iter().flatten();
        Ok(versions.find(|kept| kept.revision.version == version).and_then(|kept| kept.to_document()))
    }
}
