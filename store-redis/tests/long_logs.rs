//! Sliding logs of thousands of entries, changed in the middle: dated debits and refunds, expiry, counted denials, gaps
//! and limits that change. On seeded random traces, the scripts must agree with core's pure function in every field of
//! every decision, and in every word of the state.

use std::mem;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tollgate_conformance::Seed;
use tollgate_core::store::{Run, Snapshot, State, Store, settle};
use tollgate_core::{Action, Charge, Decision, IdempotencyKey, Key, Limit, LimitBuilder, Request, Time};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

const START: Time = Time::from_secs(1_790_000_000);
const PERIOD: Duration = Duration::from_secs(3_600);
const STEPS: u64 = 600;
/// The charges of one request that fills a log.
const FILLING: u64 = 200;

/// The shape of a trace.
#[derive(Clone, Copy)]
struct Shape {
    /// The number of entries below which the log is filled again.
    entries: u64,
    /// Whether the clock is set back sometimes.
    back: bool,
    /// The larger, the more charges are dated.
    dated: u64,
    /// Of how many steps one is a long time, on average: only a gap keeps the newest entry then.
    idle: u64,
}

fn main() -> ExitCode {
    let plain = || Limit::per(6_000, PERIOD).sliding_log();
    let limits: [(&str, Vec<LimitBuilder>); 7] = [
        ("log", vec![plain()]),
        ("denied_counted", vec![plain().count_denied()]),
        ("with_gap", vec![plain().min_gap(Duration::from_micros(3)), plain().min_gap(PERIOD * 3)]),
        (
            "gap_now_and_then",
            vec![
                Limit::per(6_000, PERIOD / 2).sliding_log().min_gap(PERIOD * 2),
                Limit::per(6_000, PERIOD * 2).sliding_log(),
                Limit::per(6_000, PERIOD * 2).sliding_log().min_gap(PERIOD * 3),
            ],
        ),
        ("blocking", vec![plain().count_denied().block_for(Duration::from_micros(7))]),
        ("smaller_and_larger", vec![plain(), Limit::per(300, PERIOD).sliding_log(), plain()]),
        (
            "changing",
            vec![
                plain(),
                Limit::per(6_000, PERIOD * 2).sliding_log(),
                Limit::per(7_000, PERIOD / 2).sliding_log().min_gap(PERIOD),
                Limit::per(100_000, PERIOD).sliding_log().count_denied(),
            ],
        ),
    ];
    let shapes = [
        ("long", Shape { entries: 2_500, back: false, dated: 1, idle: 400 }),
        ("long_mostly_dated", Shape { entries: 2_500, back: true, dated: 6, idle: 400 }),
        ("short", Shape { entries: 40, back: true, dated: 2, idle: 400 }),
        ("often_idle", Shape { entries: 60, back: false, dated: 2, idle: 12 }),
        ("around_one_block", Shape { entries: 150, back: false, dated: 6, idle: 400 }),
    ];
    let runtime = Runtime::new().expect("a runtime");
    let mut trials = Vec::new();
    for (name, limits) in limits {
        let limits: Vec<_> =
            limits.into_iter().map(|limit| limit.build(name).expect("samples are valid")).collect();
        for (shape_name, shape) in shapes {
            let (handle, limits, seed) = (runtime.handle().clone(), limits.clone(), trials.len() as u64);
            let name = format!("{name}::{shape_name}");
            trials.push(Trial::test(name.clone(), move || {
                handle.block_on(async { replay(&name, &limits, seed, shape, &store().await).await });
                Ok(())
            }));
        }
    }
    for debits in [1, 40, 300] {
        let (handle, name) = (runtime.handle().clone(), format!("keeps_an_entry_without_a_cost::{debits}"));
        trials.push(Trial::test(name.clone(), move || {
            handle.block_on(async { keeps_an_entry_without_a_cost(&name, debits, &store().await).await });
            Ok(())
        }));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Returns the store of all trials. Its server stops with this process.
async fn store() -> RedisStore {
    static STORE: OnceCell<(Redis, RedisStore)> = OnceCell::const_new();
    let connect = async || {
        let redis = Redis::start(&[]).await;
        // Long, because the machine may be busy.
        let config = Config::new(redis.url()).caller_clock().call_timeout(Duration::from_secs(30));
        let store = config.require_reachable().connect().await.expect("a reachable server");
        (redis, store)
    };
    STORE.get_or_init(connect).await.1.clone()
}

async fn replay(name: &str, limits: &[Limit], seed: u64, shape: Shape, store: &RedisStore) {
    let mut random = Seed::new(seed);
    let (mut log, mut now) = (Log { name, store, state: State::default() }, START);
    for step in 0..STEPS {
        let limit = match limits {
            [limit] => limit,
            limits if random.once_in(12) => random.pick(limits),
            limits => &limits[usize::try_from(step / shape.idle.min(60)).unwrap_or(0) % limits.len()],
        };
        let key = log_key(name);
        now = next(now, &mut random, shape);
        let entries = log.state.snapshot(limit).words().len() as u64 / 2;
        let charges: Vec<_> = if entries < shape.entries && random.once_in(3) {
            let missing = (shape.entries - entries).min(FILLING) + 1;
            (0..missing).map(|_| dated_debit(limit.charge(key), now, &mut random)).collect()
        } else {
            let count = match random.below(8) {
                0 => 16,
                1 => 2 + random.below(6),
                _ => 1,
            };
            let is_reconciled = random.once_in(3);
            let charge = |random: &mut Seed| {
                let charge = limit.charge(key);
                if is_reconciled { dated_debit(charge, now, random) } else { any(charge, now, random, shape) }
            };
            (0..count).map(|_| charge(&mut random)).collect()
        };
        if random.once_in(8) && charges.iter().all(|charge| matches!(charge.action(), Action::Debit { .. })) {
            log.apply(&charges, now, &format!("step {step}, {entries} entries")).await;
            continue;
        }
        let times = if random.once_in(12) { 2 } else { 1 };
        let context = format!("step {step}, {entries} entries");
        log.decide(&charges, times, now, &context).await;
        if random.once_in(if shape.entries > 1_000 { 20 } else { 3 }) {
            log.states_agree(limit, now, &context).await;
        }
    }
}

/// A gap leaves an entry without a cost. Entries before and after it come and go; it stays until it expires.
async fn keeps_an_entry_without_a_cost(name: &str, debits: u64, store: &RedisStore) {
    let build = |limit: LimitBuilder| limit.build(name).expect("valid");
    let with_gap = build(Limit::per(6_000, PERIOD).sliding_log().min_gap(PERIOD * 10));
    let long = build(Limit::per(6_000, PERIOD * 4).sliding_log());
    let mut log = Log { name, store, state: State::default() };
    let mut random = Seed::new(debits);
    let charge =
        |limit, action, cost| Limit::charge(limit, log_key(name)).with_action(action).with_cost(cost);
    log.decide(&[charge(&with_gap, Action::Take { max_wait: None }, 1)], 1, START, "the first").await;
    let mut now = START + PERIOD * 2;
    log.decide(&[charge(&with_gap, Action::Take { max_wait: None }, 1)], 1, now, "the gap").await;
    for round in 0..4 {
        let all: Vec<_> = (0..debits)
            .map(|_| {
                let at = START - PERIOD + Duration::from_millis(random.below(10_000_000));
                charge(&long, Action::Debit { at: Some(at) }, 1)
            })
            .collect();
        for some in all.chunks(200) {
            log.decide(some, 1, now, "debits").await;
        }
        log.states_agree(&long, now, "debits").await;
        let (middle, all) = (START + PERIOD / 2, Limit::MAX_COUNT);
        let at_once = [charge(&long, Action::Take { max_wait: None }, 1)];
        for (at, cost) in [(None, 1), (Some(middle), 1), (Some(middle), all), (None, all)] {
            now = now + Duration::from_secs(1);
            let context = format!("round {round}, a refund of {cost} until {at:?}");
            log.decide(&at_once, 1, now, &context).await;
            log.decide(&[charge(&long, Action::Refund { at }, cost)], 1, now, &context).await;
            log.states_agree(&long, now, &context).await;
        }
        if round == 2 {
            // An action at the same instant gives it a cost.
            log.decide(&[charge(&long, Action::Debit { at: Some(START) }, 2)], 1, now, "the same instant")
                .await;
        }
    }
}

fn log_key(name: &str) -> Key<'_> {
    Key::new(name, "alice")
}

/// A log on the server, and the same by the pure function.
struct Log<'a> {
    name: &'a str,
    store: &'a RedisStore,
    state: State,
}

impl Log<'_> {
    /// Decides a request some times, in both forms.
    async fn decide(&mut self, charges: &[Charge<'_>], times: u32, now: Time, context: &str) {
        let decisions: Vec<_> = match charges {
            [charge] if times == 1 => vec![self.store.decide_one(charge, &now).await.expect("a decision")],
            _ => {
                let run = Run::new(Request::new(charges), times);
                let verdicts = self.store.decide_batch(&[run], now).await.remove(0).expect("verdicts");
                verdicts.into_verdicts().iter().flat_map(|verdict| verdict.decisions().to_vec()).collect()
            }
        };
        let mut states = [mem::take(&mut self.state)];
        let indexes = vec![0; charges.len()];
        let expected: Vec<_> = (0..times)
            .flat_map(|_| settle(charges, &indexes, &mut states, now).decisions().to_vec())
            .collect();
        [self.state] = states;
        let raw = |all: &[Decision]| all.iter().map(Decision::raw).collect::<Vec<_>>();
        assert_eq!(raw(&decisions), raw(&expected), "{context} of {} at {now}: {charges:?}", self.name);
    }

    /// Applies debits as deltas. The reply has the states after them.
    async fn apply(&mut self, charges: &[Charge<'_>], now: Time, context: &str) {
        let request = Request::new(charges).with_idempotency_key(IdempotencyKey::unique());
        let exports = self.store.apply_deltas(request, now).await.expect("the states");
        let mut states = [mem::take(&mut self.state)];
        let _ = settle(charges, &vec![0; charges.len()], &mut states, now);
        [self.state] = states;
        assert_eq!(exports.len(), charges.len());
        for (charge, stored) in charges.iter().zip(exports) {
            let words = |snapshot: &Snapshot| live(snapshot.words(), charge.limit(), now);
            let expected = (self.state.fresh_at() > now).then(|| words(&self.state.snapshot(charge.limit())));
            let stored = stored.state.as_ref().map(words);
            assert_eq!(stored, expected, "{context} of {} at {now}: {charges:?}", self.name);
        }
    }

    async fn states_agree(&self, limit: &Limit, now: Time, context: &str) {
        if self.state.fresh_at() > now {
            let stored = self.store.export(limit, log_key(self.name), now).await.expect("an export").state;
            let stored = stored.map(|snapshot| live(snapshot.words(), limit, now));
            let expected = live(self.state.snapshot(limit).words(), limit, now);
            assert_eq!(stored, Some(expected), "the state at {context} of {} at {now}", self.name);
        }
    }
}

/// Returns the words of the entries that are not expired: those that are may be removed at any later time.
fn live(words: &[u64], limit: &Limit, now: Time) -> Vec<u64> {
    let period = u64::try_from(limit.period().as_nanos()).expect("a short period");
    let (pairs, blocked) = words.as_chunks::<2>();
    let latest = pairs.last().map_or(0, |[at, _]| *at).max(now.nanos());
    let is_live = |[at, _]: &&[u64; 2]| at + period > latest;
    pairs.iter().filter(is_live).flatten().chain(blocked).copied().collect()
}

fn next(now: Time, random: &mut Seed, shape: Shape) -> Time {
    if random.once_in(shape.idle) {
        return now + PERIOD / 2 + Duration::from_millis(random.below(3_600_000));
    }
    match random.below(60) {
        0..=14 => now,
        15 if shape.back => now - Duration::from_micros(random.below(500)),
        16 => now + PERIOD / 10,
        _ => now + Duration::from_nanos(random.below(2_000_000_000)),
    }
}

/// Returns a debit such as those that reconciliation sends after an outage.
fn dated_debit<'a>(charge: Charge<'a>, now: Time, random: &mut Seed) -> Charge<'a> {
    let cost = if random.once_in(5) { 2 + random.below(3) } else { 1 };
    let at = Some(before(now, random));
    charge.with_cost(u32::try_from(cost).expect("a small cost")).with_action(Action::Debit { at })
}

/// Returns an instant in the period before now, sometimes one at which there is an entry.
fn before(now: Time, random: &mut Seed) -> Time {
    let period = u64::try_from(PERIOD.as_nanos()).expect("a short period");
    let age = match random.below(12) {
        0 => random.below(period / 1_000),
        1 => period - random.below(period / 50),
        2 => period + random.below(1_000),
        _ => random.below(period),
    };
    let at = now - Duration::from_nanos(age);
    // Whole seconds recur.
    if random.once_in(3) { Time::from_secs(at.nanos() / 1_000_000_000) } else { at }
}

fn any<'a>(charge: Charge<'a>, now: Time, random: &mut Seed, shape: Shape) -> Charge<'a> {
    let count = u64::from(charge.limit().count());
    let action = match random.below(6 + 4 * shape.dated) {
        0..=3 => Action::Take { max_wait: None },
        4 => Action::TakeUpTo,
        5 if random.once_in(60) => Action::Reset,
        5 => Action::Refund { at: None },
        dated if dated % 2 == 0 => Action::Refund { at: Some(before(now, random)) },
        _ => Action::Debit { at: Some(before(now, random)) },
    };
    let is_refund = matches!(action, Action::Refund { .. });
    let cost = match random.below(12) {
        0 => 0,
        1 if is_refund || random.once_in(8) => count / 4,
        // All of it.
        2 if is_refund && shape.idle < 100 => count,
        3 | 4 => 1 + random.below(if is_refund { 300 } else { 30 }),
        5 | 6 => 2 + random.below(4),
        _ => 1,
    };
    charge.with_cost(u32::try_from(cost).expect("a small cost")).with_action(action)
}
