//! What a guard costs a store in memory, and how fast it is when its store is dead.

use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tollgate::memory::MemoryStore;
use tollgate::{Limit, LimitError};
use tollgate_resilience::Guarded;

use super::dead::{self, Dead};
use crate::keys::Keys;
use crate::measure::{self, Plan};
use crate::redis::subject::Failure;
use crate::report::{Finding, Findings};
use crate::subject::{Subject, Traffic};
use crate::tollgate::async_on;

pub const MEMORY: &str = "memory";
pub const GUARDED: &str = "guarded memory";
/// What the other store grants is noted, to be told to the dead one when it is back.
const HANDED_OVER: &str = "dead store, handed over";

pub const HOT: &str = "hot";
/// The columns and their numbers of keys.
const COLUMNS: [(&str, usize); 2] = [(HOT, 1), ("100k", 100_000)];

/// Builds a subject with room for that many keys. The runtime is for those who need one.
type Build = fn(&Handle, usize) -> Result<Box<dyn Subject>, Failure>;

const ROWS: [(&str, Build); 4] = [
    (MEMORY, |_, keys| Ok(async_on(MemoryStore::config().keys(keys).build(), ordinary()?))),
    (GUARDED, |_, keys| Ok(async_on(Guarded::new(MemoryStore::config().keys(keys).build()), ordinary()?))),
    (dead::NAME, |runtime, keys| dead(runtime, ordinary()?, keys)),
    (HANDED_OVER, |runtime, keys| dead(runtime, long()?, keys)),
];

/// The largest count that there is: nobody comes near it, not even near a share of it.
const MOST: u32 = 1_000_000_000;

/// The limit of all rows but one. It is as good as new within a second: there is nothing to tell a
/// store that comes back.
pub fn ordinary() -> Result<Limit, LimitError> {
    Limit::per_second(MOST).build("api")
}

fn long() -> Result<Limit, LimitError> {
    Limit::per(MOST, Duration::from_secs(1_000)).build("api")
}

fn dead(runtime: &Handle, limit: Limit, keys: usize) -> Result<Box<dyn Subject>, Failure> {
    let limiter = runtime.block_on(dead::limiter(&limit, keys))?;
    Ok(Box::new(Dead { limiter, limit, runtime: runtime.clone() }))
}

pub fn measure(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    for (column, count) in COLUMNS {
        eprintln!("{column}: preparing");
        let keys = Keys::new(count, 1);
        // One per round where there is one key: where that happens to lie in memory matters.
        let instances = if count == 1 { plan.rounds } else { 1 };
        let mut ready = Vec::new();
        for (name, build) in ROWS {
            let subjects = (0..instances).map(|_| build(runtime.handle(), count));
            let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
            for subject in &subjects {
                measure::prepare(&**subject, Traffic::Admitted, &keys)
                    .map_err(|wrong| format!("{name} on {column}: {wrong}"))?;
            }
            ready.push(subjects);
        }
        eprintln!("{column}: measuring");
        let subjects: Vec<&[Box<dyn Subject>]> = ready.iter().map(Vec::as_slice).collect();
        let timings = measure::race(plan, &subjects, Traffic::Admitted, &keys, 1);
        for ((name, _), timing) in ROWS.into_iter().zip(timings) {
            let timing = timing.map_err(|wrong| format!("{name} on {column}: {wrong}"))?;
            let figure = Finding::Figure { value: timing.nanoseconds, crowded: timing.crowded };
            findings.record(name, column.to_owned(), figure);
        }
    }
    Ok(())
}

pub fn print(findings: &Findings) {
    findings.print_table(
        &ROWS.map(|(name, _)| name),
        &COLUMNS.map(|(column, _)| (column, vec![column.to_owned()])),
    );
}
