//! The conformance suite for document stores on a directory. Unit tests of the store run its trials of killed writers,
//! and of the room that versions take.

use std::process::ExitCode;

use tempfile::TempDir;
use tollgate_conformance::{DocumentSubject, run_documents};
use tollgate_rules::FileDocuments;

const HISTORY: usize = 4;

/// All trials share one directory.
struct Files(TempDir);

impl DocumentSubject for Files {
    type Store = FileDocuments;

    async fn open(&self) -> FileDocuments {
        FileDocuments::open(self.0.path()).expect("a directory").with_history(HISTORY)
    }

    fn history(&self) -> usize {
        HISTORY
    }

    async fn open_another(&self, _: &FileDocuments) -> Option<FileDocuments> {
        Some(self.open().await)
    }
}

fn main() -> ExitCode {
    run_documents(Files(TempDir::new().expect("a directory")))
}
