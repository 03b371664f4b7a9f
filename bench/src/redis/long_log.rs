//! How long a single call holds the server, on a sliding log of 100 thousand entries.
//!
//! By the server's own accounting, the slow log. The caller's clock decides, so that all entries expire at the instant
//! that the bench chooses. A log is filled once; every operation starts with a copy of it.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::cmd;
use tollgate::store::Store;
use tollgate::{Action, Clock, IdempotencyKey, Limit, Limiter, ManualClock, Request, SystemClock};
use tollgate_store_redis::{Config, RedisStore};

use super::load::{Load, Track};
use super::server::Server;
use super::subject::{Failure, Place, Remote};
use crate::keys::{self, Keys, Walk};
use crate::measure::Plan;
use crate::report::{Claim, Finding, Findings, Kind};
use crate::selection::Selection;

/// The name of the table, and of its column.
pub const TABLE: &str = "log-100k";

const LONGEST: &str = "longest";
const GOAL: &str = "goal";
const GOAL_MS: f64 = 5.0;

/// The entries of a full log: the most that a limit allows.
const ENTRIES: u32 = 100_000;
/// The allowed checks that make the log full, of which the longest counts: some may have to tidy up.
const CHECKS: u32 = 500;
/// The number of calls of each other operation.
const CALLS: u32 = 20;
/// The number of calls of each operation that debits at earlier instants. Each leaves corrections, up to the maximum.
const LATE_CALLS: u32 = 60;
const PERIOD: Duration = Duration::from_secs(3_600);
const BETWEEN_ENTRIES: Duration = Duration::from_micros(10);

/// What is called.
#[derive(Clone, Copy)]
enum Operation {
    Check,
    DeniedCheck,
    Peek,
    Refund,
    RefundInTheMiddle,
    DebitInTheMiddle,
    /// As reconciliation sends debits after an outage: dated at different instants.
    LateDebits(u32),
    /// The same, from a wrapper that decides on a replica of the state, which is returned.
    LateDeltas(u32),
    /// A check after late debits, which have left corrections.
    CheckAfterDebits,
    TakeUpTo,
    RefundOfHalf,
    RefundOfHalfInTheMiddle,
    Export,
    Reset,
    /// A check when the larger part of the log has expired, which is dropped then.
    CheckAfterMost,
    CheckAfterAll,
}

/// The operations of a round, in this order.
const OPERATIONS: [(&str, Operation); 16] = [
    ("check", Operation::Check),
    ("denied check", Operation::DeniedCheck),
    ("peek", Operation::Peek),
    ("refund", Operation::Refund),
    ("refund in the middle", Operation::RefundInTheMiddle),
    ("debit in the middle", Operation::DebitInTheMiddle),
    ("16 late debits", Operation::LateDebits(16)),
    ("16 late deltas", Operation::LateDeltas(16)),
    ("check after late debits", Operation::CheckAfterDebits),
    ("take up to", Operation::TakeUpTo),
    ("refund of half", Operation::RefundOfHalf),
    ("refund of half, in the middle", Operation::RefundOfHalfInTheMiddle),
    ("export", Operation::Export),
    ("reset", Operation::Reset),
    ("check, most expired", Operation::CheckAfterMost),
    ("check, all expired", Operation::CheckAfterAll),
];

pub async fn measure(
    plan: Plan,
    server: &Server,
    selection: &Selection,
    findings: &mut Findings,
) -> Result<(), Failure> {
    if !selection.includes(TABLE, LONGEST, [TABLE]) {
        return Ok(());
    }
    eprintln!("{TABLE}: preparing");
    let mut log = Log::filled(plan, server).await?;
    eprintln!("{TABLE}: measuring");
    let mut bests = [None::<Call>; OPERATIONS.len()];
    for _ in 0..plan.rounds {
        log.renew().await?;
        for ((_, operation), best) in OPERATIONS.iter().zip(&mut bests) {
            let call = log.longest_of(*operation, server).await?;
            // A disturbance can only make a call longer.
            *best = Some(best.map_or(call, |best| best.better(call)));
        }
    }
    log.recorder.restore(&mut log.control).await?;
    let mut longest = Call { disturbed: false, ms: 0.0 };
    for ((name, _), call) in OPERATIONS.iter().zip(bests.into_iter().flatten()) {
        findings.record(name, TABLE.to_owned(), call.finding());
        longest = Call { disturbed: longest.disturbed || call.disturbed, ms: longest.ms.max(call.ms) };
    }
    findings.record(LONGEST, TABLE.to_owned(), longest.finding());
    let goal = Finding::Figure { value: GOAL_MS, crowded: false };
    findings.record(GOAL, TABLE.to_owned(), goal);
    Ok(())
}

/// The longest call of an operation in a round.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// The server waited for a processor meanwhile.
    disturbed: bool,
    ms: f64,
}

impl Call {
    /// Returns the shorter of two, but an undisturbed one in any case.
    fn better(self, other: Self) -> Self {
        let order = self.disturbed.cmp(&other.disturbed).then(self.ms.total_cmp(&other.ms));
        if order.is_le() { self } else { other }
    }

    fn finding(self) -> Finding {
        Finding::Figure { value: self.ms, crowded: self.disturbed }
    }
}

/// A log that is nearly full, and its copy.
struct Log {
    limiter: Arc<Limiter<RedisStore, ManualClock>>,
    limit: Limit,
    clock: ManualClock,
    /// The time of the last entry.
    last_at: tollgate::Time,
    entries: u32,
    /// The number of late debits so far.
    late: u32,
    /// The keys of the log.
    stored: Vec<String>,
    control: MultiplexedConnection,
    recorder: SlowLog,
}

/// The entity of the copy. As long as that of the log.
const COPY: &str = "copy-0000000";

impl Log {
    async fn filled(plan: Plan, server: &Server) -> Result<Self, Failure> {
        let entries = if plan.quick { ENTRIES / 10 } else { ENTRIES };
        let Place { url, namespace } = server.place(0);
        let store = Config::new(url).prefix(namespace).require_reachable().caller_clock().connect().await?;
        let clock = ManualClock::at(SystemClock::new().now());
        let limiter = Arc::new(Limiter::with_clock(store, clock.clone()));
        let limit = Limit::per(entries, PERIOD).sliding_log().build("log")?;
        let hits = Hits { limiter: Arc::clone(&limiter), limit: limit.clone(), clock: clock.clone() };
        let load = Load { keys: Arc::new(Keys::new(1, 1)), in_flight: 50, checks: entries - CHECKS };
        Track::new(Arc::new(hits)).go(&load, load.checks).await?;

        let mut control = server.connect().await?;
        let stored: Vec<String> =
            cmd("KEYS").arg(format!("*{{{}}}*", keys::name(0))).query_async(&mut control).await?;
        let recorder = SlowLog::enable(&mut control).await?;
        let last_at = clock.now();
        Ok(Self { limiter, limit, clock, last_at, entries, late: 0, stored, control, recorder })
    }

    /// Makes the copy equal to the log, at the time of its last entry.
    async fn renew(&mut self) -> Result<(), Failure> {
        self.clock.set(self.last_at);
        for key in &self.stored {
            let mut copy = cmd("COPY");
            copy.arg(key).arg(key.replace(&keys::name(0), COPY)).arg("REPLACE");
            let copied: bool = copy.query_async(&mut self.control).await?;
            if !copied {
                return Err(format!("{key} was not copied").into());
            }
        }
        Ok(())
    }

    /// Calls an operation some times. Returns the longest script call.
    async fn longest_of(&mut self, operation: Operation, server: &Server) -> Result<Call, Failure> {
        let (calls, expected) = match operation {
            Operation::Check => (CHECKS, true),
            Operation::DeniedCheck | Operation::Peek => (CALLS, false),
            Operation::Refund
            | Operation::RefundInTheMiddle
            | Operation::CheckAfterDebits
            | Operation::TakeUpTo
            | Operation::Export => (CALLS, true),
            Operation::DebitInTheMiddle | Operation::LateDebits(_) | Operation::LateDeltas(_) => {
                (LATE_CALLS, true)
            }
            Operation::RefundOfHalf
            | Operation::RefundOfHalfInTheMiddle
            | Operation::Reset
            | Operation::CheckAfterMost
            | Operation::CheckAfterAll => (1, true),
        };
        match operation {
            Operation::DebitInTheMiddle | Operation::RefundOfHalfInTheMiddle | Operation::Reset => {
                self.renew().await?;
            }
            Operation::CheckAfterMost => {
                self.renew().await?;
                let live = BETWEEN_ENTRIES * (self.entries / 2 - CHECKS);
                self.clock.set(self.last_at + PERIOD - live);
            }
            Operation::CheckAfterAll => {
                self.renew().await?;
                self.clock.advance(PERIOD);
            }
            // There has to be room.
            Operation::CheckAfterDebits => {
                self.limiter.refund(&self.limit, COPY, LATE_CALLS * (16 + 16 + 1) + 1_000).await?;
            }
            _ => {}
        }
        self.recorder.clear(&mut self.control).await?;
        let waited = server.waited();
        for _ in 0..calls {
            self.clock.advance(BETWEEN_ENTRIES);
            let allowed = self.call(operation).await?;
            if allowed != expected {
                return Err(format!("a call on the log was allowed: {allowed}; expected: {expected}").into());
            }
        }
        let waited = server.waited().saturating_sub(waited);
        let longest = self.recorder.longest_script(&mut self.control).await?;
        let ms = longest.as_secs_f64() * 1e3;
        Ok(Call { disturbed: waited > longest / 20, ms })
    }

    async fn call(&mut self, operation: Operation) -> Result<bool, Failure> {
        let Self { limiter, limit, late, .. } = self;
        let length = BETWEEN_ENTRIES * self.entries;
        let (middle, last_at) = (self.last_at - length / 2, self.last_at);
        let refund_in_the_middle =
            |cost| limit.charge(COPY).with_cost(cost).with_action(Action::Refund { at: Some(middle) });
        let mut late_debit = || {
            *late += 1;
            // Evenly spread, whatever their number is: multiples of the golden ratio.
            let age = length.mul_f64((f64::from(*late) * 0.618_033_988_749_895).fract());
            limit.charge(COPY).with_action(Action::Debit { at: Some(last_at - age) })
        };
        Ok(match operation {
            Operation::Check
            | Operation::DeniedCheck
            | Operation::CheckAfterDebits
            | Operation::CheckAfterMost
            | Operation::CheckAfterAll => limiter.check(limit, COPY).await?.is_allowed(),
            Operation::Peek => limiter.peek(limit, COPY).await?.remaining() > 0,
            Operation::Refund => limiter.refund(limit, COPY, 1).await?.remaining() > 0,
            Operation::RefundOfHalf => limiter.refund(limit, COPY, self.entries / 2).await?.remaining() > 0,
            Operation::RefundInTheMiddle => limiter.charge(refund_in_the_middle(1)).await?.remaining() > 0,
            Operation::RefundOfHalfInTheMiddle => {
                limiter.charge(refund_in_the_middle(self.entries / 2)).await?.remaining() > 0
            }
            Operation::DebitInTheMiddle => limiter.charge(late_debit()).await?.is_allowed(),
            Operation::LateDebits(count) => {
                let debits: Vec<_> = (0..count).map(|_| late_debit()).collect();
                limiter.check_all(debits).await?.is_allowed()
            }
            Operation::LateDeltas(count) => {
                let debits: Vec<_> = (0..count).map(|_| late_debit()).collect();
                let request = Request::new(&debits).with_idempotency_key(IdempotencyKey::unique());
                let states = limiter.store().apply_deltas(request, self.clock.now()).await?;
                states.iter().all(|export| export.state.is_some())
            }
            Operation::TakeUpTo => limiter.take_up_to(limit, COPY, 3).await?.granted() > 0,
            Operation::Export => {
                limiter.store().export(limit, COPY.into(), self.clock.now()).await?.state.is_some()
            }
            Operation::Reset => limiter.reset(limit, COPY).await.is_ok(),
        })
    }
}

/// Fills the log: one entry per call.
struct Hits {
    limiter: Arc<Limiter<RedisStore, ManualClock>>,
    limit: Limit,
    clock: ManualClock,
}

impl Remote for Hits {
    async fn call(&self, keys: &mut Walk<'_>) -> Result<bool, Failure> {
        self.clock.advance(BETWEEN_ENTRIES);
        Ok(self.limiter.check(&self.limit, keys.step()).await?.is_allowed())
    }
}

/// The slow log of the server, which records every command while this exists.
struct SlowLog {
    /// The settings from before.
    settings: Vec<(&'static str, String)>,
}

impl SlowLog {
    const SETTINGS: [(&'static str, &'static str); 2] =
        [("slowlog-log-slower-than", "0"), ("slowlog-max-len", "2000")];

    async fn enable(control: &mut MultiplexedConnection) -> Result<Self, Failure> {
        let mut settings = Vec::new();
        for (name, value) in Self::SETTINGS {
            let (_, before): (String, String) =
                cmd("CONFIG").arg("GET").arg(name).query_async(control).await?;
            cmd("CONFIG").arg("SET").arg(name).arg(value).exec_async(control).await?;
            settings.push((name, before));
        }
        Ok(Self { settings })
    }

    async fn restore(&self, control: &mut MultiplexedConnection) -> Result<(), Failure> {
        for (name, before) in &self.settings {
            cmd("CONFIG").arg("SET").arg(name).arg(before).exec_async(control).await?;
        }
        self.clear(control).await
    }

    async fn clear(&self, control: &mut MultiplexedConnection) -> Result<(), Failure> {
        Ok(cmd("SLOWLOG").arg("RESET").exec_async(control).await?)
    }

    async fn longest_script(&self, control: &mut MultiplexedConnection) -> Result<Duration, Failure> {
        // Number, time, duration in µs, command, address and name of the client.
        type Entry = (u64, u64, u64, Vec<Vec<u8>>, String, String);
        let entries: Vec<Entry> = cmd("SLOWLOG").arg("GET").arg(-1).query_async(control).await?;
        let is_script = |command: &[Vec<u8>]| command.first().is_some_and(|name| name.starts_with(b"EVAL"));
        let scripts = entries.iter().filter(|entry| is_script(&entry.3));
        let longest = scripts.map(|entry| entry.2).max().ok_or("the slow log has no scripts")?;
        Ok(Duration::from_micros(longest))
    }
}

pub fn print(findings: &Findings, selection: &Selection) {
    if !selection.includes(TABLE, LONGEST, [TABLE]) {
        return;
    }
    let mut rows = OPERATIONS.map(|(name, _)| name).to_vec();
    rows.extend([LONGEST, GOAL]);
    println!("\n{TABLE}: ms of the longest script call");
    findings.print_table(&rows, &[("ms", vec![TABLE.to_owned()])]);
}

pub fn claim() -> Claim {
    Claim {
        kind: Kind::Absolute,
        name: format!("{TABLE}-longest-call-ms"),
        against: GOAL,
        ours: (LONGEST, TABLE.to_owned()),
        theirs: (GOAL, TABLE.to_owned()),
    }
}
