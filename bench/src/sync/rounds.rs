//! Sync rounds with many dirty keys: their duration and their number of calls.

use std::time::{Duration, Instant};

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
const WINDOWS: &str = "sliding windows on Redis";
const FIXED: &str = "fixed windows on Redis";
const COUNTERS: &str = "sliding counters on Redis";
const BY_INTERVAL: &str = "buckets by interval on Redis";
pub const ROWS: &str = "buckets on Cassandra";

const KEYS: &str = "keys";
pub const SECONDS: &str = "seconds";
/// Script calls, or transactions, per key.
pub const CALLS: &str = "calls/key";

const ON_REDIS: usize = 100_000;
/// A transaction takes milliseconds.
const ON_CASSANDRA: usize = 5_000;

fn keys(plan: Plan, full: usize) -> usize {
    if plan.quick { full / 10 } else { full }
}

fn bucket() -> LimitBuilder {
    Limit::per(1_000_000, Duration::from_secs(1_000))
}

pub fn on_redis(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    race::block_on(async {
        let kinds: [(&str, LimitBuilder); 5] = [
            (BUCKETS, bucket()),
            (WINDOWS, bucket().sliding_window()),
            (FIXED, bucket().fixed_window()),
            (COUNTERS, bucket().sliding_counter(10)),
            (BY_INTERVAL, bucket().refill_by_interval()),
        ];
        for (index, (name, limit)) in kinds.into_iter().enumerate() {
            eprintln!("sync rounds of {name}: measuring");
            let node = node(connect(&server.place(60 + index)).await?);
            let mut control = server.connect().await?;
            let mut best = Round { seconds: f64::INFINITY, calls: 0.0 };
            // The first round creates the keys on the server.
            for _ in 0..=plan.rounds {
                let before = calls(&mut control).await?;
                let seconds = round(&node, &limit.clone().build("api")?, keys(plan, ON_REDIS)).await?;
                let calls_per_key = per_key(calls(&mut control).await? - before, keys(plan, ON_REDIS));
                best = best.better(Round { seconds, calls: calls_per_key });
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
    Synced::builder(store).manual().build().expect("valid")
}

/// Returns how many keys took part in sync rounds so far.
fn synced_keys<S: Store>(node: &Synced<S, SystemClock>) -> u64 {
    node.stats().synced_keys
}

/// Makes all keys dirty, and returns the seconds of the sync round that follows.
#[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
async fn round<S: Store>(node: &Synced<S, SystemClock>, limit: &Limit, keys: usize) -> Result<f64, Failure> {
    for index in 0..keys {
        let decision = node.decide_one(&limit.charge(&name(index)), node.clock()).await?;
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
        for (column, value) in [(KEYS, keys), (SECONDS, self.seconds), (CALLS, self.calls)] {
            findings.record(name, column.to_owned(), Finding::Figure { value, crowded: false });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn per_key(calls: u64, keys: usize) -> f64 {
    calls as f64 / keys as f64
}

pub fn print(findings: &Findings, cassandra: bool) {
    let mut names = vec![BUCKETS, WINDOWS, FIXED, COUNTERS, BY_INTERVAL];
    names.extend(cassandra.then_some(ROWS));
    findings.print_table(&names, &[KEYS, SECONDS, CALLS].map(|column| (column, vec![column.to_owned()])));
}
