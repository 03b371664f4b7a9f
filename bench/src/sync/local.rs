//! The time of a local decision, beside the memory store and a peer, while sync rounds run in the background.

use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tollgate::Limit;
use tollgate::memory::MemoryStore;
use tollgate::store::Store;
use tollgate_limiter_sync::Synced;
use tollgate_store_redis::RedisStore;

use crate::columns::{self, Column};
use crate::keys::name;
use crate::measure::Plan;
use crate::redis::server::Server;
use crate::redis::subject::{Failure, Place};
use crate::redis::tollgate::connect;
use crate::report::{Finding, Findings};
use crate::subject::Subject;
use crate::tollgate::async_on;

pub const MEMORY: &str = "memory";
pub const LOCAL: &str = "synced";
/// A node that has observed the demand of another node: it also computes its share.
const SHARED: &str = "synced, shared keys";
pub const PEER: &str = "trypema hybrid";
/// The worse of the two columns with the same number of threads, relative to the memory store.
pub const WORST: &str = "worst";

pub const HOT_1: &str = "hot-1t";
pub const HOT_2: &str = "hot-2t";
pub const MANY_1: &str = "100k-1t";
pub const MANY_2: &str = "100k-2t";
/// Per decision of both threads together: a check on Redis also keeps two processors busy, the client's and the
/// server's.
pub const BOTH: &str = "100k-both";
const COLUMNS: [Column; 4] = [
    Column { name: HOT_1, keys: 1, threads: 1 },
    Column { name: HOT_2, keys: 1, threads: 2 },
    Column { name: MANY_1, keys: 100_000, threads: 1 },
    Column { name: MANY_2, keys: 100_000, threads: 2 },
];

/// The sync interval of all subjects. Longer than a round, so that most rounds contain no sync round: it would take the
/// processors that the decisions need, and its cost is measured separately.
pub const INTERVAL: Duration = Duration::from_secs(1);

type Build = fn(&Handle, Place, usize) -> Result<Box<dyn Subject>, Failure>;

fn rows() -> Vec<(&'static str, Build)> {
    vec![
        (MEMORY, |_, _, keys| Ok(async_on(MemoryStore::config().max_keys(keys).build(), limit()?))),
        (LOCAL, |runtime, place, _| Ok(async_on(synced(runtime, &place)?, limit()?))),
        (SHARED, |runtime, place, keys| with_shared_keys(runtime, &place, keys)),
        #[cfg(feature = "peers")]
        (PEER, |runtime, place, _| crate::peers::trypema_hybrid(runtime, &place, INTERVAL)),
    ]
}

fn names() -> Vec<&'static str> {
    rows().into_iter().map(|(name, _)| name).collect()
}

/// A limit with the largest count: no run reaches it, nor a share of it.
fn limit() -> Result<Limit, Failure> {
    Ok(Limit::per(1_000_000_000, Duration::from_secs(1_000)).build("api")?)
}

fn synced(runtime: &Handle, place: &Place) -> Result<Synced<RedisStore>, Failure> {
    Ok(Synced::builder(runtime.block_on(connect(place))?).interval(INTERVAL).build()?)
}

/// Builds a node that shares its keys with another node.
fn with_shared_keys(runtime: &Handle, place: &Place, keys: usize) -> Result<Box<dyn Subject>, Failure> {
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
    // The background tasks start with the first check.
    let _entered = runtime.enter();
    let rows = rows();
    let build = |row: usize, column: usize| {
        let place = server.place(10 * (1 + column) + row);
        (rows[row].1)(runtime.handle(), place, COLUMNS[column].keys)
    };
    columns::measure(plan, &names(), &COLUMNS, build, findings)?;
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
    columns::print(findings, &names(), &COLUMNS);
}
