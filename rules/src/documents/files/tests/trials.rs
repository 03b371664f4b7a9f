//! The conformance suite's trials of killed writers, with real processes that are killed.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tollgate_conformance::{DocumentSubject, KilledPut, document_failures};
use tollgate_core::Time;
use tollgate_core::documents::{Change, DocumentStore};

use super::super::{FileDocuments, names};
use super::processes::{killed_put, open};

/// Stores in one directory.
struct Files {
    directory: TempDir,
    kills: AtomicUsize,
}

impl DocumentSubject for &'static Files {
    type Store = FileDocuments;

    async fn open(&self) -> FileDocuments {
        open(self.directory.path())
    }

    fn history(&self) -> usize {
        3
    }

    async fn held_versions(&self, store: &FileDocuments, name: &str) -> Option<usize> {
        Some(files_with_text(&names::directory(store.directory(), name)))
    }

    async fn kill_writer(&self, store: &FileDocuments, put: KilledPut<'_>, steps: usize) -> bool {
        let is_killed = killed_put(store.directory(), (put.name, put.text, put.expected), steps);
        self.kills.fetch_add(usize::from(is_killed), Ordering::SeqCst);
        is_killed
    }
}

/// Counts the files that are not empty.
fn files_with_text(directory: &Path) -> usize {
    let Ok(entries) = fs::read_dir(directory) else {
        return 0;
    };
    let count = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => files_with_text(&entry.path()),
        Ok(metadata) => usize::from(metadata.len() > 0),
        Err(_) => 0,
    };
    entries.flatten().map(count).sum()
}

fn files() -> &'static Files {
    let directory = TempDir::new().expect("a directory");
    Box::leak(Box::new(Files { directory, kills: AtomicUsize::new(0) }))
}

#[test]
fn readers_see_whole_versions_after_writers_were_killed() {
    let files = files();
    let failures = document_failures(files, "killed_writer");
    assert!(failures.is_empty(), "{failures:#?}");
    let kills = files.kills.load(Ordering::SeqCst);
    assert!(kills > 30, "three trials kill after every step of a change: {kills}");
    fs::remove_dir_all(files.directory.path()).expect("the directory");
}

#[test]
fn dropped_versions_take_no_room() {
    let files = files();
    let failures = document_failures(files, "dropped_versions_take_no_room");
    assert!(failures.is_empty(), "{failures:#?}");
    fs::remove_dir_all(files.directory.path()).expect("the directory");
}

/// Not only once it is too old: the first change after it removes the text.
#[tokio::test]
async fn what_killed_writers_leave_behind_is_removed_by_the_next_change() {
    for steps in 0..100 {
        let directory = TempDir::new().expect("a directory");
        let store = open(directory.path());
        let change = Change::by("ada", Time::EPOCH);
        let mut expected = None;
        for _ in 0..4 {
            expected = Some(store.put("rules", "old", expected, &change).await.expect("a version").version);
        }
        if !killed_put(directory.path(), ("rules", "new", expected), steps) {
            assert!(steps > 10, "a change has more steps");
            return;
        }
        let current = store.get("rules").await.expect("a document").map(|document| document.revision.version);
        store.put("rules", "next", current, &change).await.expect("a version");
        let files = files_with_text(&names::directory(directory.path(), "rules"));
        assert_eq!(files, 3, "versions after a writer was killed after {steps} steps");
    }
    panic!("a change has less than 100 steps");
}
