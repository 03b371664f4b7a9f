//! A document store with one fault.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tollgate_conformance::{DocumentSubject, KilledPut};
use tollgate_core::Time;
use tollgate_core::documents::{Change, Document, DocumentError, DocumentStore, Revision, check_document};

pub(crate) const HISTORY: usize = 3;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A change does not compare the version that it expects.
    ComparesNothing,
    /// Only a creation does not compare.
    CreatesOverPresent,
    /// The lock is released between comparing and writing.
    UnlocksBeforeWriting,
    /// A conflict has the version before the current one.
    ConflictWithoutCurrent,
    /// A conflict leaves the change in the history.
    ConflictChanges,
    /// A deletion removes everything, so that versions start again.
    ReusesVersions,
    /// The version of a deletion counts as the current one.
    DeletionIsCurrent,
    /// Deleted documents are listed.
    ListsDeleted,
    /// Every document is listed.
    IgnoresPrefix,
    /// `*` and `%` in a prefix match anything.
    PrefixIsPattern,
    /// Names are listed without regard to case.
    SortsByLowerCase,
    /// Old versions are never dropped.
    KeepsAll,
    /// Old versions are not shown, but kept.
    HidesOld,
    /// One version too few is kept.
    KeepsOneLess,
    /// The history starts with the oldest version.
    OldestFirst,
    /// The history is that of all documents whose names start alike.
    HistoryOfPrefix,
    /// Comments are lost.
    LosesComments,
    /// Times are kept in milliseconds.
    RoundsTimes,
    /// The version of a deletion has an empty text.
    DeletionHasText,
    /// Names are compared without regard to case.
    IgnoresCase,
    /// `..` and `//` in names are resolved.
    ResolvesPaths,
    /// Names are cut after 255 bytes.
    CutsNames,
    /// Reading an invalid name finds nothing.
    ReadsInvalidNames,
    /// Line ends are those of Unix.
    ChangesLineEnds,
    /// A newline is added at the end.
    EndsLines,
    /// Texts of any size are stored.
    StoresLargeTexts,
    /// A poll answers by version only, also when the document is deleted.
    PollsDeleted,
    /// A poll answers every known version with the document.
    NeverUnchanged,
    /// What a killed writer leaves behind is a version without its text.
    KilledLeavesHalf,
    /// What a killed writer leaves behind blocks others.
    KilledBlocks,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    /// The newest first.
    versions: Vec<(String, Revision)>,
    blocked: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Faulty {
    fault: Fault,
    documents: Arc<Mutex<BTreeMap<String, Entry>>>,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, name: &str) -> String {
        match self.fault {
            Fault::IgnoresCase => name.to_lowercase(),
            Fault::ResolvesPaths => {
                let mut parts: Vec<&str> = Vec::new();
                for part in name.split('/') {
                    match part {
                        "" | "." => {}
                        ".." => drop(parts.pop()),
                        part => parts.push(part),
                    }
                }
                parts.join("/")
            }
            Fault::CutsNames => name.chars().take(255).collect(),
            _ => name.to_owned(),
        }
    }

    fn check(&self, name: &str) -> Result<(), DocumentError> {
        if self.has(Fault::ReadsInvalidNames) { Ok(()) } else { check_document(name, "") }
    }

    fn entry(&self, name: &str) -> Entry {
        self.lock().get(&self.key(name)).cloned().unwrap_or_default()
    }

    fn visible(&self, entry: &Entry) -> Vec<(String, Revision)> {
        let shown = match self.fault {
            Fault::KeepsAll => usize::MAX,
            Fault::KeepsOneLess => HISTORY - 1,
            _ => HISTORY,
        };
        entry.versions.iter().take(shown).cloned().collect()
    }

    fn stored_text(&self, text: &str) -> String {
        match self.fault {
            Fault::ChangesLineEnds => text.replace("\r\n", "\n"),
            Fault::EndsLines if !text.ends_with('\n') => format!("{text}\n"),
            _ => text.to_owned(),
        }
    }

    fn change(
        &self,
        name: &str,
        text: Option<&str>,
        expected: Option<u64>,
        change: &Change,
    ) -> Result<Revision, DocumentError> {
        check_document(name, if self.has(Fault::StoresLargeTexts) { "" } else { text.unwrap_or_default() })?;
        let key = self.key(name);
        let mut documents = self.lock();
        let entry = documents.get(&key).cloned().unwrap_or_default();
        let newest = entry.versions.first().map(|(_, revision)| revision.clone());
        let counts = |revision: &Revision| !revision.deleted || self.has(Fault::DeletionIsCurrent);
        let current = newest.clone().filter(counts).map(|revision| revision.version);
        let compares = match self.fault {
            Fault::ComparesNothing => false,
            Fault::CreatesOverPresent => expected.is_some(),
            _ => true,
        };
        let mut change = change.clone();
        if self.has(Fault::LosesComments) {
            change.comment.clear();
        }
        if self.has(Fault::RoundsTimes) {
            change.time = Time::from_nanos(change.time.nanos() / 1_000_000 * 1_000_000);
        }
        let version = newest.map_or(0, |revision| revision.version) + 1;
        let revision = change.revision(version, text.is_none());
        if entry.blocked || (compares && current != expected) {
            if self.has(Fault::ConflictChanges) {
                let entry = documents.entry(key).or_default();
                entry.versions.push((text.unwrap_or_default().to_owned(), revision));
            }
            let current = if self.has(Fault::ConflictWithoutCurrent) { expected } else { current };
            return Err(DocumentError::Conflict { expected, current });
        }
        if self.has(Fault::UnlocksBeforeWriting) {
            drop(documents);
            // Real stores are not this fast: others get the time that a slower one would leave them.
            std::thread::yield_now();
            documents = self.lock();
        }
        if text.is_none() && self.has(Fault::ReusesVersions) {
            documents.remove(&key);
            return Ok(revision);
        }
        let entry = documents.entry(key).or_default();
        entry.versions.insert(0, (self.stored_text(text.unwrap_or_default()), revision.clone()));
        if !matches!(self.fault, Fault::KeepsAll | Fault::HidesOld) {
            entry.versions.truncate(HISTORY);
        }
        Ok(revision)
    }

    fn matches(&self, name: &str, prefix: &str) -> bool {
        match self.fault {
            Fault::IgnoresPrefix => true,
            Fault::PrefixIsPattern => match prefix.split_once(['*', '%']) {
                Some((start, _)) => name.starts_with(start),
                None => name.starts_with(prefix),
            },
            _ => name.starts_with(prefix),
        }
    }
}

#[async_trait]
impl DocumentStore for Faulty {
    async fn get(&self, name: &str) -> Result<Option<Document>, DocumentError> {
        self.check(name)?;
        let newest = self.entry(name).versions.into_iter().next();
        Ok(newest
            .filter(|(_, revision)| !revision.deleted)
            .map(|(text, revision)| Document { text, revision }))
    }

    async fn get_if_changed(
        &self,
        name: &str,
        known: Option<u64>,
    ) -> Result<tollgate_core::documents::Polled, DocumentError> {
        use tollgate_core::documents::Polled;
        self.check(name)?;
        let newest = self.entry(name).versions.into_iter().next();
        Ok(match newest {
            Some((_, revision)) if self.has(Fault::PollsDeleted) && Some(revision.version) == known => {
                Polled::Unchanged
            }
            Some((_, revision)) if revision.deleted => Polled::Missing,
            Some((_, revision)) if Some(revision.version) == known && !self.has(Fault::NeverUnchanged) => {
                Polled::Unchanged
            }
            Some((text, revision)) => Polled::Changed(Document { text, revision }),
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
        let documents = self.lock();
        let mut listed = Vec::new();
        for (name, entry) in documents.iter().filter(|(name, _)| self.matches(name, prefix)) {
            let newest = entry.versions.first().map(|(_, revision)| revision);
            let newest = newest.filter(|revision| !revision.deleted || self.has(Fault::ListsDeleted));
            listed.extend(newest.map(|revision| (name.clone(), revision.version)));
        }
        if self.has(Fault::SortsByLowerCase) {
            listed.sort_by_key(|(name, _)| name.to_lowercase());
        }
        Ok(listed)
    }

    async fn history(&self, name: &str) -> Result<Vec<Revision>, DocumentError> {
        self.check(name)?;
        let mut entry = self.entry(name);
        if self.has(Fault::HistoryOfPrefix) {
            let documents = self.lock();
            let alike = documents.iter().filter(|(other, _)| other.starts_with(name));
            entry.versions = alike.flat_map(|(_, entry)| entry.versions.clone()).collect();
        }
        let mut revisions: Vec<_> = self.visible(&entry).into_iter().map(|(_, revision)| revision).collect();
        if self.has(Fault::OldestFirst) {
            revisions.reverse();
        }
        Ok(revisions)
    }

    async fn get_version(&self, name: &str, version: u64) -> Result<Option<Document>, DocumentError> {
        self.check(name)?;
        let kept = self.visible(&self.entry(name));
        let kept = kept.into_iter().find(|(_, revision)| revision.version == version);
        let kept = kept.filter(|(_, revision)| !revision.deleted || self.has(Fault::DeletionHasText));
        Ok(kept.map(|(text, revision)| Document { text, revision }))
    }
}

impl DocumentSubject for Fault {
    type Store = Faulty;

    async fn open(&self) -> Faulty {
        Faulty { fault: *self, documents: Arc::default() }
    }

    fn history(&self) -> usize {
        HISTORY
    }

    async fn open_another(&self, store: &Faulty) -> Option<Faulty> {
        Some(store.clone())
    }

    async fn held_versions(&self, store: &Faulty, name: &str) -> Option<usize> {
        Some(store.entry(name).versions.len())
    }

    /// A writer of two steps: it blocks others while it writes, and releases them.
    async fn kill_writer(&self, store: &Faulty, put: KilledPut<'_>, steps: usize) -> bool {
        let mut documents = store.lock();
        let entry = documents.entry(store.key(put.name)).or_default();
        let version = entry.versions.first().map_or(0, |(_, revision)| revision.version) + 1;
        let revision = Change::by("killed", Time::EPOCH).revision(version, false);
        if self == &Fault::KilledBlocks && steps == 1 {
            entry.blocked = true;
        }
        if self == &Fault::KilledLeavesHalf && steps == 1 {
            entry.versions.insert(0, ("ne".to_owned(), revision.clone()));
        }
        steps < 2
    }
}
