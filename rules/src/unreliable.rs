//! A store of documents that fails or hangs when a test wants it to, and counts calls.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tollgate_core::documents::{Change, Document, DocumentError, DocumentStore, Polled, Revision};
use tollgate_core::{Effect, ErrorKind, StoreError, Time};
use tollgate_store_memory::MemoryDocuments;

/// What a test wants of the store.
#[derive(Default)]
struct Switches {
    error: Mutex<Option<StoreError>>,
    hangs: AtomicBool,
    /// Calls of `get` and `get_if_changed`.
    reads: AtomicUsize,
    lists: AtomicUsize,
}

/// A memory store with switches. Clones share everything.
#[derive(Clone, Default)]
pub(crate) struct Unreliable {
    pub(crate) documents: MemoryDocuments,
    switches: Arc<Switches>,
}

impl Unreliable {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn shared(&self) -> Arc<dyn DocumentStore> {
        Arc::new(self.clone())
    }

    /// Makes all calls fail.
    pub(crate) fn fail(&self) {
        self.fail_with(StoreError::new(ErrorKind::Unavailable, "no route"));
    }

    /// Makes all calls fail, after they have taken effect if the error says that they may have.
    pub(crate) fn fail_with(&self, error: StoreError) {
        *self.switches.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn recover(&self) {
        *self.switches.error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.switches.hangs.store(false, Ordering::SeqCst);
    }

    /// Makes all calls that begin from now on wait for ever.
    pub(crate) fn hang(&self) {
        self.switches.hangs.store(true, Ordering::SeqCst);
    }

    pub(crate) fn reads(&self) -> usize {
        self.switches.reads.load(Ordering::SeqCst)
    }

    pub(crate) fn lists(&self) -> usize {
        self.switches.lists.load(Ordering::SeqCst)
    }

    /// Writes the text of a document, whatever its version.
    pub(crate) async fn write(&self, name: &str, text: &str) {
        let current = self.documents.get(name).await.expect("in memory");
        let expected = current.map(|document| document.revision.version);
        let change = Change::by("ada", Time::from_secs(1_790_000_000));
        self.documents.put(name, text, expected, &change).await.expect("the current version");
    }

    /// Deletes a document.
    pub(crate) async fn erase(&self, name: &str) {
        let current = self.documents.get(name).await.expect("in memory").expect("a document");
        let change = Change::by("ada", Time::from_secs(1_790_000_000));
        self.documents.delete(name, current.revision.version, &change).await.expect("the current version");
    }

    async fn enter(&self) -> Result<(), DocumentError> {
        tokio::task::yield_now().await;
        if self.switches.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        match &*self.switches.error.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) if error.effect() == Effect::None => Err(error.clone().into()),
            Some(_) | None => Ok(()),
        }
    }

    fn leave<T>(&self, done: Result<T, DocumentError>) -> Result<T, DocumentError> {
        match &*self.switches.error.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone().into()),
            None => done,
        }
    }
}

#[async_trait]
impl DocumentStore for Unreliable {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        self.switches.reads.fetch_add(1, Ordering::SeqCst);
        self.enter().await?;
        let done = self.documents.get(name).await;
        self.leave(done)
    }

    async fn get_if_changed(&self, name: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        self.switches.reads.fetch_add(1, Ordering::SeqCst);
        self.enter().await?;
        let done = self.documents.get_if_changed(name, known).await;
        self.leave(done)
    }

    async fn put(
        &self,
        name: &str,
        text: &str,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        self.enter().await?;
        let done = self.documents.put(name, text, expected, change).await;
        self.leave(done)
    }

    async fn delete(&self, name: &str, expected: u64, change: &Change) -> Result<Revision, DocumentError> {
        self.enter().await?;
        let done = self.documents.delete(name, expected, change).await;
        self.leave(done)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        self.switches.lists.fetch_add(1, Ordering::SeqCst);
        self.enter().await?;
        let done = self.documents.list(prefix).await;
        self.leave(done)
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        self.documents.history(name).await
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        self.documents.get_version(name, version).await
    }
}
