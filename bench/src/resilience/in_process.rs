//! The cost of a guard around a memory store, and its speed while its store is dead.

use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tollgate::memory::MemoryStore;
use tollgate::{Limit, LimitError};
use tollgate_resilience::Guarded;

use super::dead::{self, Dead};
use crate::columns::{self, Column};
use crate::measure::Plan;
use crate::redis::subject::Failure;
use crate::report::Findings;
use crate::selection::Selection;
use crate::subject::Subject;
use crate::tollgate::async_on;

pub const MEMORY: &str = "memory";
pub const GUARDED: &str = "guarded memory";
/// The guard records what the fallback store grants, to reconcile it with the dead store later.
const RECONCILED: &str = "dead store, reconciled";
const ROWS: [&str; 4] = [MEMORY, GUARDED, dead::NAME, RECONCILED];

/// The name of the table.
pub const TABLE: &str = "in-process";

pub const HOT: &str = "hot";
const COLUMNS: [Column; 2] =
    [Column { name: HOT, keys: 1, threads: 1 }, Column { name: "100k", keys: 100_000, threads: 1 }];

/// Builds the subject of a row. The runtime is for the subjects that need one.
fn build(row: &str, runtime: &Handle, keys: usize) -> Result<Box<dyn Subject>, Failure> {
    let memory = || MemoryStore::config().max_keys(keys).build();
    match row {
        MEMORY => Ok(async_on(memory(), short_limit()?)),
        GUARDED => Ok(async_on(Guarded::new(memory()), short_limit()?)),
        dead::NAME => dead(runtime, short_limit()?, keys),
        RECONCILED => dead(runtime, long_limit()?, keys),
        other => Err(format!("unknown row: {other}").into()),
    }
}

/// The largest count of a limit: no run reaches it, nor a share of it.
const MAX_COUNT: u32 = 1_000_000_000;

/// The limit of all rows but one. Its state expires within a second, so that nothing has to be reconciled.
pub fn short_limit() -> Result<Limit, LimitError> {
    Limit::per_second(MAX_COUNT).build("api")
}

fn long_limit() -> Result<Limit, LimitError> {
    Limit::per(MAX_COUNT, Duration::from_secs(1_000)).build("api")
}

fn dead(runtime: &Handle, limit: Limit, keys: usize) -> Result<Box<dyn Subject>, Failure> {
    let limiter = runtime.block_on(dead::limiter(&limit, keys))?;
    Ok(Box::new(Dead { limiter, limit, runtime: runtime.clone() }))
}

/// Returns whether a figure of the table is selected.
pub fn is_selected(selection: &Selection) -> bool {
    ROWS.iter().any(|row| selection.includes(TABLE, row, COLUMNS.map(|column| column.name)))
}

pub fn measure(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let build = |row: usize, column: usize| build(ROWS[row], runtime.handle(), COLUMNS[column].keys);
    columns::measure(plan, &ROWS, &COLUMNS, build, |_| false, findings)
}

pub fn print(findings: &Findings) {
    columns::print(findings, &ROWS, &COLUMNS);
}
