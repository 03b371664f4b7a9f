//! The time of a local decision, beside the memory store and a peer, while sync rounds run in the background.

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tollgate::memory::MemoryStore;
use tollgate::store::Store;
use tollgate::{Limit, Limiter};
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
/// A node that has observed the demand of another node: it also computes its share. It has no sync rounds during the
/// run: in the first one it would find out that it is alone.
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
/// Longer than any run.
const NO_ROUNDS: Duration = Duration::from_secs(3_600);

/// The index of the first place. Each instance has a place of its own: instances that are measured in turn would
/// otherwise be nodes that share their keys, and one that was idle lately would have next to no share.
const FIRST_PLACE: usize = 100;

type Build = fn(&Handle, Place, usize) -> Result<Box<dyn Subject>, Failure>;

fn rows() -> Vec<(&'static str, Build)> {
    vec![
        (MEMORY, |_, _, keys| Ok(async_on(MemoryStore::config().max_keys(keys).build(), limit()?))),
        (LOCAL, |runtime, place, _| Ok(node(runtime, synced(runtime, &place, INTERVAL)?, limit()?))),
        (SHARED, |runtime, place, keys| with_shared_keys(runtime, &place, keys)),
        #[cfg(feature = "peers")]
        (PEER, |runtime, place, _| crate::peers::trypema_hybrid(runtime, &place, INTERVAL)),
    ]
}

fn names() -> Vec<&'static str> {
    rows().into_iter().map(|(name, _)| name).collect()
}

/// A limit with the largest count: no run reaches it, nor half of the share of a node that is one of two. An instance
/// is used for less than a second of checks.
fn limit() -> Result<Limit, Failure> {
    Ok(Limit::per(1_000_000_000, Duration::from_secs(1_000)).build("api")?)
}

fn synced(runtime: &Handle, place: &Place, interval: Duration) -> Result<Synced<RedisStore>, Failure> {
    Ok(Synced::builder(runtime.block_on(connect(place))?).interval(interval).build()?)
}

/// Builds a node that shares its keys with another node.
fn with_shared_keys(runtime: &Handle, place: &Place, keys: usize) -> Result<Box<dyn Subject>, Failure> {
    let nodes = [synced(runtime, place, NO_ROUNDS)?, synced(runtime, place, NO_ROUNDS)?];
    let limit = limit()?;
    runtime.block_on(share_keys(&nodes, &limit, keys))?;
    let [_, shared] = nodes;
    Ok(node(runtime, shared, limit))
}

fn node<S: Store + 'static>(runtime: &Handle, store: S, limit: Limit) -> Box<dyn Subject> {
    Box::new(Node { limiter: Limiter::new(store), limit, runtime: runtime.clone() })
}

struct Node<S> {
    limiter: Limiter<S>,
    limit: Limit,
    runtime: Handle,
}

impl<S: Store> Subject for Node<S> {
    fn check(&self, key: &str) -> bool {
        let mut decision = pin!(self.limiter.check(&self.limit, key));
        let decision = match decision.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(decision) => decision,
            // On a busy machine, the sync task may have had no processor for so long that it is started again.
            Poll::Pending => self.runtime.block_on(decision),
        };
        decision.expect("no error").is_allowed()
    }
}

/// What a node spends on each key, so that others notice it: it takes a hundred seconds to be refilled.
const SPENT: u32 = 100_000_000;

/// Lets each node use all keys and synchronize, so that the later ones know of those before them.
async fn share_keys<S: Store>(nodes: &[Synced<S>], limit: &Limit, keys: usize) -> Result<(), Failure> {
    for node in nodes {
        for index in 0..keys {
            let name = name(index);
            let _ = node.decide_one(&limit.charge(&name).with_cost(SPENT), node.clock()).await?;
        }
        node.sync_now().await?;
    }
    Ok(())
}

pub fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    // The background tasks start with the first check.
    let _entered = runtime.enter();
    let rows = rows();
    let next_place = Cell::new(FIRST_PLACE);
    let build = |row: usize, column: usize| {
        let place = server.place(next_place.replace(next_place.get() + 1));
        (rows[row].1)(runtime.handle(), place, COLUMNS[column].keys)
    };
    columns::measure(plan, &names(), &COLUMNS, build, |name| name == PEER, findings)?;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_limiter_sync::SyncPolicy;

    use super::*;
    use crate::redis::race;

    /// More checks than an instance gets in a run, on one key, on a machine with 4 ns per check.
    const CHECKS: u32 = 100_000_000;

    #[test]
    fn a_node_with_a_share_admits_all_checks_of_a_run() -> Result<(), Failure> {
        let (central, limit, name) = (Arc::new(MemoryStore::new()), limit()?, name(0));
        let policy = |policy: SyncPolicy| policy.interval(NO_ROUNDS).ask_within(Duration::ZERO);
        let node = || Synced::builder(Arc::clone(&central)).default_policy(policy);
        let nodes = [node().build()?, node().build()?];
        race::block_on(async {
            share_keys(&nodes, &limit, 1).await?;
            let [_, node] = &nodes;
            let allows = async |cost| {
                let charge = limit.charge(&name).with_cost(cost);
                Ok::<_, Failure>(node.decide_one(&charge, node.clock()).await?.is_allowed())
            };
            assert!(allows(CHECKS).await?);
            assert!(!allows(600_000_000).await?, "the node has only a share");
            Ok(())
        })
    }
}
