//! Switched stores on trial: with nothing set, and with plenty set that concerns other limits and other keys. Neither
//! may change an answer.

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};
use tollgate_conformance::{Subject, trials};
use tollgate_core::Key;
use tollgate_resilience::Switched;
use tollgate_store_memory::MemoryStore;

fn store() -> Switched<MemoryStore> {
    // Small, but with room for every key of a trial.
    Switched::new(MemoryStore::config().keys(4_096).build())
}

struct NothingSet;

impl Subject for NothingSet {
    type Store = Switched<MemoryStore>;

    async fn open(&self) -> Self::Store {
        store()
    }
}

struct OthersSet;

impl Subject for OthersSet {
    type Store = Switched<MemoryStore>;

    async fn open(&self) -> Self::Store {
        let store = store();
        let switches = store.switches();
        switches.off("another limit");
        switches.shadow("one more");
        // Like the keys of the trials, but in no namespace or in another one.
        switches.set_allowed(["somebody", "another"]);
        switches.set_denied([Key::new("another namespace", "somebody"), Key::new("", "nobody")]);
        store
    }
}

fn main() -> ExitCode {
    let mut all = Vec::new();
    all.extend(trials(NothingSet).into_iter().map(|trial| trial.with_kind("nothing set")));
    all.extend(trials(OthersSet).into_iter().map(|trial| trial.with_kind("others set")));
    run(&Arguments::from_args(), all).exit_code()
}
