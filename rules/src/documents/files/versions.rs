//! The versions of one document in its directory.
//!
//! The compare-and-set is the creation of a file that must not exist yet: version 8 is created in a directory that
//! version 7 names, whose name is random and never used again. So nobody else can create another version 8, and also a
//! writer who comes back after version 8 was dropped finds no directory for it.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use tollgate_core::documents::{Change, DocumentError, Revision};
use tollgate_core::{ErrorKind, StoreError};

use super::stored::{self, Stored, failure, is_absent, remove, sync_directory};
use super::{names, steps};

/// How often a reader starts again because versions were dropped while it read. Each time, others made as many changes
/// as versions are kept.
const MAX_ATTEMPTS: usize = 10_000;
/// The file that a writer prepares in the directory of its version's successor.
pub(super) const DRAFT: &str = "draft";

/// The text of a new version.
#[derive(Debug)]
pub(super) enum Text {
    Of(String),
    Deleted,
}

/// The versions of one document.
#[derive(Debug)]
pub(super) struct Versions {
    pub(super) directory: PathBuf,
    root: PathBuf,
    /// How many are kept.
    pub(super) history: u64,
}

/// A directory for the successor of a version.
#[derive(Debug)]
pub(super) struct Slot {
    /// The version before.
    pub(super) after: u64,
    pub(super) path: PathBuf,
}

impl Slot {
    /// Returns the path of the version in it.
    pub(super) fn version(&self) -> PathBuf {
        self.path.join(file_name(self.after + 1))
    }
}

fn file_name(version: u64) -> String {
    format!("version-{version}")
}

/// How the creation of a version ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Created {
    Yes,
    /// Somebody else made this version.
    Not,
}

impl Versions {
    pub(super) fn new(root: &Path, name: &str, history: u64) -> Self {
        Self { directory: names::directory(root, name), root: root.to_owned(), history }
    }

    fn slot(&self, after: u64, number: &str) -> Slot {
        Slot { after, path: self.directory.join(format!("{after}-{number}")) }
    }

    pub(super) fn first(&self) -> PathBuf {
        self.directory.join(file_name(1))
    }

    /// Returns the directories for successors, the newest first. Those of writers that are at work, or were killed, are
    /// among them, without a version.
    pub(super) fn slots(&self) -> Result<Vec<Slot>, StoreError> {
        let mut slots = Vec::new();
        for path in self.entries()? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let after = name.split_once('-').and_then(|(after, _)| after.parse().ok());
            slots.extend(after.filter(|after| *after < u64::MAX).map(|after| Slot { after, path }));
        }
        slots.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.after));
        Ok(slots)
    }

    pub(super) fn entries(&self) -> Result<Vec<PathBuf>, StoreError> {
        let read =
            || fs::read_dir(&self.directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>();
        match read() {
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            result => result.map_err(|error| failure("read", &self.directory, error)),
        }
    }

    /// Returns the newest version, which may be a deletion.
    pub(super) fn newest(&self) -> Result<Option<Stored>, StoreError> {
        for _ in 0..MAX_ATTEMPTS {
            match self.some_version()? {
                Some(version) => {
                    if let Some(newest) = self.last_successor(version)? {
                        return Ok(Some(newest));
                    }
                }
                // Once it was there, this file is never gone: so there was no version when we looked.
                None if !exists(&self.first())? => return Ok(None),
                None => {}
            }
        }
        let message = format!(
            "the versions in `{}` change faster than they can be read, or a directory between them is missing",
            self.directory.display()
        );
        Err(StoreError::new(ErrorKind::Unavailable, message))
    }

    /// Returns a version close to the newest one. `None` if there is none, or if all were dropped meanwhile.
    fn some_version(&self) -> Result<Option<Stored>, StoreError> {
        for slot in self.slots()? {
            if let Some(version) = Stored::open(slot.version())? {
                return Ok(Some(version));
            }
        }
        Stored::open(self.first())
    }

    /// Follows a version's successors to the last one. `None` if some were dropped meanwhile.
    fn last_successor(&self, mut version: Stored) -> Result<Option<Stored>, StoreError> {
        loop {
            let slot = self.slot(version.revision.version, &version.successor);
            match Stored::open(slot.version())? {
                Some(successor) => version = successor,
                // The directory is there, so the successor was not when we looked.
                None if exists(&slot.path)? => return Ok(Some(version)),
                None => return Ok(None),
            }
        }
    }

    /// Returns a version, if it is kept.
    pub(super) fn kept(&self, version: u64) -> Result<Option<Stored>, StoreError> {
        let Some(newest) = self.newest()? else {
            return Ok(None);
        };
        let current = newest.revision.version;
        if version == current {
            return Ok(Some(newest));
        }
        if version == 0 || version > current || current - version >= self.history {
            return Ok(None);
        }
        if version == 1 {
            return Stored::open(self.first());
        }
        for slot in self.slots()?.into_iter().filter(|slot| slot.after + 1 == version) {
            if let Some(kept) = Stored::open(slot.version())? {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// Returns the kept revisions, the newest first.
    pub(super) fn history(&self) -> Result<Vec<Revision>, DocumentError> {
        let Some(newest) = self.newest()? else {
            return Ok(Vec::new());
        };
        let current = newest.revision.version;
        let mut revisions = vec![newest.revision];
        let older = |slot: &Slot| slot.after + 1 < current && current - (slot.after + 1) < self.history;
        for slot in self.slots()?.into_iter().filter(older) {
            revisions.extend(Stored::open(slot.version())?.map(|version| version.revision));
        }
        if current > 1 && current - 1 < self.history {
            revisions.extend(Stored::open(self.first())?.map(|version| version.revision));
        }
        Ok(revisions)
    }

    /// Makes a new version, if the current one is the expected one.
    pub(super) fn change(
        &self,
        text: &Text,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        let (text, deleted) = match text {
            Text::Of(text) => (text.as_str(), false),
            Text::Deleted => ("", true),
        };
        for _ in 0..MAX_ATTEMPTS {
            let newest = self.newest()?;
            let current = newest.as_ref().and_then(Stored::present);
            if current != expected {
                return Err(DocumentError::Conflict { expected, current });
            }
            let version = newest.as_ref().map_or(0, |newest| newest.revision.version) + 1;
            let revision = change.revision(version, deleted);
            match self.create(newest.as_ref(), &revision, text)? {
                Created::Yes => return Ok(revision),
                // Look again: the current version is another one now, or was created and deleted again.
                Created::Not => {}
            }
        }
        let message =
            format!("the versions in `{}` change faster than one can be made", self.directory.display());
        Err(StoreError::new(ErrorKind::Unavailable, message).into())
    }

    /// Creates the version after `newest`, if nobody else does.
    pub(super) fn create(
        &self,
        newest: Option<&Stored>,
        revision: &Revision,
        text: &str,
    ) -> Result<Created, StoreError> {
        steps::done();
        self.create_directory().map_err(|error| failure("create", &self.directory, error))?;
        let number = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let successor = self.slot(revision.version, &number);
        let draft = successor.path.join(DRAFT);
        let prepare = || {
            fs::create_dir(&successor.path)?;
            steps::done();
            stored::write(&draft, revision, &number, text)?;
            steps::done();
            // A version whose successor's directory is lost in a power failure could not be replaced.
            sync_directory(&self.directory)
        };
        let place = match newest {
            Some(newest) => self.slot(newest.revision.version, &newest.successor).version(),
            None => self.first(),
        };
        let linked = match prepare() {
            Ok(()) => {
                steps::done();
                fs::hard_link(&draft, &place)
            }
            Err(error) => Err(error),
        };
        steps::done();
        match linked {
            Ok(()) => {
                self.confirm(&place, &successor)?;
                self.clean(revision.version, &successor);
                Ok(Created::Yes)
            }
            Err(error) => {
                // On a network, the reply of a link that was made may be lost.
                let made = Stored::open(place.clone())?;
                if made.as_ref().is_some_and(|made| made.successor == number) {
                    self.confirm(&place, &successor)?;
                    return Ok(Created::Yes);
                }
                remove(&successor.path);
                // Another version is in the place, or the place is gone, since that version was dropped already. Or
                // the draft is gone, because others have seen that it comes too late.
                match error.kind() {
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Ok(Created::Not),
                    _ => Err(failure("create", &place, error)),
                }
            }
        }
    }

    /// Creates the directory of the document. It is never removed.
    fn create_directory(&self) -> io::Result<()> {
        if self.directory.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.directory)?;
        steps::done();
        let mut parents =
            self.directory.ancestors().skip(1).take_while(|parent| parent.starts_with(&self.root));
        parents.try_for_each(sync_directory)
    }

    /// Waits until a version that was created is on the disk.
    fn confirm(&self, place: &Path, successor: &Slot) -> Result<(), StoreError> {
        let parent = place.parent().unwrap_or(&self.directory);
        let unknown = |error| failure("create", place, error).with_unknown_effect();
        match sync_directory(parent) {
            Ok(()) => {
                steps::done();
                Ok(())
            }
            // Others have made so many versions meanwhile that this one was dropped. If one of them succeeds it, it was
            // made. If not, the place was dropped in the instant in which the version was created in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if exists(&successor.version())? {
                    Ok(())
                } else {
                    Err(unknown(error))
                }
            }
            Err(error) => Err(unknown(error)),
        }
    }
}

/// Returns whether there is a file or a directory.
fn exists(path: &Path) -> Result<bool, StoreError> {
    match path.try_exists() {
        Err(error) if is_absent(&error) => Ok(false),
        result => result.map_err(|error| failure("read", path, error)),
    }
}
