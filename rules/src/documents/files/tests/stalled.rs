//! Writers that stop between reading and creating, and go on when the version that they replace was dropped long ago.

use tempfile::TempDir;
use tollgate_core::Time;
use tollgate_core::documents::{Change, DocumentStore};

use super::super::FileDocuments;
use super::super::versions::{Created, Versions};
use super::processes::open;

/// Puts versions after the current one.
async fn put(store: &FileDocuments, versions: usize) {
    for _ in 0..versions {
        let current = store.get("rules").await.expect("a document, or none");
        let expected = current.map(|document| document.revision.version);
        store.put("rules", "text", expected, &Change::by("ada", Time::EPOCH)).await.expect("a version");
    }
}

/// The place of its version is free again, and still it must not be created: the change would be lost, or replace one
/// that its author has not seen.
#[tokio::test]
async fn a_writer_that_comes_late_creates_nothing() {
    for seen in 0..5 {
        for others in [1, 2, 3, 4, 10] {
            let directory = TempDir::new().expect("a directory");
            let store = open(directory.path());
            put(&store, seen).await;
            let versions = Versions::new(directory.path(), "rules", 3);
            let newest = versions.newest().expect("a version, or none");
            put(&store, others).await;

            let before = store.history("rules").await.expect("a history");
            let late = Change::by("late", Time::EPOCH).revision(seen as u64 + 1, false);
            let created = versions.create(newest.as_ref(), &late, "late").expect("not created");
            assert_eq!(created, Created::Not, "{others} versions after {seen}");
            assert_eq!(store.history("rules").await.expect("a history"), before);
        }
    }
}
