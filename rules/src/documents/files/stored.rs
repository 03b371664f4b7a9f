//! The file of a version: a line of JSON that says who made it, and the text.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tollgate_core::Time;
use tollgate_core::documents::{Document, DocumentError, MAX_DOCUMENT_SIZE, Revision};
use tollgate_core::{ErrorKind, StoreError};

use super::steps;

/// A version whose first line has been read.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) revision: Revision,
    /// The number in the name of the directory of its successor.
    pub(super) successor: String,
    size: usize,
    rest: BufReader<File>,
    path: PathBuf,
}

impl Stored {
    /// Opens the file of a version. `None` if there is none, or if it is empty because the version was dropped.
    pub(super) fn open(path: PathBuf) -> Result<Option<Self>, StoreError> {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failure("read", &path, error)),
        };
        let (mut rest, mut line) = (BufReader::new(file), Vec::new());
        rest.read_until(b'\n', &mut line).map_err(|error| failure("read", &path, error))?;
        if line.is_empty() {
            return Ok(None);
        }
        let Some((revision, successor, size)) = parse(&line) else {
            return Err(corrupt(&path, "its first line does not describe a version"));
        };
        Ok(Some(Self { revision, successor, size, rest, path }))
    }

    /// Returns the version, unless it is a deletion.
    pub(super) fn present(&self) -> Option<u64> {
        (!self.revision.deleted).then_some(self.revision.version)
    }

    /// Reads the text. `None` if the version is a deletion.
    pub(super) fn into_document(self) -> Result<Option<Document>, DocumentError> {
        if self.revision.deleted {
            return Ok(None);
        }
        let mut text = Vec::new();
        // One byte more than the size, to notice a longer text without reading all of it.
        let limit = u64::try_from(self.size).unwrap_or(u64::MAX).saturating_add(1);
        let read = self.rest.take(limit).read_to_end(&mut text);
        read.map_err(|error| failure("read", &self.path, error))?;
        if text.len() != self.size {
            return Err(corrupt(&self.path, "its text has another size than its first line says").into());
        }
        let text = String::from_utf8(text).map_err(|_| corrupt(&self.path, "its text is not UTF-8"))?;
        Ok(Some(Document { text, revision: self.revision }))
    }
}

fn parse(line: &[u8]) -> Option<(Revision, String, usize)> {
    let header: Value = serde_json::from_slice(line).ok()?;
    let text = |field: &str| Some(header.get(field)?.as_str()?.to_owned());
    let revision = Revision {
        version: header.get("version")?.as_u64()?,
        author: text("author")?,
        time: Time::from_nanos(header.get("time")?.as_u64()?),
        comment: text("comment")?,
        deleted: header.get("deleted")?.as_bool()?,
    };
    let size = usize::try_from(header.get("size")?.as_u64()?).ok()?;
    (size <= MAX_DOCUMENT_SIZE).then_some((revision, text("successor")?, size))
}

/// Writes a version to a new file, and waits until it is on the disk.
pub(super) fn write(path: &Path, revision: &Revision, successor: &str, text: &str) -> io::Result<()> {
    let header = json!({
        "version": revision.version,
        "author": revision.author,
        "time": revision.time.nanos(),
        "comment": revision.comment,
        "deleted": revision.deleted,
        "size": text.len(),
        "successor": successor,
    });
    let mut file = File::create_new(path)?;
    writeln!(file, "{header}")?;
    steps::done();
    let (start, end) = text.as_bytes().split_at(text.len() / 2);
    file.write_all(start)?;
    steps::done();
    file.write_all(end)?;
    steps::done();
    file.sync_all()
}

/// Waits until the entries of a directory are on the disk. Where directories cannot be opened, sees only that it is
/// there.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(path)?.sync_all() } else { fs::metadata(path).map(drop) }
}

/// Removes a file or a directory with its files. That it is gone already, or cannot be removed yet, is no error: the
/// next change tries again.
pub(super) fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Returns whether there is nothing at a path; also where a file of somebody else is in the place of a directory.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the error of file work that failed.
pub(super) fn failure(verb: &str, path: &Path, error: io::Error) -> StoreError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Refused,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        // Every other kind is a state of the machine, which may pass.
        _ => ErrorKind::Unavailable,
    };
    StoreError::new(kind, format!("cannot {verb} `{}`: {error}", path.display())).with_source(error)
}

fn corrupt(path: &Path, problem: &str) -> StoreError {
    let message = format!(
        "the version in `{}` is damaged: {problem}; restore the file, or remove it, and put the document again",
        path.display()
    );
    StoreError::new(ErrorKind::Corrupt, message)
}

/// Returns the error of file work that the runtime ended.
pub(super) fn interrupted(error: tokio::task::JoinError) -> StoreError {
    StoreError::new(ErrorKind::Internal, "the runtime ended the work on the document's files")
        .with_unknown_effect()
        .with_source(error)
}
