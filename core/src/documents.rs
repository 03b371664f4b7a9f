//! Versioned documents: where rule sets and plan assignments are stored. For authors of such stores, and of programs
//! that edit documents.
//!
//! A document is a text with a name. Every change creates a new version, and says which version it replaces, so that
//! two editors cannot overwrite each other unnoticed. The last versions are kept.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::time::Time;

/// The longest name of a document, in bytes.
pub const MAX_DOCUMENT_NAME: usize = 512;
/// The largest document, in bytes: 16 MiB.
pub const MAX_DOCUMENT_SIZE: usize = 16 * 1024 * 1024;

/// Keeps versioned documents.
///
/// # What every document store promises
///
/// - **Compare-and-set**: of several changes that expect the same version, exactly one succeeds. The others fail with
///   [`DocumentError::Conflict`], which has the current version, and change nothing.
/// - **Versions of a name only grow**, from 1, by one per change, also when the document is deleted and created again:
///   a deletion is a version without text. So an editor who expects version 3 never replaces another version 3.
/// - **All or nothing**: a reader sees a version in full or not at all, also if a writer is killed between its steps.
///   What a killed writer has left behind neither blocks later changes nor appears as a version.
/// - **History**: the last versions are kept, as many as the store is configured to (Default: 20), with their author,
///   time, comment and text. The current version and deletions count. Older versions are dropped; the current one never
///   is, also if it is a deletion.
/// - **A change is visible at once** to every reader that starts after it returned, and versions never go backwards
///   for a reader.
/// - **Names are any text** of 1 to [`MAX_DOCUMENT_NAME`] bytes without control characters, compared byte by byte.
///   `../x`, `a/b` and `A` are names like any other, and no two of them share a document. Every method that has a name
///   refuses one that is invalid.
/// - **Texts, authors and comments** are kept byte for byte, times to the nanosecond.
///
/// If a change fails with a [`StoreError`] of unknown effect, read the document to see whether it was made: the change
/// itself cannot be made twice, since the version that it expects is gone.
///
/// Documents are read and changed rarely: the trait is object-safe, so that programs hold an `Arc<dyn DocumentStore>`.
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// Returns the current version of a document. `None` if there is none, or if it was deleted.
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError>;

    /// Returns the current version of a document unless it is `known`. For polling: stores answer an unchanged document
    /// without sending its text where they can.
    async fn get_if_changed(&self, name: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        Ok(match self.get(name).await? {
            Some(document) if Some(document.revision.version) == known => Polled::Unchanged,
            Some(document) => Polled::Changed(document),
            None => Polled::Missing,
        })
    }

    /// Creates or replaces a document, and returns its new revision. `expected` is the version that the change
    /// replaces; `None` if the document does not exist, or was deleted. The text may be the same as before: it is a new
    /// version.
    async fn put(
        &self,
        name: &str,
        text: &str,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError>;

    /// Deletes a document, and returns the revision that says so. Its history remains. To delete a document that does
    /// not exist, or was deleted, is a conflict.
    async fn delete(&self, name: &str, expected: u64, change: &Change) -> Result<Revision, DocumentError>;

    /// Returns the names that start with `prefix`, with the current version of each, sorted by the bytes of the name.
    /// Deleted documents are left out. A prefix is any text, compared byte by byte: an empty one lists every document,
    /// and one that no name can have lists none.
    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError>;

    /// Returns the kept revisions of a document, the newest first, also those of one that was deleted; empty if there
    /// never was one.
    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError>;

    /// Returns a kept version of a document. `None` if it is not kept, or if it was a deletion. To roll back to it,
    /// [`put`](Self::put) its text as a new version.
    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError>;
}

/// A shared store is a store.
#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: DocumentStore + ?Sized> DocumentStore for Arc<S> {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        (**self).get(name).await
    }

    async fn get_if_changed(&self, name: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        (**self).get_if_changed(name, known).await
    }

    async fn put(
        &self,
        name: &str,
        text: &str,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        (**self).put(name, text, expected, change).await
    }

    async fn delete(&self, name: &str, expected: u64, change: &Change) -> Result<Revision, DocumentError> {
        (**self).delete(name, expected, change).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        (**self).list(prefix).await
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        (**self).history(name).await
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        (**self).get_version(name, version).await
    }
}

/// A version of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The text.
    pub text: String,
    /// Which version it is, and who made it.
    pub revision: Revision,
}

/// Who made a version of a document, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The version: 1 for the first.
    pub version: u64,
    /// Who made the change.
    pub author: String,
    /// When the change was made, by the clock that [`Change::time`] was taken from.
    pub time: Time,
    /// Why the change was made.
    pub comment: String,
    /// Whether the change deleted the document.
    pub deleted: bool,
}

/// Who makes a change, when and why. The time is the caller's, so that tests can set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Who makes the change.
    pub author: String,
    /// The time of the change.
    pub time: Time,
    /// Why the change is made. May be empty.
    pub comment: String,
}

impl Change {
    /// Creates a change without a comment.
    pub fn by(author: impl Into<String>, time: Time) -> Self {
        Self { author: author.into(), time, comment: String::new() }
    }

    /// Sets the comment.
    #[must_use]
    pub fn with_comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = comment.into();
        self
    }

    /// Returns the revision that this change makes. For authors of stores.
    pub fn revision(&self, version: u64, deleted: bool) -> Revision {
        let Self { author, time, comment } = self.clone();
        Revision { version, author, time, comment, deleted }
    }
}

/// The answer to a poll ([`DocumentStore::get_if_changed`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// The document is still the known version.
    Unchanged,
    /// The document has another version.
    Changed(Document),
    /// There is no such document.
    Missing,
}

/// Why a document could not be read or changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DocumentError {
    /// The document has another version than the change expects: somebody else changed it. Nothing was changed.
    Conflict {
        /// The expected version. `None` if the document was expected not to exist.
        expected: Option<u64>,
        /// The current version. `None` if the document does not exist, or was deleted.
        current: Option<u64>,
    },
    /// The name is empty, too long, or has control characters.
    InvalidName(String),
    /// The text is larger than [`MAX_DOCUMENT_SIZE`].
    TooLarge {
        /// The size of the text in bytes.
        size: usize,
    },
    /// These documents cannot be changed here, such as those that are read from another Tollgate.
    ReadOnly,
    /// The store failed.
    Store(StoreError),
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { expected, current } => {
                let version = |version: &Option<u64>| {
                    version.map_or("no document".to_string(), |version| format!("version {version}"))
                };
                write!(
                    f,
                    "the change expects {}, but there is {}; read it, and repeat the change on it",
                    version(expected),
                    version(current)
                )
            }
            Self::InvalidName(problem) => write!(
                f,
                "the name of the document {problem}; use 1 to {MAX_DOCUMENT_NAME} bytes without control characters"
            ),
            Self::TooLarge { size } => {
                write!(f, "the document has {size} bytes; use at most {MAX_DOCUMENT_SIZE}")
            }
            Self::ReadOnly => {
                f.write_str("these documents can only be read here; change them where they are stored")
            }
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DocumentError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Conflict { .. } | Self::InvalidName(_) | Self::TooLarge { .. } | Self::ReadOnly => None,
        }
    }
}

impl From<StoreError> for DocumentError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Checks a name and the size of a text, as every store does before anything else.
pub fn check_document(name: &str, text: &str) -> Result<(), DocumentError> {
    let invalid = |problem: &str| Err(DocumentError::InvalidName(problem.to_string()));
    if name.is_empty() {
        return invalid("is empty");
    }
    if name.len() > MAX_DOCUMENT_NAME {
        return Err(DocumentError::InvalidName(format!("has {} bytes", name.len())));
    }
    if name.chars().any(char::is_control) {
        return invalid("has control characters");
    }
    if text.len() > MAX_DOCUMENT_SIZE {
        return Err(DocumentError::TooLarge { size: text.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_would_be_right() {
        let conflict = DocumentError::Conflict { expected: Some(3), current: Some(5) };
        assert_eq!(
            conflict.to_string(),
            "the change expects version 3, but there is version 5; read it, and repeat the change on it"
        );
        let long = check_document(&"n".repeat(513), "").expect_err("too long");
        assert_eq!(
            long.to_string(),
            "the name of the document has 513 bytes; use 1 to 512 bytes without control characters"
        );
        assert!(check_document("", "").is_err() && check_document("a\nb", "").is_err());
        let large = check_document("rules", &"x".repeat(MAX_DOCUMENT_SIZE + 1)).expect_err("too large");
        assert_eq!(large.to_string(), "the document has 16777217 bytes; use at most 16777216");
        check_document("rules/shop", "domain: shop").expect("valid");
    }
}
