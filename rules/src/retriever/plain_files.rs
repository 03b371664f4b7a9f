//! A file or a directory that an operator edits, as documents that can only be read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::Utf8Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tollgate_core::documents::{
    Change, Document, DocumentError, DocumentStore, MAX_DOCUMENT_SIZE, Revision, check_document,
};
use tollgate_core::{Clock, ErrorKind, StoreError, SystemClock};

use super::collect::MAX_TOTAL_SIZE;

/// The endings of the names of rule files.
const ENDINGS: [&str; 4] = ["yaml", "yml", "toml", "json"];
/// The most entries of a directory that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// Reads rules from a plain file, or from the files of a directory: those whose names end in `.yaml`, `.yml`, `.toml` or
/// `.json`. A document is named after its file, without the directory.
///
/// Hidden files, backups of editors and directories in it are ignored. Symbolic links are followed, so a directory that
/// Kubernetes mounts and swaps is read in full before or after the swap. Contents are compared, not times: every
/// [`list`](DocumentStore::list) reads all files. Use a [`Retriever`](super::Retriever) with an empty
/// [prefix](super::RetrieverBuilder::prefix) to read them once per interval. Write a file under a hidden name and rename
/// it, as most editors do: one that is written in place may be read while half of it is there.
///
/// Versions count the changes that this value has seen. Only the current one is kept, and documents cannot be changed.
#[derive(Clone)]
pub struct PlainFiles<C = SystemClock> {
    shared: Arc<Shared<C>>,
}

struct Shared<C> {
    path: PathBuf,
    clock: C,
    /// What was read last, by the name of the file.
    seen: Mutex<BTreeMap<String, Seen>>,
}

/// What was read of a file last.
struct Seen {
    /// `None` once it has disappeared.
    contents: Option<Arc<[u8]>>,
    revision: Revision,
}

impl PlainFiles {
    /// Creates a store that reads a file, or the files of a directory. It need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_clock(path, SystemClock::new())
    }
}

impl<C: Clock> PlainFiles<C> {
    /// Creates a store that dates what it finds changed by `clock`.
    pub fn with_clock(path: impl Into<PathBuf>, clock: C) -> Self {
        Self { shared: Arc::new(Shared { path: path.into(), clock, seen: Mutex::default() }) }
    }
}

impl<C: Clock> Shared<C> {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_directory(&self) -> Result<bool, DocumentError> {
        Ok(fs::metadata(&self.path).map_err(|error| failed(&self.path, &error))?.is_dir())
    }

    /// Returns the rule files that there are.
    fn files(&self) -> Result<Vec<(String, PathBuf)>, DocumentError> {
        if !self.is_directory()? {
            return Ok(vec![(file_name(&self.path)?.to_owned(), self.path.clone())]);
        }
        let mut files = Vec::new();
        let entries = fs::read_dir(&self.path).map_err(|error| failed(&self.path, &error))?;
        for (index, entry) in entries.enumerate() {
            if index >= MAX_ENTRIES {
                return Err(unusable(&self.path, format_args!("more than {MAX_ENTRIES} entries; use fewer")));
            }
            let path = entry.map_err(|error| failed(&self.path, &error))?.path();
            if is_rule_file(&path) {
                files.push((file_name(&path)?.to_owned(), path));
            }
        }
        Ok(files)
    }

    /// Returns where a document is, if there is one.
    fn file(&self, name: &str) -> Result<Option<PathBuf>, DocumentError> {
        check_document(name, "")?;
        if !self.is_directory()? {
            return Ok((file_name(&self.path)? == name).then(|| self.path.clone()));
        }
        let path = self.path.join(name);
        // A name with a slash is no file of this directory.
        let is_inside = path.file_name() == Some(name.as_ref()) && path.parent() == Some(&self.path);
        Ok((is_inside && is_rule_file(&path)).then_some(path))
    }

    /// Reads all files, and returns the names and versions of those that start with `prefix`, sorted.
    fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        // Locked while files are read, so that what is read later is also recorded later.
        let mut seen = self.lock();
        let mut found = BTreeMap::new();
        let mut size = 0;
        for (name, path) in self.files()? {
            if let Some(contents) = read(&path)? {
                size += contents.len();
                if size > MAX_TOTAL_SIZE {
                    let why =
                        format_args!("more than {MAX_TOTAL_SIZE} bytes of rules; use fewer or smaller files");
                    return Err(unusable(&self.path, why));
                }
                found.insert(name, contents);
            }
        }
        for (name, seen) in &mut *seen {
            if !found.contains_key(name) {
                seen.change(None, &self.clock);
            }
        }
        let mut listed = Vec::new();
        for (name, contents) in found {
            let version = update(&mut seen, &name, contents, &self.clock).revision.version;
            if name.starts_with(prefix) {
                listed.push((name, version));
            }
        }
        Ok(listed)
    }

    /// Reads one file.
    fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        let mut seen = self.lock();
        if let Some(path) = self.file(name)?
            && let Some(contents) = read(&path)?
        {
            let seen = update(&mut seen, name, contents, &self.clock);
            let contents = seen.contents.as_deref().unwrap_or_default();
            let text = std::str::from_utf8(contents).map_err(|error| no_text(&path, contents, error))?;
            return Ok(Some(Document { text: text.to_owned(), revision: seen.revision.clone() }));
        }
        if let Some(seen) = seen.get_mut(name) {
            seen.change(None, &self.clock);
        }
        Ok(None)
    }
}

/// Returns whether the name of a file is that of a rule file, and not hidden.
fn is_rule_file(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !is_hidden && ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

/// Records the contents of a file, and returns what is known of it.
fn update<'a>(
    seen: &'a mut BTreeMap<String, Seen>,
    name: &str,
    contents: Vec<u8>,
    clock: &impl Clock,
) -> &'a Seen {
    let revision = Revision {
        version: 0,
        author: String::new(),
        time: clock.now(),
        comment: String::new(),
        deleted: true,
    };
    let seen = seen.entry(name.to_owned()).or_insert(Seen { contents: None, revision });
    seen.change(Some(contents), clock);
    seen
}

impl Seen {
    /// Counts another version if the contents differ.
    fn change(&mut self, contents: Option<Vec<u8>>, clock: &impl Clock) {
        if self.contents.as_deref() != contents.as_deref() {
            self.revision.version += 1;
            self.revision.time = clock.now();
            self.revision.deleted = contents.is_none();
            self.contents = contents.map(Arc::from);
        }
    }
}

/// Reads a file. `None` if it has disappeared, or is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, DocumentError> {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    // Looked at first: to open a named pipe would wait for whoever writes to it.
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if gone(&error) => return Ok(None),
        Err(error) => return Err(failed(path, &error)),
    }
    let mut contents = Vec::new();
    let limit = MAX_DOCUMENT_SIZE as u64 + 1;
    match File::open(path).and_then(|file| file.take(limit).read_to_end(&mut contents)) {
        Ok(size) if size > MAX_DOCUMENT_SIZE => {
            Err(unusable(path, format_args!("more than {MAX_DOCUMENT_SIZE} bytes; use fewer")))
        }
        Ok(_) => Ok(Some(contents)),
        Err(error) if gone(&error) => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

fn failed(path: &Path, error: &io::Error) -> DocumentError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Refused,
        _ => ErrorKind::Unavailable,
    };
    StoreError::new(kind, format!("{}: {error}", path.display())).into()
}

fn unusable(path: &Path, why: impl fmt::Display) -> DocumentError {
    StoreError::new(ErrorKind::Corrupt, format!("{}: {why}", path.display())).into()
}

fn file_name(path: &Path) -> Result<&str, DocumentError> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_str();
    name.ok_or_else(|| unusable(path, "the name of the file is not UTF-8; rename it"))
}

/// Says where the first byte is that is not UTF-8.
fn no_text(path: &Path, contents: &[u8], error: Utf8Error) -> DocumentError {
    let before = String::from_utf8_lossy(&contents[..error.valid_up_to()]);
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
    let place = format!("{}:{line}:{column}", path.display());
    let why = format!("{place}: this is not UTF-8; save the file as UTF-8");
    StoreError::new(ErrorKind::Corrupt, why).into()
}

/// Does blocking work on a thread for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DocumentError> + Send + 'static,
) -> Result<T, DocumentError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(StoreError::new(ErrorKind::Internal, "reading files panicked").into()))
}

#[async_trait]
impl<C: Clock + 'static> DocumentStore for PlainFiles<C> {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        blocking(move || shared.get(&name)).await
    }

    async fn put(&self, _: &str, _: &str, _: Option<u64>, _: &Change) -> Result<Revision, DocumentError> {
        Err(DocumentError::ReadOnly)
    }

    async fn delete(&self, _: &str, _: u64, _: &Change) -> Result<Revision, DocumentError> {
        Err(DocumentError::ReadOnly)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>, DocumentError> {
        let (shared, prefix) = (Arc::clone(&self.shared), prefix.to_owned());
        blocking(move || shared.list(&prefix)).await
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        blocking(move || {
            shared.get(&name)?;
            Ok(shared.lock().get(&name).map(|seen| seen.revision.clone()).into_iter().collect())
        })
        .await
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        Ok(self.get(name).await?.filter(|document| document.revision.version == version))
    }
}

impl<C> fmt::Debug for PlainFiles<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainFiles").field("path", &self.shared.path).finish_non_exhaustive()
    }
}
