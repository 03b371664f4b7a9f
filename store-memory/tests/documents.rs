//! The conformance suite for document stores on the memory store.

use std::process::ExitCode;

use tollgate_conformance::{DocumentSubject, run_documents};
use tollgate_store_memory::MemoryDocuments;

const HISTORY: usize = 4;

struct Memory;

impl DocumentSubject for Memory {
    type Store = MemoryDocuments;

    async fn open(&self) -> MemoryDocuments {
        MemoryDocuments::new().with_history(HISTORY)
    }

    fn history(&self) -> usize {
        HISTORY
    }

    fn changes_per_editor(&self) -> usize {
        200
    }

    async fn open_another(&self, store: &MemoryDocuments) -> Option<MemoryDocuments> {
        Some(store.clone())
    }
}

fn main() -> ExitCode {
    run_documents(Memory)
}
