//! Checks of many keys, one transaction each.
//!
//! Every key is checked several times before the timing starts: its row exists, its last state is cached by the store
//! and by the floor, and the node has compiled the code that it executes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate::{Charge, Key, Limit, LimitError, Limiter};

use super::bare::{self, Bare};
use super::server::Server;
use super::{CoalescedStore, connect};
use crate::crowding;
use crate::keys::{self, Keys, Walk};
use crate::measure::Plan;
use crate::redis::load::{Load, Track};
use crate::redis::subject::{Failure, Remote, Runner};
use crate::report::{Finding, Findings};

pub const ONE: &str = "tollgate";
pub const FIVE: &str = "tollgate 5 limits";
pub const FLOOR: &str = "floor";
const ROWS: [&str; 3] = [ONE, FIVE, FLOOR];

pub const IN_FLIGHT: u32 = 64;
const KEYS: usize = 2_048;
/// The number of checks of every key before the timing starts: as many as fill the metadata of a row.
const BEFORE: u32 = 16;

const RATE: &str = "distinct-checks/s";
pub const TIME: &str = "distinct-time";
const CLIENT: &str = "distinct-client-cpu";
const TRANSACTIONS: &str = "distinct-transactions";
/// The headings of the columns, and the figures below them.
const COLUMNS: [(&str, &str); 4] =
    [("checks/s", RATE), ("µs", TIME), ("client-cpu", CLIENT), ("transactions/1000", TRANSACTIONS)];
/// Per check, over all rounds.
pub const READS: &str = "distinct-reads";

/// A limit that refills nothing during a run.
fn bucket(name: &str) -> Result<Limit, LimitError> {
    Limit::per(10_000, Duration::from_secs(1_000_000)).build(name)
}

/// One limit of one entity.
struct One {
    limiter: Limiter<CoalescedStore>,
    limit: Limit,
}

impl Remote for One {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        let decision = self.limiter.check(&self.limit, Key::new("one", keys.step())).await?;
        Ok(decision.is_allowed())
    }
}

/// Five limits of one entity in one request.
struct Five {
    limiter: Limiter<CoalescedStore>,
    limits: [Limit; 5],
}

impl Remote for Five {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        let key = Key::new("five", keys.step());
        let charges: [Charge<'_>; 5] = self.limits.each_ref().map(|limit| limit.charge(key));
        Ok(self.limiter.check_all(charges).await?.is_allowed())
    }
}

/// One conditional update of a row whose last state is known: the least work of any exact limiter on Cassandra. It
/// decides nothing.
struct Floor {
    bare: Bare,
    /// The number of writes of each key.
    counts: HashMap<String, AtomicU64>,
}

impl Remote for Floor {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        let name = keys.step();
        let count = self.counts[name].fetch_add(1, Ordering::Relaxed);
        let before = (count > 0).then(|| bare::state(count));
        self.bare.write(&bare::partition(FLOOR, name), before.as_deref(), &bare::state(count + 1)).await
    }
}

/// One subject, and the figures of its rounds.
struct Entry {
    name: &'static str,
    track: Track,
    /// `None` for the floor.
    store: Option<CoalescedStore>,
    transactions: u64,
    reads: u64,
    checks: u64,
    best: Option<Lap>,
}

/// The times of one round, per check.
#[derive(Clone, Copy)]
struct Lap {
    time: Duration,
    client: Duration,
}

impl Entry {
    fn new(name: &'static str, runner: Arc<dyn Runner>, store: Option<CoalescedStore>) -> Self {
        Self { name, track: Track::new(runner), store, transactions: 0, reads: 0, checks: 0, best: None }
    }

    #[expect(clippy::disallowed_methods, reason = "a stopwatch needs the machine's time")]
    async fn lap(&mut self, load: &Load) -> Result<(), Failure> {
        let stats = || self.store.as_ref().map(|store| store.store().stats()).unwrap_or_default();
        let (before, ran, start) = (stats(), crowding::ran(), Instant::now());
        let checks = self.track.go(load, load.checks).await?;
        let (time, client) = (start.elapsed() / checks, crowding::ran().saturating_sub(ran) / checks);
        let after = self.store.as_ref().map(|store| store.store().stats()).unwrap_or_default();
        self.transactions += after.transactions - before.transactions;
        self.reads += after.reads - before.reads;
        self.checks += u64::from(checks);
        if self.best.is_none_or(|best| time < best.time) {
            self.best = Some(Lap { time, client });
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn record(&self, findings: &mut Findings) {
        let mut figure = |column: &str, value| {
            findings.record(self.name, column.to_owned(), Finding::Figure { value, crowded: false });
        };
        if let Some(Lap { time, client }) = self.best {
            figure(RATE, 1.0 / time.as_secs_f64());
            figure(TIME, time.as_secs_f64() * 1e6);
            figure(CLIENT, client.as_secs_f64() * 1e6);
        }
        if self.store.is_some() {
            figure(TRANSACTIONS, 1e3 * self.transactions as f64 / self.checks as f64);
            figure(READS, self.reads as f64 / self.checks as f64);
        }
    }
}

pub async fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    eprintln!("distinct keys: preparing");
    let keys = if plan.quick { KEYS / 4 } else { KEYS };
    let load =
        Load { keys: Arc::new(Keys::new(keys, 1)), in_flight: IN_FLIGHT, checks: u32::try_from(keys)? };
    let mut entries = entries(server, keys).await?;
    for _ in 0..BEFORE {
        for entry in &mut entries {
            let warmed_up = entry.track.go(&load, load.checks).await;
            warmed_up.map_err(|failure| format!("{} on distinct keys: {failure}", entry.name))?;
        }
    }
    same_size(server).await?;
    eprintln!("distinct keys: measuring");
    for _ in 0..plan.rounds {
        for entry in &mut entries {
            entry
                .lap(&load)
                .await
                .map_err(|failure| format!("{} on distinct keys: {failure}", entry.name))?;
        }
        // A node has background work after each subject; alternating the order spreads it evenly.
        entries.reverse();
    }
    for entry in &entries {
        entry.record(findings);
    }
    Ok(())
}

async fn entries(server: &Server, keys: usize) -> Result<Vec<Entry>, Failure> {
    let (one, five) = (connect(server.config()?).await?, connect(server.config()?).await?);
    let names = ["api", "api-2", "api-3", "api-4", "api-5"];
    let limits = names.map(bucket).into_iter().collect::<Result<Vec<_>, _>>()?;
    let limits = limits.try_into().map_err(|_| "the number of limits differs from that of names")?;
    let counts = (0..keys).map(|index| (keys::name(index), AtomicU64::new(0))).collect();
    let runners: [(Arc<dyn Runner>, _); 3] = [
        (Arc::new(One { limiter: Limiter::new(one.clone()), limit: bucket("api")? }), Some(one)),
        (Arc::new(Five { limiter: Limiter::new(five.clone()), limits }), Some(five)),
        (Arc::new(Floor { bare: Bare::connect(server).await?, counts }), None),
    ];
    Ok(ROWS.into_iter().zip(runners).map(|(name, (runner, store))| Entry::new(name, runner, store)).collect())
}

/// Fails if the rows of the floor and of the store differ in size.
async fn same_size(server: &Server) -> Result<(), Failure> {
    let ours = Bare::connect(server).await?.read(&bare::partition("one", &keys::name(0))).await?;
    match ours.map(|state| state.len()) {
        Some(bare::ROW_BYTES) => Ok(()),
        other => {
            Err(format!("a row of the store has {other:?} bytes, a row of the floor {}", bare::ROW_BYTES)
                .into())
        }
    }
}

pub fn print(findings: &Findings) {
    findings.print_table(&ROWS, &COLUMNS.map(|(heading, column)| (heading, vec![column.to_owned()])));
}
