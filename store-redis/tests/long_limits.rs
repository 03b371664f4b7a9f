//! Limits with extreme parameters: the longest and the shortest periods, the largest counts, and products that a double
//! cannot hold. On seeded random traces, the scripts must agree with core's pure function field by field.

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::OnceCell;
use tollgate_conformance::{Pure, Seed};
use tollgate_core::store::{Run, State, Store};
use tollgate_core::{
    Action, AlgorithmKind, Charge, Decision, IdempotencyKey, Key, LeaseId, Limit, LimitBuilder, Request, Time,
};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

const START: Time = Time::from_secs(1_790_000_000);
/// So late that the TAT of a bucket that takes thirty years to fill exceeds `Time::MAX`.
const LATE: Time = Time::from_secs(4_600_000_000);
const STEPS: usize = 80;
const ENTITIES: [&str; 3] = ["alice", "bob", "carol"];

/// Limits of one name that replace each other.
#[derive(Clone)]
struct Sample {
    name: &'static str,
    limits: Vec<Limit>,
}

fn sample<const N: usize>(name: &'static str, limits: [LimitBuilder; N]) -> Sample {
    let build = |limit: LimitBuilder| limit.build(name).expect("samples are valid");
    Sample { name, limits: limits.into_iter().map(build).collect() }
}

const NANO: Duration = Duration::from_nanos(1);
const MICRO: Duration = Duration::from_micros(1);
const ODD: Duration = Duration::from_nanos(333_000_007);
const YEAR: Duration = Limit::MAX_PERIOD;
const NEARLY_A_YEAR: Duration = Duration::from_nanos(31_622_399_999_999_999);
const SOME_DAYS_LESS: Duration = Duration::from_nanos(31_333_333_333_333_333);

/// Returns continuous flows of one algorithm.
fn flows(with: fn(LimitBuilder) -> LimitBuilder) -> Vec<LimitBuilder> {
    vec![
        // Thirty years to fill, a token at a time and by the million.
        with(Limit::per(1, YEAR).burst(30)),
        with(Limit::per(999_999_937, YEAR).burst(1_000_000_000)),
        with(Limit::per(7, YEAR).burst(200)),
        // The fastest rate, and slightly slower ones.
        with(Limit::per_second(Limit::MAX_COUNT)),
        with(Limit::per_second(999_999_999)),
        with(Limit::per(1, NANO).burst(Limit::MAX_COUNT)),
        with(Limit::per(1, NANO).burst(1)),
        with(Limit::per(997, MICRO).burst(5)),
        // Rates with an excess.
        with(Limit::per(7, ODD).burst(11)),
        with(Limit::per(Limit::MAX_COUNT - 7, NEARLY_A_YEAR).burst(3)),
        with(Limit::per(333_333_331, Duration::from_secs(3_600)).burst(Limit::MAX_COUNT)),
        with(Limit::per(101, SOME_DAYS_LESS).burst(2_000)),
    ]
}

fn windows(with: fn(LimitBuilder) -> LimitBuilder) -> Vec<LimitBuilder> {
    vec![
        with(Limit::per(Limit::MAX_COUNT, YEAR)),
        with(Limit::per(3, YEAR)),
        with(Limit::per(Limit::MAX_COUNT, MICRO)),
        with(Limit::per(5, MICRO)),
        with(Limit::per(999_999_937, ODD)),
        with(Limit::per(9, ODD)),
        with(Limit::per(1_000_003, NEARLY_A_YEAR)),
        // The longest and the shortest periods of the short scripts, and one that sub-buckets do not divide.
        with(Limit::per(Limit::MAX_COUNT, Duration::from_secs(1_125_899))),
        with(Limit::per(1_009, Duration::from_millis(1))),
        with(Limit::per(77, Duration::from_micros(1_000_003))),
    ]
}

fn samples() -> Vec<Sample> {
    let mut all = Vec::new();
    let mut add = |name: &'static str, limits: Vec<LimitBuilder>| {
        let limits = limits.into_iter().map(|limit| limit.build(name).expect("samples are valid")).collect();
        all.push(Sample { name, limits });
    };
    add("token_bucket", flows(|limit| limit));
    add("leaky_meter", flows(LimitBuilder::leaky_bucket));
    add("gcra", flows(LimitBuilder::gcra));
    add("smooth_bursty", flows(LimitBuilder::smooth));
    add("blocking_bucket", flows(|limit| limit.block_for(YEAR)));
    add("blocking_smooth", flows(|limit| limit.smooth().block_for(ODD)));
    add("interval_bucket", flows(LimitBuilder::refill_by_interval));
    add(
        "leaky_queue",
        vec![
            Limit::per(1, YEAR).queue(29),
            Limit::per(999_999_937, YEAR).queue(999_999_999),
            Limit::per_second(Limit::MAX_COUNT).queue(3),
            Limit::per(7, ODD).queue(11),
            Limit::per(997, MICRO).queue(999_999_999),
        ],
    );
    add("fixed_window", windows(LimitBuilder::fixed_window));
    add("fixed_window_anchored", windows(|limit| limit.fixed_window().anchored()));
    add("blocking_window", windows(|limit| limit.fixed_window().block_for(NEARLY_A_YEAR)));
    add("sliding_window", windows(LimitBuilder::sliding_window));
    add("sliding_counter", windows(|limit| limit.sliding_counter(256)));
    add("sliding_counter_of_few", windows(|limit| limit.sliding_counter(7)));
    add("sliding_counter_of_one", windows(|limit| limit.sliding_counter(1)));
    add("blocking_sliding_counter", windows(|limit| limit.sliding_counter(255).block_for(YEAR)));
    let logs = |with: fn(LimitBuilder) -> LimitBuilder| {
        vec![
            with(Limit::per(100_000, YEAR)),
            with(Limit::per(3, YEAR)),
            with(Limit::per(100_000, MICRO)),
            with(Limit::per(500, ODD)),
            with(Limit::per(2, NANO)),
        ]
    };
    add("sliding_log", logs(LimitBuilder::sliding_log));
    add("sliding_log_denied_counted", logs(|limit| limit.sliding_log().count_denied()));
    add("sliding_log_with_gap", logs(|limit| limit.sliding_log().min_gap(Duration::from_nanos(100_000_007))));
    add("sliding_log_with_a_year_between", logs(|limit| limit.sliding_log().min_gap(YEAR)));
    add("blocking_sliding_log", logs(|limit| limit.sliding_log().count_denied().block_for(YEAR)));
    let warming = |cold: u32| {
        [
            Limit::per(1, YEAR).warm_up(YEAR),
            Limit::per(999_999_937, YEAR).warm_up(SOME_DAYS_LESS),
            Limit::per_second(Limit::MAX_COUNT).warm_up(YEAR),
            Limit::per_second(Limit::MAX_COUNT).warm_up(NANO),
            Limit::per(7, ODD).warm_up(Duration::from_secs(11)),
            Limit::per(997, MICRO).warm_up(ODD),
            Limit::per(1, NANO).warm_up(MICRO),
        ]
        .map(|limit| limit.cold_factor(cold))
        .to_vec()
    };
    add("warming_up_hardly", warming(1));
    add("warming_up_twice", warming(2));
    add("warming_up_a_hundred_times", warming(100));
    add(
        "concurrency",
        vec![
            Limit::concurrent(100_000).lease(YEAR),
            Limit::concurrent(3).lease(YEAR),
            Limit::concurrent(500).lease(NANO),
            Limit::concurrent(500).lease(ODD),
            Limit::concurrent(40).lease(MICRO).block_for(YEAR),
        ],
    );
    all
}

fn main() -> ExitCode {
    let runtime = Runtime::new().expect("a runtime");
    let mut trials = Vec::new();
    for sample in samples() {
        for (shape, name) in SHAPES {
            for (number, limit) in sample.limits.iter().enumerate() {
                let (limits, seed) = (vec![limit.clone()], number as u64);
                let name = format!("{}_{number}::{name}", sample.name);
                trials.push(trial(&runtime, name, Sample { limits, ..sample.clone() }, seed, shape));
            }
            let name = format!("{}_changing::{name}", sample.name);
            let shape = Shape { steps: 5 * STEPS, ..shape };
            trials.push(trial(&runtime, name, sample.clone(), 1_000, shape));
        }
    }
    let long = sample("log_of_5000", [Limit::per_hour(5_000).sliding_log()]);
    let shape = Shape { steps: 8_000, dense: true, ..SHAPES[0].0 };
    trials.push(trial(&runtime, "log_of_5000".to_owned(), long, 1, shape));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(runtime: &Runtime, name: String, sample: Sample, seed: u64, shape: Shape) -> Trial {
    let handle: Handle = runtime.handle().clone();
    Trial::test(name.clone(), move || {
        handle.block_on(async { replay(&name, &sample, seed, shape, &store().await).await });
        Ok(())
    })
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

/// The shape of a trace.
#[derive(Clone, Copy)]
struct Shape {
    start: Time,
    steps: usize,
    /// Whether the clock is set back sometimes; only with a single key, because a store may delete expired states.
    back: bool,
    /// Mostly single charges of one key in short intervals, so that many are in the window.
    dense: bool,
}

const SHAPES: [(Shape, &str); 3] = [
    (Shape { start: START, steps: STEPS, back: false, dense: false }, "forward"),
    (Shape { start: START, steps: STEPS, back: true, dense: false }, "with_the_clock_set_back"),
    (Shape { start: LATE, steps: STEPS, back: false, dense: false }, "to_the_end_of_time"),
];

async fn replay(name: &str, sample: &Sample, seed: u64, shape: Shape, store: &RedisStore) {
    let mut random = Seed::new(seed);
    let (mut pure, mut now) = (Pure::default(), shape.start);
    let keys = if shape.back || shape.dense { 1 } else { ENTITIES.len() as u64 };
    let mut restarts = 0;
    for step in 0..shape.steps {
        let era = &sample.limits[step / 40 % sample.limits.len()];
        now = next(now, &mut random, era, shape);
        if now.nanos() > Time::MAX.nanos() - 1_000_000_000 && random.once_in(20) {
            // Time cannot advance further: start again with new keys.
            (restarts, now) = (restarts + 1, shape.start);
        }
        let namespace = format!("{name}:{restarts}");
        let entity = |random: &mut Seed| ENTITIES[usize::try_from(random.below(keys)).unwrap_or(0)];
        let one = entity(&mut random);
        let count = if random.once_in(5) { 1 + random.below(3) } else { 1 };
        let has_deltas = random.once_in(3) && !shape.dense;
        let charges: Vec<_> = (0..count)
            .map(|_| {
                let limit = if random.once_in(6) { random.pick(&sample.limits) } else { era };
                let entity = if has_deltas { entity(&mut random) } else { one };
                let charge = ask(limit.charge(Key::new(&namespace, entity)), now, &mut random, shape);
                if has_deltas { delta(charge, now, &mut random) } else { charge }
            })
            .collect();
        if charges.iter().any(|charge| charge.supported().is_err()) {
            continue;
        }
        if has_deltas {
            let request = Request::new(&charges).with_idempotency_key(IdempotencyKey::unique());
            let exports = store.apply_deltas(request, now).await.expect("the states");
            assert!(pure.decide(&charges, now).is_allowed());
            for (charge, export) in charges.iter().zip(&exports) {
                let peek = charge.limit().charge(charge.key()).with_cost(0);
                let state = export.state.as_ref();
                let mut state = state.map_or_else(State::default, |state| {
                    State::from_snapshot(charge.limit(), state).expect("a valid state")
                });
                // A peek may change a state: not that of the trace.
                let expected = pure.clone().decide(&[peek], now).decisions()[0].raw();
                assert_eq!(
                    state.apply(&peek, export.at).raw(),
                    expected,
                    "step {step} of seed {seed} at {now}, restart {restarts}, deltas: {charges:?}"
                );
            }
            continue;
        }
        let decisions = if random.once_in(10) {
            let run = Run::new(Request::new(&charges), 3);
            let verdicts = store.decide_batch(&[run], now).await.remove(0).expect("verdicts").into_verdicts();
            verdicts.iter().flat_map(|verdict| verdict.decisions().to_vec()).collect()
        } else if let [charge] = &charges[..]
            && random.once_in(2)
        {
            vec![store.decide_one(charge, &now).await.expect("a decision")]
        } else {
            store.decide(Request::new(&charges), now).await.expect("a verdict").decisions().to_vec()
        };
        let times = decisions.len() / charges.len();
        let expected: Vec<_> =
            (0..times).flat_map(|_| pure.decide(&charges, now).decisions().to_vec()).collect();
        let raw = |all: &[Decision]| all.iter().map(Decision::raw).collect::<Vec<_>>();
        assert_eq!(
            raw(&decisions),
            raw(&expected),
            "step {step} of seed {seed} at {now}, restart {restarts}: {charges:?}"
        );
    }
}

/// Returns a span in proportion to the limit: to its period, to the interval of one token, or to the time to fill.
fn span(random: &mut Seed, limit: &Limit) -> Duration {
    let period = limit.period();
    let one = period / limit.count().max(1);
    let scale = match random.below(6) {
        0 => one,
        1 => one.saturating_mul(limit.capacity()),
        2 => limit.block_time().unwrap_or(period),
        3 => Duration::from_nanos(1 << random.below(40)),
        _ => period,
    };
    let nanos = u64::try_from(scale.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(match random.below(4) {
        0 => nanos,
        1 => nanos.saturating_add(random.below(3)).saturating_sub(1),
        2 => random.below(nanos / 100 + 2),
        _ => random.below(nanos.saturating_add(1)),
    })
}

fn next(now: Time, random: &mut Seed, limit: &Limit, shape: Shape) -> Time {
    if shape.dense {
        return now + Duration::from_micros(random.below(1_000_000));
    }
    match random.below(12) {
        0..=4 => now,
        5 | 6 => now + Duration::from_nanos(random.below(1_000)),
        7 if shape.back => now - Duration::from_micros(random.below(2_000)),
        8 if shape.back => now - span(random, limit) / 100,
        _ => now + span(random, limit),
    }
}

/// Makes a debit or a refund of a charge, mostly of the recent past.
fn delta<'a>(charge: Charge<'a>, now: Time, random: &mut Seed) -> Charge<'a> {
    let span = span(random, charge.limit());
    let at = match random.below(8) {
        0 => None,
        1 => Some(now + span),
        _ => Some(now - span),
    };
    let refund = random.once_in(4);
    charge.with_action(if refund { Action::Refund { at } } else { Action::Debit { at } })
}

fn ask<'a>(charge: Charge<'a>, now: Time, random: &mut Seed, shape: Shape) -> Charge<'a> {
    let capacity = charge.limit().capacity().min(Limit::MAX_COUNT);
    let below = |random: &mut Seed, bound: u32| u32::try_from(random.below(u64::from(bound))).unwrap_or(0);
    let cost = match random.below(14) {
        _ if shape.dense && !random.once_in(200) => 1,
        0 => 0,
        1 => capacity,
        2 => capacity.saturating_add(1).min(Limit::MAX_COUNT),
        3 => Limit::MAX_COUNT,
        4 => below(random, Limit::MAX_COUNT),
        5..=7 => 1 + below(random, capacity),
        8 | 9 => 1 + below(random, capacity / 10 + 1),
        10 => 2 + below(random, 4),
        _ => 1,
    };
    let instant = |random: &mut Seed| {
        let span = span(random, charge.limit());
        match random.below(4) {
            0 => None,
            1 => Some(now + span),
            _ => Some(now - span),
        }
    };
    let one_of = if shape.dense { 300 } else { 16 };
    let action = match random.below(one_of) {
        0 => Action::TakeUpTo,
        1 => Action::Debit { at: instant(random) },
        2 | 3 => Action::Refund { at: instant(random) },
        4 => Action::Take { max_wait: Some(span(random, charge.limit())) },
        5 if random.once_in(4) => Action::Reset,
        6 if charge.limit().kind() == AlgorithmKind::Concurrency => Action::Renew,
        7 | 8 if charge.limit().kind() == AlgorithmKind::Concurrency => Action::Release,
        _ => Action::Take { max_wait: None },
    };
    charge.with_cost(cost).with_action(action).with_lease(LeaseId::new(random.below(14).into()))
}
