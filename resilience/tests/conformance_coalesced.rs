//! The conformance suite on gathered checks of the memory store.

mod company;
mod yielding;

use std::process::ExitCode;

use tollgate_conformance::Subject;
use tollgate_store_memory::MemoryStore;

struct Memory;

impl Subject for Memory {
    type Store = MemoryStore;

    async fn open(&self) -> MemoryStore {
        MemoryStore::config().keys(4_096).build()
    }
}

fn main() -> ExitCode {
    company::run(Memory)
}
