//! One hot key in one process.

use std::sync::Arc;
use std::time::Duration;

use super::bare::{self, Bare};
use super::callers::{self, Tally};
use super::key::HotKey;
use super::server::Server;
use crate::measure::Plan;
use crate::redis::subject::Failure;
use crate::report::{Finding, Findings};

pub const OURS: &str = "tollgate";
pub const NAIVE: &str = "naive";

pub const CALLERS: u32 = 500;
const KEY: &str = "hot";
const OUR_LAP: Duration = Duration::from_secs(2);
/// Longer, since it decides few checks.
const NAIVE_LAP: Duration = Duration::from_secs(5);

const RATE: &str = "hot-checks/s";
pub const TIME: &str = "hot-time";
/// Per check, over all rounds.
pub const TRANSACTIONS: &str = "hot-transactions";
const TRANSACTIONS_OF_1000: &str = "hot-transactions/1000";
const FAILED: &str = "hot-errors/s";
/// The headings of the columns, and the figures below them.
const COLUMNS: [(&str, &str); 4] =
    [("checks/s", RATE), ("µs", TIME), ("transactions/1000", TRANSACTIONS_OF_1000), ("errors/s", FAILED)];

async fn check(key: Arc<HotKey>) -> Result<bool, Failure> {
    key.check().await
}

/// Reads the row, decides, and writes it if it is unchanged. Returns `false` if another caller has changed it.
async fn naive(bare: Arc<Bare>) -> Result<bool, Failure> {
    let key = bare::partition(NAIVE, KEY);
    let before = bare.read(&key).await?;
    let count = before.as_deref().and_then(bare::count).unwrap_or(0);
    bare.write(&key, before.as_deref(), &bare::state(count + 1)).await
}

pub async fn measure(plan: Plan, server: &Server, findings: &mut Findings) -> Result<(), Failure> {
    eprintln!("hot key: measuring");
    let (laps, divisor) = if plan.quick { (1, 5) } else { (plan.rounds.div_ceil(3), 1) };
    let key = Arc::new(HotKey::connect(server.config()?, KEY).await?);
    let bare = Arc::new(Bare::connect(server).await?);
    let mut ours = Side::new(OUR_LAP / divisor);
    let mut theirs = Side::new(NAIVE_LAP / divisor);
    for _ in 0..laps {
        let key = Arc::clone(&key);
        ours.lap(move || check(Arc::clone(&key))).await?;
        let bare = Arc::clone(&bare);
        theirs.lap(move || naive(Arc::clone(&bare))).await?;
    }
    if let Some(error) = ours.all.first_error {
        return Err(format!("{} checks of the hot key by Tollgate failed: {error}", ours.all.errors).into());
    }
    let sent = key.stats().transactions;
    key.verify_count(ours.all.admitted).await?;

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let per_check = sent as f64 / ours.all.admitted as f64;
    let mut figure = |subject, column: &str, value| {
        findings.record(subject, column.to_owned(), Finding::Figure { value, crowded: false });
    };
    for (name, side) in [(OURS, &ours.rate), (NAIVE, &theirs.rate)] {
        figure(name, RATE, *side);
        figure(name, TIME, 1e6 / side);
    }
    figure(OURS, TRANSACTIONS, per_check);
    figure(OURS, TRANSACTIONS_OF_1000, 1e3 * per_check);
    figure(NAIVE, FAILED, theirs.failed);
    Ok(())
}

/// The laps of one of the two subjects.
struct Side {
    span: Duration,
    all: Tally,
    /// Checks per second in the best lap.
    rate: f64,
    /// Errors per second in the last lap.
    failed: f64,
}

impl Side {
    fn new(span: Duration) -> Self {
        Self { span, all: Tally::default(), rate: 0.0, failed: 0.0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    async fn lap<F>(&mut self, call: impl Fn() -> F + Clone + Send + 'static) -> Result<(), Failure>
    where
        F: Future<Output = Result<bool, Failure>> + Send,
    {
        let tally = callers::call(CALLERS, self.span, call).await?;
        // At least one, so that a ratio exists.
        self.rate = self.rate.max(tally.in_time.max(1) as f64 / self.span.as_secs_f64());
        self.failed = tally.errors as f64 / self.span.as_secs_f64();
        self.all.add(tally);
        Ok(())
    }
}

pub fn print(findings: &Findings) {
    findings
        .print_table(&[OURS, NAIVE], &COLUMNS.map(|(heading, column)| (heading, vec![column.to_owned()])));
}
