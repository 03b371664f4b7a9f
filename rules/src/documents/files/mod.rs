//! Versioned documents in a directory, which several processes may read and change at the same time.

mod clean;
mod names;
mod steps;
mod stored;
#[cfg(test)]
mod tests;
mod versions;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tollgate_core::StoreError;
use tollgate_core::documents::{
    Change, Document, DocumentError, DocumentStore, Polled, Revision, check_document,
};

use versions::{Text, Versions};

/// How many versions of a document are kept.
const DEFAULT_HISTORY: u64 = 20;

/// Stores versioned documents in a directory. Several processes can read and change it at the same time.
///
/// A change is durable when it returns. It takes no lock, so a process that is stopped or killed blocks nobody. The
/// file system must support hard links.
///
/// ```
/// # mod tollgate { pub use tollgate_core::*; pub mod rules { pub use tollgate_rules::*; } }
/// use tollgate::Time;
/// use tollgate::documents::{Change, DocumentError, DocumentStore};
/// use tollgate::rules::FileDocuments;
///
/// # async fn example() -> Result<(), DocumentError> {
/// let documents = FileDocuments::open("/var/lib/tollgate/documents")?;
/// let change = Change::by("ada", Time::from_secs(1_790_000_000));
/// let first = documents.put("rules/shop", "domain: shop", None, &change).await?;
/// documents.put("rules/shop", "domain: shop\nrules: []", Some(first.version), &change).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Layout of the directory
///
/// Each document is a directory, with the percent-encoded name and `=` at the end: `rules%2fshop=`. In it, version 1 is
/// the file `version-1`. Every version names a directory for its successor, with a number that is never used again: so
/// version 8 is `7-6f3c19d2a4b85e07/version-8`. The first line of a file says who made the version, when and why, in
/// JSON. The text follows as it is: `tail -n +2` prints it.
#[derive(Clone, Debug)]
pub struct FileDocuments {
    directory: Arc<PathBuf>,
    history: u64,
}

impl FileDocuments {
    /// Opens a directory of documents, and creates it if it does not exist.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(|error| stored::failure("create", &directory, error))?;
        Ok(Self { directory: Arc::new(directory), history: DEFAULT_HISTORY })
    }

    /// Sets how many versions of each document are kept, the current one included, at least 1. Default: 20.
    #[must_use]
    pub fn with_history(mut self, versions: usize) -> Self {
        self.history = u64::try_from(versions).unwrap_or(u64::MAX).max(1);
        self
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs file work on a document, where it may block.
    async fn of_document<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(Versions) -> Result<T, DocumentError> + Send + 'static,
    ) -> Result<T, DocumentError> {
        check_document(name, "")?;
        let versions = Versions::new(&self.directory, name, self.history);
        blocking(move || work(versions)).await
    }
}

/// Runs work that may block: on the runtime's threads for that, or where there is none, on this one.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DocumentError> + Send + 'static,
) -> Result<T, DocumentError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return work();
    };
    runtime.spawn_blocking(work).await.unwrap_or_else(|error| Err(stored::interrupted(error).into()))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl DocumentStore for FileDocuments {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        self.of_document(name, |versions| match versions.newest()? {
            Some(newest) => newest.into_document(),
            None => Ok(None),
        })
        .await
    }

    async fn get_if_changed(&self, name: &str, known: Option<u64>) -> Result<Polled, DocumentError> {
        self.of_document(name, move |versions| {
            let Some(newest) = versions.newest()? else {
                return Ok(Polled::Missing);
            };
            if Some(newest.revision.version) == known && !newest.revision.deleted {
                return Ok(Polled::Unchanged);
            }
            Ok(newest.into_document()?.map_or(Polled::Missing, Polled::Changed))
        })
        .await
    }

    async fn put(
        &self,
        name: &str,
        text: &str,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        check_document(name, text)?;
        let (text, change) = (Text::Of(text.to_owned()), change.clone());
        self.of_document(name, move |versions| versions.change(&text, expected, &change)).await
    }

    async fn delete(&self, name: &str, expected: u64, change: &Change) -> Result<Revision, DocumentError> {
        let change = change.clone();
        self.of_document(name, move |versions| versions.change(&Text::Deleted, Some(expected), &change)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        let (store, prefix) = (self.clone(), prefix.to_owned());
        blocking(move || {
            let mut names = names::all(&store.directory)?;
            names.retain(|name| name.starts_with(&prefix));
            names.sort_unstable();
            let mut listed = Vec::with_capacity(names.len());
            for name in names {
                let newest = Versions::new(&store.directory, &name, store.history).newest()?;
                if let Some(version) = newest.and_then(|newest| newest.present()) {
                    listed.push((name, version));
                }
            }
            Ok(listed)
        })
        .await
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        self.of_document(name, |versions| versions.history()).await
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        self.of_document(name, move |versions| match versions.kept(version)? {
            Some(kept) => kept.into_document(),
            None => Ok(None),
        })
        .await
    }
}
