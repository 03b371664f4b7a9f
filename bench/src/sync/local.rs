//! A decision, beside the memory store and a peer, while exchanges go on in the background.

use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tollgate::Limit;
use tollgate::memory::MemoryStore;
use tollgate::store::Store;
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::RedisStore;

use crate::keys::{Keys, name};
use crate::measure::{self, Plan};
use crate::redis::server::Server;
use crate::redis::subject::{Failure, Place};
use crate::redis::tollgate::connect;
use crate::report::{Finding, Findings};
use crate::subject::{Subject, Traffic};
use crate::tollgate::async_on;

pub const MEMORY: &str = "memory";
pub const LOCAL: &str = "synced";
/// What a node decides that has seen the demand of others: its share is looked at, too.
const COMPANY: &str = "synced, in company";
pub const PEER: &str = "trypema hybrid";
/// The worse of the two columns with so many threads, as a part of the memory store's.
pub const WORST: &str = "worst";

pub const HOT_1: &str = "hot-1t";
pub const HOT_2: &str = "hot-2t";
pub const MANY_1: &str = "100k-1t";
pub const MANY_2: &str = "100k-2t";
/// Per decision of both threads together: a check on Redis keeps two processors busy as well, the client's and the server's.
pub const BOTH: &str = "100k-both";
const COLUMNS: [(&str, usize, usize); 4] =
    [(HOT_1, 1, 1), (HOT_2, 1, 2), (MANY_1, 100_000, 1), (MANY_2, 100_000, 2)];

/// The same for all that exchange. Longer than a round, so that most rounds are without one: an exchange takes the processors
/// that the decisions need, and what it costs is measured by itself.
pub const INTERVAL: Duration = Duration::from_secs(1);

type Build = fn(&Handle, Place, usize) -> Result<Box<dyn Subject>, Failure>;

fn rows() -> Vec<(&'static str, Build)> {
    vec![
        (MEMORY, |_, _, keys| Ok(async_on(MemoryStore::config().keys(keys).build(), limit()?))),
        (LOCAL, |runtime, place, _| Ok(async_on(synced(runtime, &place)?, limit()?))),
        (COMPANY, |runtime, place, keys| accompanied(runtime, &place, keys)),
        #[cfg(feature = "peers")]
        (PEER, |runtime, place, _| crate::peers::trypema_hybrid(runtime, &place, INTERVAL)),
    ]
}

/// The largest count that there is: nobody comes near it, not even near a share of it.
fn limit() -> Result<Limit, Failure> {
    Ok(Limit::per(1_000_000_000, Duration::from_secs(1_000)).build("api")?)
}

fn synced(runtime: &Handle, place: &Place) -> Result<Synced<RedisStore>, Failure> {
    Ok(Synced::new(runtime.block_on(connect(place))?).every(INTERVAL))
}

/// A node that shares its keys with another.
fn accompanied(runtime: &Handle, place: &Place, keys: usize) -> Result<Box<dyn Subject>, Failure> {
    let (node, other, limit) = (synced(runtime, place)?, synced(runtime, place)?, limit()?);
    runtime.block_on(async {
        for node in [&other, &node] {
            for index in 0..keys {
                let _ = node.decide_one(&limit.charge(&name(index)), node.clock()).await?;
            }
            node.sync_now().await?;
        }
        Ok::<_, Failure>(())
    })?;
    Ok(async_on(node, limit))
}

pub fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // The background tasks begin with the first check.
    let _entered = runtime.enter();
    for (number, (column, count, threads)) in COLUMNS.into_iter().enumerate() {
        eprintln!("{column}: preparing");
        let keys = Keys::new(count, threads);
        // One per round where there is one key: where that happens to lie in memory matters.
        let instances = if count == 1 { plan.rounds } else { 1 };
        let mut ready = Vec::new();
        for (index, (name, build)) in rows().into_iter().enumerate() {
            let place = || server.place(10 * (1 + number) + index);
            let subjects = (0..instances).map(|_| build(runtime.handle(), place(), count));
            let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
            for subject in &subjects {
                measure::prepare(&**subject, Traffic::Admitted, &keys)
                    .map_err(|wrong| format!("{name} on {column}: {wrong}"))?;
            }
            ready.push(subjects);
        }
        eprintln!("{column}: measuring");
        let subjects: Vec<&[Box<dyn Subject>]> = ready.iter().map(Vec::as_slice).collect();
        let timings = measure::race(plan, &subjects, Traffic::Admitted, &keys, threads);
        for ((name, _), timing) in rows().into_iter().zip(timings) {
            let timing = timing.map_err(|wrong| format!("{name} on {column}: {wrong}"))?;
            let figure = Finding::Figure { value: timing.nanoseconds, crowded: timing.crowded };
            findings.record(name, column.to_owned(), figure);
        }
    }
    let both = findings.figure(LOCAL, MANY_2).unwrap_or(f64::NAN) / 2.0;
    findings.record(LOCAL, BOTH.to_owned(), Finding::Figure { value: both, crowded: false });
    for (threads, columns) in [("1t", [HOT_1, MANY_1]), ("2t", [HOT_2, MANY_2])] {
        let costs = columns.map(|column| {
            findings.figure(LOCAL, column).unwrap_or(f64::NAN)
                / findings.figure(MEMORY, column).unwrap_or(f64::NAN)
        });
        let figure = Finding::Figure { value: costs[0].max(costs[1]), crowded: false };
        findings.record(WORST, threads.to_owned(), figure);
    }
    Ok(())
}

pub fn print(findings: &Findings) {
    let names: Vec<_> = rows().into_iter().map(|(name, _)| name).collect();
    findings.print_table(&names, &COLUMNS.map(|(column, ..)| (column, vec![column.to_owned()])));
}
