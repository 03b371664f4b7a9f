//! The conformance suite on the memory store, with each wrapper and with all of them.

mod wrapped;

use std::process::ExitCode;

use tollgate_conformance::Subject;
use tollgate_resilience::{Coalesced, Switched};
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
    let mut trials = wrapped::wrappers(|| Memory);
    trials.extend(wrapped::wrapped(Memory, "switched, nothing set", Switched::new));
    trials.extend(wrapped::wrapped(Memory, "stacked otherwise", |store| {
        Coalesced::new(wrapped::guarded(wrapped::switched(store)))
    }));
    wrapped::run(trials)
}
