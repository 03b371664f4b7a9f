//! What a trial works with: a store, a prefix of its own, and what it says when an expectation is not met.

use std::sync::Arc;

use tollgate_core::Time;
use tollgate_core::documents::{Change, Document, DocumentError, DocumentStore, Polled, Revision};

use super::suite::DocumentSubject;

/// The time of the changes of trials. With nanoseconds, so that a store that rounds is noticed.
pub(crate) const NOW: Time = Time::from_nanos(1_790_000_000_123_456_789);

/// A store and a prefix for one trial.
pub(crate) struct Fixture<T: DocumentSubject> {
    pub(crate) subject: Arc<T>,
    pub(crate) store: Arc<T::Store>,
    prefix: String,
}

/// Everything that can be read of a document.
#[derive(Debug, PartialEq)]
pub(crate) struct Everything {
    pub(crate) current: Option<Document>,
    pub(crate) history: Vec<Revision>,
    pub(crate) versions: Vec<Option<Document>>,
    pub(crate) listed: Vec<(String, u64)>,
}

impl<T: DocumentSubject> Fixture<T> {
    pub(crate) fn new(subject: Arc<T>, store: Arc<T::Store>, prefix: String) -> Self {
        assert!((2..=20).contains(&subject.history()), "the subject keeps 2 to 20 versions");
        Self { subject, store, prefix }
    }

    /// Returns the name of a document of this trial.
    pub(crate) fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.prefix)
    }

    /// Returns a text that no other trial has in its names.
    pub(crate) fn unique(&self) -> &str {
        self.prefix.trim_end_matches('/')
    }

    /// Puts a version that must succeed.
    pub(crate) async fn put(&self, name: &str, text: &str, expected: Option<u64>) -> Revision {
        let put = self.store.put(name, text, expected, &by_ada()).await;
        put.unwrap_or_else(|error| panic!("put {name:?} on {expected:?} failed: {error}"))
    }

    /// Puts the texts one after the other, the first as a new document.
    pub(crate) async fn put_all(&self, name: &str, texts: &[&str]) {
        let mut expected = None;
        for text in texts {
            expected = Some(self.put(name, text, expected).await.version);
        }
    }

    /// Deletes a document that must exist.
    pub(crate) async fn delete(&self, name: &str, expected: u64) -> Revision {
        let deletion = self.store.delete(name, expected, &by_ada()).await;
        deletion.unwrap_or_else(|error| panic!("delete {name:?} on {expected} failed: {error}"))
    }

    pub(crate) async fn get(&self, name: &str) -> Option<Document> {
        self.store.get(name).await.unwrap_or_else(|error| panic!("get {name:?} failed: {error}"))
    }

    /// Returns the current text and version.
    pub(crate) async fn current(&self, name: &str) -> Option<(String, u64)> {
        self.get(name).await.map(|document| (document.text, document.revision.version))
    }

    pub(crate) async fn get_version(&self, name: &str, version: u64) -> Option<Document> {
        let got = self.store.get_version(name, version).await;
        got.unwrap_or_else(|error| panic!("get version {version} of {name:?} failed: {error}"))
    }

    pub(crate) async fn poll(&self, name: &str, known: Option<u64>) -> Polled {
        let polled = self.store.get_if_changed(name, known).await;
        polled.unwrap_or_else(|error| panic!("poll {name:?} failed: {error}"))
    }

    pub(crate) async fn history(&self, name: &str) -> Vec<Revision> {
        let history = self.store.history(name).await;
        history.unwrap_or_else(|error| panic!("the history of {name:?} failed: {error}"))
    }

    /// Returns the versions in the history.
    pub(crate) async fn versions(&self, name: &str) -> Vec<u64> {
        self.history(name).await.iter().map(|revision| revision.version).collect()
    }

    /// Lists by a prefix within this trial's own.
    pub(crate) async fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        let listed = self.store.list(&self.name(prefix)).await;
        listed.unwrap_or_else(|error| panic!("list {:?} failed: {error}", self.name(prefix)))
    }

    /// Returns everything that can be read of a document, to see that a failed change has changed nothing.
    pub(crate) async fn everything(&self, name: &str) -> Everything {
        let mut versions = Vec::new();
        for version in 0..6 {
            versions.push(self.get_version(name, version).await);
        }
        let (current, history) = (self.get(name).await, self.history(name).await);
        let listed = self.store.list(name).await.unwrap_or_else(|error| panic!("list {name:?}: {error}"));
        Everything { current, history, versions, listed }
    }

    /// Checks that a put is a conflict with the current version, and changes nothing.
    pub(crate) async fn expect_put_conflict(
        &self,
        name: &str,
        text: &str,
        expected: Option<u64>,
        current: Option<u64>,
    ) {
        let before = self.everything(name).await;
        let result = self.store.put(name, text, expected, &by_ada()).await;
        assert_conflict(name, result, (expected, current));
        assert_eq!(self.everything(name).await, before, "a conflict has changed {name:?}");
    }

    /// Checks that a deletion is a conflict with the current version, and changes nothing.
    pub(crate) async fn expect_delete_conflict(&self, name: &str, expected: u64, current: Option<u64>) {
        let before = self.everything(name).await;
        let result = self.store.delete(name, expected, &by_ada()).await;
        assert_conflict(name, result, (Some(expected), current));
        assert_eq!(self.everything(name).await, before, "a conflict has changed {name:?}");
    }
}

/// A change by an author, with a comment.
pub(crate) fn by_ada() -> Change {
    Change::by("ada", NOW).with_comment("why not")
}

/// Checks that a change failed with a conflict of these versions.
fn assert_conflict(
    name: &str,
    result: Result<Revision, DocumentError>,
    versions: (Option<u64>, Option<u64>),
) {
    match result {
        Err(DocumentError::Conflict { expected, current }) => {
            assert_eq!((expected, current), versions, "(expected, current) of the conflict on {name:?}");
        }
        other => panic!("a conflict of (expected, current) {versions:?} on {name:?}, not {other:?}"),
    }
}
