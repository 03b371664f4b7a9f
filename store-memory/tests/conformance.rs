//! The conformance suite on the memory store.

use std::process::ExitCode;

use tollgate_conformance::{Subject, run};
use tollgate_core::Time;
use tollgate_store_memory::MemoryStore;

struct Memory;

impl Subject for Memory {
    type Store = MemoryStore;

    async fn open(&self) -> MemoryStore {
        // Small, but with room for every key of a trial.
        MemoryStore::config().max_keys(4_096).build()
    }

    /// A slot whose state has expired is free, so only live ones count; in shards, expired ones take up memory.
    async fn held_states(&self, store: &MemoryStore, now: Time) -> Option<usize> {
        Some(store.stats(now).live_keys + store.shard_entries())
    }
}

fn main() -> ExitCode {
    run(Memory)
}
