//! The template for a new store passes the suite: how an author runs it.

mod store;

use std::process::ExitCode;

use store::SmallStore;
use tollgate_conformance::{Subject, run};
use tollgate_core::Time;

struct Small;

impl Subject for Small {
    type Store = SmallStore;

    async fn open(&self) -> SmallStore {
        SmallStore::default()
    }

    async fn held_states(&self, store: &SmallStore, _: Time) -> Option<usize> {
        Some(store.len())
    }
}

fn main() -> ExitCode {
    run(Small)
}
