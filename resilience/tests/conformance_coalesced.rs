//! The conformance suite on the memory store, with batched requests.

mod batched;
mod delayed;

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
    batched::run(Memory)
}
