//! Several processes that ask about one key: whether all of them get on, and what they cost each other.
//!
//! Each is this program again, with a store of its own. It says when it has connected, waits for a line, asks as often as it can,
//! and says in one line what became of it.

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

/// The subcommand of a contender, which is for this program only: a URL, a key, `warm` or `cold`, milliseconds.
pub const SUBCOMMAND: &str = "cassandra-contender";
/// In each process.
pub const CALLERS: u32 = 50;
const SPAN: Duration = Duration::from_secs(5);
/// What a contender says when it has connected.
const READY: &str = "ready";

const WARM: &str = "warm";
pub const COLD: &str = "cold";
/// The rows: their names, which are their keys too, how many processes, and whether they remember the row that they saw last.
const SCENES: [(&str, u32, &str); 5] = [
    ("1 process", 1, WARM),
    ("2 processes", 2, WARM),
    ("4 processes", 4, WARM),
    ("2 processes, cold", 2, COLD),
    ("4 processes, cold", 4, COLD),
];

const COLUMNS: [&str; 8] = [
    "checks/s of all",
    "least of one",
    "most of one",
    "transactions/1000",
    "refused/1000",
    "reads/1000",
    "slowest-ms",
    "errors",
];

/// What one contender did.
#[derive(Clone, Debug, Default, PartialEq)]
struct Account {
    admitted: u64,
    in_time: u64,
    transactions: u64,
    refused: u64,
    reads: u64,
    slowest_ms: u64,
    errors: u64,
    first_error: String,
}

impl Account {
    fn line(&self) -> String {
        let Self { admitted, in_time, transactions, refused, reads, slowest_ms, errors, first_error } = self;
        let first_error = first_error.replace('\n', " ");
        format!("{admitted} {in_time} {transactions} {refused} {reads} {slowest_ms} {errors} {first_error}")
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim_end_matches('\n').splitn(8, ' ');
        let mut number = || parts.next()?.parse().ok();
        Some(Self {
            admitted: number()?,
            in_time: number()?,
            transactions: number()?,
            refused: number()?,
            reads: number()?,
            slowest_ms: number()?,
            errors: number()?,
            first_error: parts.next()?.to_owned(),
        })
    }
}

/// Is one of the processes.
pub fn contend(url: &str, key: &str, cold: bool, span: Duration) -> Result<(), String> {
    race::block_on(async {
        let config = Config::new(url).must_be_there();
        let config = if cold { config.cache_bytes(0) } else { config };
        let key = Arc::new(HotKey::connect(config, key).await?);
        // Beforehand, so that it has seen the row, if it remembers rows.
        let first = key.check().await?;
        println!("{READY}");
        std::io::stdin().lock().read_line(&mut String::new())?;
        let before = key.counts();
        let asked = Arc::clone(&key);
        let call = move || {
            let key = Arc::clone(&asked);
            async move { key.check().await }
        };
        let tally = callers::call(CALLERS, span, call).await?;
        let after = key.counts();
        let account = Account {
            admitted: u64::from(first) + tally.admitted,
            in_time: tally.in_time,
            transactions: after.transactions - before.transactions,
            refused: after.refused - before.refused,
            reads: after.reads - before.reads,
            slowest_ms: u64::try_from(tally.slowest.as_millis())?,
            errors: tally.errors,
            first_error: tally.first_error.unwrap_or_default(),
        };
        println!("{}", account.line());
        Ok(())
    })
    .map_err(|error: Failure| error.to_string())
}

/// A process of its own, killed if it is dropped before it has ended.
struct Contender {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Contender {
    /// Returns when it has connected.
    fn start(url: &str, key: &str, memory: &str, span: Duration) -> Result<Self, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([SUBCOMMAND, url, key, memory, &span.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let says = BufReader::new(child.stdout.take().ok_or("a contender without a voice")?);
        let mut contender = Self { child, says };
        match contender.hear()?.trim_end() {
            READY => Ok(contender),
            other => Err(format!("a contender says {other:?}").into()),
        }
    }

    fn hear(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.says.read_line(&mut line)?;
        Ok(line)
    }

    fn go(&mut self) -> Result<(), Failure> {
        let mut ears = self.child.stdin.take().ok_or("a contender without ears")?;
        Ok(ears.write_all(b"go\n")?)
    }

    fn account(&mut self) -> Result<Account, Failure> {
        let line = self.hear()?;
        Account::parse(&line).ok_or_else(|| format!("a contender says {line:?}").into())
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // There is nobody to tell if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All of them at once.
fn contest(url: &str, key: &str, count: u32, memory: &str, span: Duration) -> Result<Vec<Account>, Failure> {
    let contenders = (0..count).map(|_| Contender::start(url, key, memory, span));
    let mut contenders = contenders.collect::<Result<Vec<_>, _>>()?;
    contenders.iter_mut().try_for_each(Contender::go)?;
    contenders.iter_mut().map(Contender::account).collect()
}

pub async fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    let span = if plan.quick { SPAN / 5 } else { SPAN };
    for (name, count, memory) in SCENES {
        eprintln!("{name}: measuring");
        let url = server.store_url()?;
        // The driver has to go on answering the node meanwhile.
        let contest = tokio::task::spawn_blocking(move || contest(&url, name, count, memory, span));
        let accounts = contest.await??;
        let admitted = accounts.iter().map(|account| account.admitted).sum();
        if accounts.iter().all(|account| account.errors == 0) {
            HotKey::connect(server.config()?, name).await?.nothing_lost(admitted).await?;
        }
        record(findings, name, &accounts, span);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn record(findings: &mut Findings, name: &'static str, accounts: &[Account], span: Duration) {
    let sum = |part: fn(&Account) -> u64| accounts.iter().map(part).sum::<u64>() as f64;
    let rates = || accounts.iter().map(|account| account.in_time as f64 / span.as_secs_f64());
    let of_1000 = |part| 1e3 * sum(part) / sum(|account| account.admitted);
    let slowest = accounts.iter().map(|account| account.slowest_ms).max().unwrap_or(0);
    let values = [
        rates().sum(),
        rates().fold(f64::INFINITY, f64::min),
        rates().fold(0.0, f64::max),
        of_1000(|account| account.transactions),
        of_1000(|account| account.refused),
        of_1000(|account| account.reads),
        slowest as f64,
        sum(|account| account.errors),
    ];
    for (column, value) in COLUMNS.into_iter().zip(values) {
        findings.record(name, column.to_owned(), Finding::Figure { value, crowded: false });
    }
    if let Some(failed) = accounts.iter().find(|account| account.errors > 0) {
        eprintln!("{name}: {} errors in one process, the first: {}", failed.errors, failed.first_error);
    }
}

pub fn print(findings: &Findings) {
    findings.print_table(
        &SCENES.map(|(name, ..)| name),
        &COLUMNS.map(|column| (column, vec![column.to_owned()])),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_understood() {
        let account = Account { admitted: 7, slowest_ms: 12, errors: 1, ..Account::default() };
        for first_error in ["", "too late for that"] {
            let account = Account { first_error: first_error.to_owned(), ..account.clone() };
            assert_eq!(Account::parse(&(account.line() + "\n")), Some(account));
        }
        assert_eq!(Account::parse("1 2 3"), None);
    }
}
