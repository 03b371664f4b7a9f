//! The conformance suite on the memory store, through each wrapper and through all of them.

mod through;

use std::process::ExitCode;

use tollgate_conformance::Subject;
use tollgate_resilience::{Coalesced, Switched};
use tollgate_store_memory::MemoryStore;

struct Memory;

impl Subject for Memory {
    type Store = MemoryStore;

    async fn open(&self) -> MemoryStore {
        // Small, but with room for every key of a trial.
        MemoryStore::config().keys(4_096).build()
    }
}

fn main() -> ExitCode {
    let mut trials = through::wrappers(|| Memory);
    trials.extend(through::through(Memory, "switched, nothing set", Switched::new));
    trials.extend(through::through(Memory, "stacked otherwise", |store| {
        Coalesced::new(through::guarded(through::switched(store)))
    }));
    through::run(trials)
}
