//! Many dirty keys at once: how long an exchange takes, and how many calls.

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
/// Calls of scripts, or transactions, for each key.
pub const TRIPS: &str = "trips/key";

const ON_REDIS: usize = 100_000;
/// A transaction takes milliseconds.
const ON_CASSANDRA: usize = 5_000;

fn keys(plan: Plan, many: usize) -> usize {
    if plan.quick { many / 10 } else { many }
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
            eprintln!("exchange of {name}: measuring");
            let node = Synced::new(connect(&server.place(60 + index)).await?).by_hand();
            let mut control = server.connect().await?;
            let mut best = Round { seconds: f64::INFINITY, trips: 0.0 };
            // The first makes the keys there.
            for _ in 0..=plan.rounds {
                let before = calls(&mut control).await?;
                let seconds = round(&node, &limit.clone().build("api")?, keys(plan, ON_REDIS)).await?;
                let trips = per_key(calls(&mut control).await? - before, keys(plan, ON_REDIS));
                best = best.or(Round { seconds, trips });
            }
            best.record(name, keys(plan, ON_REDIS), findings);
        }
        Ok(())
    })
}

pub fn on_cassandra(plan: Plan, findings: &mut Findings) -> Result<(), Failure> {
    race::block_on(async {
        let server = cassandra::server::Server::reach(None).await?;
        let store = server.config()?.connect().await?;
        eprintln!("exchange of {ROWS}: measuring");
        let node = Synced::new(store.clone()).by_hand();
        let mut best = Round { seconds: f64::INFINITY, trips: 0.0 };
        for _ in 0..=plan.rounds.min(3) {
            let before = store.counts().transactions;
            let seconds = round(&node, &bucket().build("api")?, keys(plan, ON_CASSANDRA)).await?;
            let trips = per_key(store.counts().transactions - before, keys(plan, ON_CASSANDRA));
            best = best.or(Round { seconds, trips });
        }
        best.record(ROWS, keys(plan, ON_CASSANDRA), findings);
        Ok(())
    })
}

/// Makes all keys dirty, and says how long it takes to exchange them.
#[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
async fn round<S: Store>(node: &Synced<S, SystemClock>, limit: &Limit, keys: usize) -> Result<f64, Failure> {
    for index in 0..keys {
        let decision = node.decide_one(&limit.charge(&name(index)), node.clock()).await?;
        if decision.is_denied() {
            return Err("a check of an exchange was denied, all should have passed".into());
        }
    }
    let exchanged = node.insight().exchanged_keys;
    let began = Instant::now();
    node.sync_now().await?;
    let seconds = began.elapsed().as_secs_f64();
    // Some were due from the last time, to see what others have told since.
    if node.insight().exchanged_keys - exchanged < keys as u64 {
        return Err("an exchange left keys out".into());
    }
    Ok(seconds)
}

#[derive(Clone, Copy)]
struct Round {
    seconds: f64,
    trips: f64,
}

impl Round {
    fn or(self, other: Self) -> Self {
        if other.seconds < self.seconds { other } else { self }
    }

    fn record(self, name: &'static str, keys: usize, findings: &mut Findings) {
        let keys = f64::from(u32::try_from(keys).unwrap_or(u32::MAX));
        for (column, value) in [(KEYS, keys), (SECONDS, self.seconds), (TRIPS, self.trips)] {
            findings.record(name, column.to_owned(), Finding::Figure { value, crowded: false });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "few enough")]
fn per_key(calls: u64, keys: usize) -> f64 {
    calls as f64 / keys as f64
}

pub fn print(findings: &Findings, cassandra: bool) {
    let mut names = vec![BUCKETS, WINDOWS, FIXED, COUNTERS, BY_INTERVAL];
    names.extend(cassandra.then_some(ROWS));
    findings.print_table(&names, &[KEYS, SECONDS, TRIPS].map(|column| (column, vec![column.to_owned()])));
}
