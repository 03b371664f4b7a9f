//! Several processes that contend for one key: throughput and fairness.
//!
//! Each process is this program again, with its own store. It reports on standard output that it has connected, waits
//! for a line on standard input, makes checks for some time, and reports the results in one line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tollgate_store_cassandra::Config;

use super::callers;
use super::key::HotKey;
use super::server::Server;
use crate::measure::Plan;
use crate::redis::race;
use crate::redis::subject::Failure;
use crate::report::{Finding, Findings};

/// The internal subcommand of a contender. Arguments: a URL, a key, `warm` or `cold`, milliseconds.
pub const SUBCOMMAND: &str = "cassandra-contender";
/// The number of callers in each process.
pub const CALLERS: u32 = 50;
const SPAN: Duration = Duration::from_secs(5);
/// The line of a contender that has connected.
const READY: &str = "ready";

const WARM: &str = "warm";
pub const COLD: &str = "cold";
/// The rows: name (which is the key, too), number of processes, and whether they cache the row that they read last.
const SCENARIOS: [(&str, u32, &str); 5] = [
    ("1 process", 1, WARM),
    ("2 processes", 2, WARM),
    ("4 processes", 4, WARM),
    ("2 processes, cold", 2, COLD),
    ("4 processes, cold", 4, COLD),
];

const COLUMNS: [&str; 8] = [
    "checks/s total",
    "slowest process",
    "fastest process",
    "transactions/1000",
    "conflicts/1000",
    "reads/1000",
    "slowest-ms",
    "errors",
];

/// The results of one contender.
#[derive(Clone, Debug, Default, PartialEq)]
struct Results {
    admitted: u64,
    in_time: u64,
    transactions: u64,
    conflicts: u64,
    reads: u64,
    slowest_ms: u64,
    errors: u64,
    first_error: String,
}

impl Results {
    fn line(&self) -> String {
        let Self { admitted, in_time, transactions, conflicts, reads, slowest_ms, errors, first_error } =
            self;
        let first_error = first_error.replace('\n', " ");
        format!("{admitted} {in_time} {transactions} {conflicts} {reads} {slowest_ms} {errors} {first_error}")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim_end_matches('\n').splitn(8, ' ');
        let mut number = || parts.next()?.parse().ok();
        Some(Self {
            admitted: number()?,
            in_time: number()?,
            transactions: number()?,
            conflicts: number()?,
            reads: number()?,
            slowest_ms: number()?,
            errors: number()?,
            first_error: parts.next()?.to_owned(),
        })
    }
}

/// Runs one of the processes.
pub fn contend(url: &str, key: &str, cold: bool, span: Duration) -> Result<(), String> {
    race::block_on(async {
        let config = Config::new(url).require_reachable();
        let config = if cold { config.cache_bytes(0) } else { config };
        let key = Arc::new(HotKey::connect(config, key).await?);
        // Beforehand, so that the row is cached if the process caches rows.
        let first = key.check().await?;
        println!("{READY}");
        std::io::stdin().lock().read_line(&mut String::new())?;
        let before = key.stats();
        let shared = Arc::clone(&key);
        let call = move || {
            let key = Arc::clone(&shared);
            async move { key.check().await }
        };
        let tally = callers::call(CALLERS, span, call).await?;
        let after = key.stats();
        let results = Results {
            admitted: u64::from(first) + tally.admitted,
            in_time: tally.in_time,
            transactions: after.transactions - before.transactions,
            conflicts: after.not_applied - before.not_applied,
            reads: after.reads - before.reads,
            slowest_ms: u64::try_from(tally.slowest.as_millis())?,
            errors: tally.errors,
            first_error: tally.first_error.unwrap_or_default(),
        };
        println!("{}", results.line());
        Ok(())
    })
    .map_err(|error: Failure| error.to_string())
}

/// A contender's process, killed on drop.
struct Contender {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Contender {
    /// Starts a contender, and returns when it has connected.
    fn start(url: &str, key: &str, cache: &str, span: Duration) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([SUBCOMMAND, url, key, cache, &span.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("a contender without standard output")?);
        let mut contender = Self { child, output };
        match contender.read_line()?.trim_end() {
            READY => Ok(contender),
            other => Err(format!("unexpected output of a contender: {other:?}").into()),
        }
    }

    fn read_line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    fn go(&mut self) -> Result<(), Failure> {
        let mut input = self.child.stdin.take().ok_or("a contender without standard input")?;
        Ok(input.write_all(b"go\n")?)
    }

    fn results(&mut self) -> Result<Results, Failure> {
        let line = self.read_line()?;
        Results::parse(&line).ok_or_else(|| format!("unexpected output of a contender: {line:?}").into())
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs all contenders at once.
fn contest(url: &str, key: &str, count: u32, cache: &str, span: Duration) -> Result<Vec<Results>, Failure> {
    let contenders = (0..count).map(|_| Contender::start(url, key, cache, span));
    let mut contenders = contenders.collect::<Result<Vec<_>, _>>()?;
    contenders.iter_mut().try_for_each(Contender::go)?;
    contenders.iter_mut().map(Contender::results).collect()
}

pub async fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    let span = if plan.quick { SPAN / 5 } else { SPAN };
    for (name, count, cache) in SCENARIOS {
        eprintln!("{name}: measuring");
        let url = server.store_url()?;
        // On another thread, so that the driver keeps serving its connection.
        let contest = tokio::task::spawn_blocking(move || contest(&url, name, count, cache, span));
        let results = contest.await??;
        let admitted = results.iter().map(|results| results.admitted).sum();
        if results.iter().all(|results| results.errors == 0) {
            HotKey::connect(server.config()?, name).await?.verify_count(admitted).await?;
        }
        record(findings, name, &results, span);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn record(findings: &mut Findings, name: &'static str, all: &[Results], span: Duration) {
    let sum = |part: fn(&Results) -> u64| all.iter().map(part).sum::<u64>() as f64;
    let rates = || all.iter().map(|results| results.in_time as f64 / span.as_secs_f64());
    let per_1000 = |part| 1e3 * sum(part) / sum(|results| results.admitted);
    let slowest = all.iter().map(|results| results.slowest_ms).max().unwrap_or(0);
    let values = [
        rates().sum(),
        rates().fold(f64::INFINITY, f64::min),
        rates().fold(0.0, f64::max),
        per_1000(|results| results.transactions),
        per_1000(|results| results.conflicts),
        per_1000(|results| results.reads),
        slowest as f64,
        sum(|results| results.errors),
    ];
    for (column, value) in COLUMNS.into_iter().zip(values) {
        findings.record(name, column.to_owned(), Finding::Figure { value, crowded: false });
    }
    if let Some(failed) = all.iter().find(|results| results.errors > 0) {
        eprintln!("{name}: {} errors in one process, the first: {}", failed.errors, failed.first_error);
    }
}

pub fn print(findings: &Findings) {
    findings.print_table(
        &SCENARIOS.map(|(name, ..)| name),
        &COLUMNS.map(|column| (column, vec![column.to_owned()])),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_parsed() {
        let results = Results { admitted: 7, slowest_ms: 12, errors: 1, ..Results::default() };
        for first_error in ["", "too late for that"] {
            let results = Results { first_error: first_error.to_owned(), ..results.clone() };
            assert_eq!(Results::parse(&(results.line() + "\n")), Some(results));
        }
        assert_eq!(Results::parse("1 2 3"), None);
    }
}
