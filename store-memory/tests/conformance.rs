//! The conformance suite on the memory store.

use std::process::ExitCode;

use tollgate_conformance::{Subject, run};
use tollgate_store_memory::MemoryStore;

struct Memory;

impl Subject for Memory {
    type Store = MemoryStore;

    async fn open(&self) -> MemoryStore {
        // Small, but with room for every key of a trial.
        MemoryStore::config().max_keys(4_096).build()
    }
}

fn main() -> ExitCode {
    run(Memory)
}
