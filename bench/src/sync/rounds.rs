//! Sync rounds with many dirty keys: their duration and their number of calls.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tollgate::store::Store;
use tollgate::{Limit, LimitBuilder, SystemClock};
use tollgate_limiter_sync::Synced;

use crate::cassandra;
use crate::keys::name;
use crate::measure::Plan;
use crate::redis::race;
use crate::redis::server::Server;
use crate::redis::subject::Failure;
use crate::redis::tollgate::connect;
use crate::redis::usage::calls;
use crate::report::{Finding, Findings};

pub const BUCKETS: &str = "buckets on Redis";
/// Buckets that another node uses, too: the node also counts its deltas in a usage record of each key.
pub const SHARED: &str = "shared buckets on Redis";
pub const WINDOWS: &str = "sliding windows on Redis";
pub const FIXED: &str = "fixed windows on Redis";
pub const COUNTERS: &str = "sliding counters on Redis";
pub const BY_INTERVAL: &str = "buckets by interval on Redis";
pub const ROWS: &str = "buckets on Cassandra";

const KEYS: &str = "keys";
pub const SECONDS: &str = "seconds";
/// The time of 100 thousand keys.
pub const MILLISECONDS: &str = "ms/100k keys";
/// Script calls, or transactions, per key.
pub const CALLS: &str = "calls/key";

const ON_REDIS: usize = 100_000;
/// A transaction takes milliseconds.
const ON_CASSANDRA: usize = 5_000;

fn keys(plan: Plan, full: usize) -> usize {
    if plan.quick { full / 10 } else { full }
}

/// So long that no delta is late because the machine is slow.
const INTERVAL: Duration = Duration::from_millis(500);
/// The first round creates the keys on the server, and in the second one, a node notices the other one. Deltas have
/// instants once the clock of the server has been known for two intervals.
const WARM_UP: u32 = 2;

/// What a check costs: so much that another node sees it before it is refilled, and so little that no run is denied.
const COST: u32 = 1_000;

fn bucket() -> LimitBuilder {
    Limit::per(1_000_000, Duration::from_secs(1_000))
}

/// A bucket from which a check is refilled after a thousand seconds, however slow the machine.
fn slow_bucket() -> LimitBuilder {
    Limit::per(1_000_000, Duration::from_secs(1_000_000))
}

#[expect(clippy::disallowed_methods, reason = "the node's clock is the machine's")]
pub fn on_redis(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    race::block_on(async {
        let kinds: [(&str, LimitBuilder); 6] = [
            (BUCKETS, bucket()),
            (SHARED, slow_bucket()),
            (WINDOWS, bucket().sliding_window()),
            (FIXED, bucket().fixed_window()),
            (COUNTERS, bucket().sliding_counter(10)),
            (BY_INTERVAL, bucket().refill_by_interval()),
        ];
        for (index, (name, limit)) in kinds.into_iter().enumerate() {
            eprintln!("sync rounds of {name}: measuring");
            let (limit, place) = (limit.build("api")?, server.place(60 + index));
            let measured = node(connect(&place).await?);
            let other = if name == SHARED { Some(node(connect(&place).await?)) } else { None };
            let mut control = server.connect().await?;
            let mut best = Round { seconds: f64::INFINITY, calls: 0.0 };
            for number in 0..WARM_UP + plan.rounds {
                if let Some(other) = &other {
                    round(other, &limit, keys(plan, ON_REDIS)).await?;
                }
                let before = calls(&mut control).await?;
                let seconds = round(&measured, &limit, keys(plan, ON_REDIS)).await?;
                let calls_per_key = per_key(calls(&mut control).await? - before, keys(plan, ON_REDIS));
                if number >= WARM_UP {
                    best = best.better(Round { seconds, calls: calls_per_key });
                } else {
                    sleep(2 * INTERVAL).await;
                }
            }
            let alone = findings.figure(BUCKETS, CALLS).unwrap_or(0.0);
            if name == SHARED && best.calls < 1.5 * alone {
                return Err("a node does not know of the other one, and sent no usage".into());
            }
            best.record(name, keys(plan, ON_REDIS), findings);
        }
        Ok(())
    })
}

pub fn on_cassandra(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    race::block_on(async {
        let server = cassandra::server::Server::open(None).await?;
        let store = server.config()?.connect().await?;
        eprintln!("sync rounds of {ROWS}: measuring");
        let node = node(store.clone());
        let mut best = Round { seconds: f64::INFINITY, calls: 0.0 };
        for _ in 0..=plan.rounds.min(3) {
            let before = store.stats().transactions;
            let seconds = round(&node, &bucket().build("api")?, keys(plan, ON_CASSANDRA)).await?;
            let calls_per_key = per_key(store.stats().transactions - before, keys(plan, ON_CASSANDRA));
            best = best.better(Round { seconds, calls: calls_per_key });
        }
        best.record(ROWS, keys(plan, ON_CASSANDRA), findings);
        Ok(())
    })
}

/// Creates a node without a background task.
fn node<S: Store + 'static>(store: S) -> Synced<S, SystemClock> {
    Synced::builder(store).interval(INTERVAL).manual().build().expect("valid")
}

/// Returns how many keys took part in sync rounds so far.
fn synced_keys<S: Store>(node: &Synced<S, SystemClock>) -> u64 {
    node.stats().synced_keys
}

/// Makes all keys dirty, and returns the seconds of the sync round that follows.
#[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
async fn round<S: Store>(node: &Synced<S, SystemClock>, limit: &Limit, keys: usize) -> Result<f64, Failure> {
    for index in 0..keys {
        let name = name(index);
        let decision = node.decide_one(&limit.charge(&name).with_cost(COST), node.clock()).await?;
        if decision.is_denied() {
            return Err("a check before a sync round was denied".into());
        }
    }
    let synced_before = synced_keys(node);
    let start = Instant::now();
    node.sync_now().await?;
    let seconds = start.elapsed().as_secs_f64();
    // More than the dirty keys may take part: some refresh their replica.
    if synced_keys(node) - synced_before < keys as u64 {
        return Err("a sync round left keys out".into());
    }
    Ok(seconds)
}

#[derive(Clone, Copy)]
struct Round {
    seconds: f64,
    calls: f64,
}

impl Round {
    fn better(self, other: Self) -> Self {
        if other.seconds < self.seconds { other } else { self }
    }

    fn record(self, name: &'static str, keys: usize, findings: &mut Findings) {
        let keys = f64::from(u32::try_from(keys).unwrap_or(u32::MAX));
        let milliseconds = self.seconds * 1e3 * 1e5 / keys;
        let columns =
            [(KEYS, keys), (SECONDS, self.seconds), (MILLISECONDS, milliseconds), (CALLS, self.calls)];
        for (column, value) in columns {
            findings.record(name, column.to_owned(), Finding::Figure { value, crowded: false });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn per_key(calls: u64, keys: usize) -> f64 {
    calls as f64 / keys as f64
}

pub fn print(findings: &Findings, cassandra: bool) {
    let mut names = vec![BUCKETS, SHARED, WINDOWS, FIXED, COUNTERS, BY_INTERVAL];
    names.extend(cassandra.then_some(ROWS));
    findings.print_table(
        &names,
        &[KEYS, SECONDS, MILLISECONDS, CALLS].map(|column| (column, vec![column.to_owned()])),
    );
}
