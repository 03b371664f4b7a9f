//! Which documents are rules, and how all of them are read as they were at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate_core::documents::{Document, DocumentError, DocumentStore, Polled};
use tollgate_core::{ErrorKind, StoreError};

use crate::source::Source;

/// The most documents that rules are read from.
pub(super) const MAX_DOCUMENTS: usize = 10_000;
/// The most bytes that they have together: 64 MiB.
pub(super) const MAX_TOTAL_SIZE: usize = 64 * 1024 * 1024;
/// How often documents are read again because some have changed in the meantime.
const ATTEMPTS: usize = 4;

/// Which documents are rules.
#[derive(Clone, Debug)]
pub(super) enum Selection {
    Document(String),
    Prefix(String),
}

/// Documents by name, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Documents {
    by_name: BTreeMap<String, Text>,
    /// The bytes of all texts.
    size: usize,
}

/// A version of a document.
#[derive(Clone, Debug)]
struct Text {
    version: u64,
    text: Arc<str>,
}

/// A version of a document has one text.
impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl Eq for Text {}

/// Why documents could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The store did not answer.
    Unavailable(StoreError),
    /// It did, but these documents cannot be rules.
    Unusable(String),
}

impl From<DocumentError> for ReadError {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Store(error) if error.kind() != ErrorKind::Corrupt => Self::Unavailable(error),
            other => Self::Unusable(other.to_string()),
        }
    }
}

impl From<Document> for Text {
    fn from(document: Document) -> Self {
        Self { version: document.revision.version, text: document.text.into() }
    }
}

impl Documents {
    /// Reads all documents of a selection, as they were at one moment. Those that are `known` are not read again.
    pub(super) async fn read(
        store: &dyn DocumentStore,
        selection: &Selection,
        known: &Self,
    ) -> Result<Self, ReadError> {
        let read = match selection {
            Selection::Document(name) => known.read_one(store, name).await?,
            Selection::Prefix(prefix) => known.read_all(store, prefix).await?,
        };
        if read.by_name.is_empty() {
            return Err(ReadError::Unusable(match selection {
                Selection::Document(name) => format!("there is no document `{name}`; create it"),
                Selection::Prefix(prefix) => {
                    format!("there is no document whose name starts with `{prefix}`; create one")
                }
            }));
        }
        Ok(read)
    }

    async fn read_one(&self, store: &dyn DocumentStore, name: &str) -> Result<Self, ReadError> {
        let known = self.by_name.get(name);
        let mut read = Self::default();
        match (store.get_if_changed(name, known.map(|known| known.version)).await?, known) {
            (Polled::Changed(document), _) => read.insert(name, document.into())?,
            (Polled::Unchanged, Some(known)) => read.insert(name, known.clone())?,
            (Polled::Unchanged, None) => {
                let why = "the store says that a document is unchanged that was never read";
                return Err(ReadError::Unavailable(StoreError::new(ErrorKind::Internal, why)));
            }
            (Polled::Missing, _) => {}
        }
        Ok(read)
    }

    /// Lists the documents, and reads those that are new or changed, until a list agrees with what was read: a change
    /// of several documents at once, such as a directory that is swapped, is never read in part.
    async fn read_all(&self, store: &dyn DocumentStore, prefix: &str) -> Result<Self, ReadError> {
        let mut known = self.clone();
        for _ in 0..ATTEMPTS {
            let listed = store.list(prefix).await?;
            if listed.len() > MAX_DOCUMENTS {
                return Err(ReadError::Unusable(format!(
                    "{} documents start with `{prefix}`; use at most {MAX_DOCUMENTS}",
                    listed.len()
                )));
            }
            let (mut read, mut is_complete) = (Self::default(), true);
            for (name, version) in listed {
                match known.by_name.get(&name) {
                    Some(known) if known.version == version => read.insert(&name, known.clone())?,
                    Some(_) | None => {
                        is_complete = false;
                        // One that was deleted in the meantime is missing in the next list, too.
                        if let Some(document) = store.get(&name).await? {
                            read.insert(&name, document.into())?;
                        }
                    }
                }
            }
            if is_complete {
                return Ok(read);
            }
            known = read;
        }
        let why =
            "the documents of the rules changed while they were read; they are read again at the next poll";
        Err(ReadError::Unavailable(StoreError::new(ErrorKind::Unavailable, why)))
    }

    fn insert(&mut self, name: &str, text: Text) -> Result<(), ReadError> {
        self.size += text.text.len();
        self.by_name.insert(name.to_owned(), text);
        if self.size > MAX_TOTAL_SIZE {
            return Err(ReadError::Unusable(format!(
                "the documents have more than {MAX_TOTAL_SIZE} bytes together; use fewer or smaller ones"
            )));
        }
        Ok(())
    }

    /// Adds a document that was not read from the store. `false` if there is no more room.
    pub(super) fn add(&mut self, name: &str, version: u64, text: &str) -> bool {
        self.by_name.len() < MAX_DOCUMENTS && self.insert(name, Text { version, text: text.into() }).is_ok()
    }

    /// Returns the documents as the sources of rules.
    pub(super) fn sources(&self) -> Vec<Source> {
        let source =
            |(name, document): (&String, &Text)| Source::new(name.as_str(), Arc::clone(&document.text));
        self.by_name.iter().map(source).collect()
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns the names and versions.
    pub(super) fn versions(&self) -> Vec<(String, u64)> {
        self.by_name.iter().map(|(name, document)| (name.clone(), document.version)).collect()
    }

    /// Returns the names, versions and texts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64, &str)> {
        self.by_name.iter().map(|(name, document)| (name.as_str(), document.version, &*document.text))
    }

    /// Returns a digest of the names and texts.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = Sha256::new();
        for (name, _, text) in self.iter() {
            for part in [name, text] {
                hasher.update((part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
        let digest = hasher.finalize();
        digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
