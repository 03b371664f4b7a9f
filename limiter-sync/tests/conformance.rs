//! The conformance suite through `Synced`, with a memory store as the central store.

mod through;

use std::process::ExitCode;

use tollgate_conformance::Subject;
use tollgate_store_memory::MemoryStore;

struct Memory;

impl Subject for Memory {
    type Store = MemoryStore;

    async fn open(&self) -> MemoryStore {
        MemoryStore::config().max_keys(4_096).build()
    }
}

fn main() -> ExitCode {
    through::run(|| Memory, true)
}
