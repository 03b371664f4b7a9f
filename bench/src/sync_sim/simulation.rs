//! One run on virtual time: requests, exchanges and cuts in the order in which they happen.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tollgate::Limit;

use super::fleet::{Fleet, Mode};
use super::traffic::Shape;

/// A limit by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}

impl Rate {
    pub const fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s, burst {}", self.per_second, self.burst)
    }
}

/// Nodes that cannot reach the centre for a while.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub nodes: usize,
    pub from: Duration,
    pub until: Duration,
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub mode: Mode,
    pub nodes: usize,
    pub rate: Rate,
    pub shape: Shape,
    /// How many times the limit is asked for.
    pub demand: f64,
    pub interval: Duration,
    pub span: Duration,
    pub cut: Option<Cut>,
    pub seed: u64,
}

impl Scenario {
    /// Ten nodes at three times a thousand a second, which exchange every 100 ms: what the others differ from.
    pub fn usual(mode: Mode) -> Self {
        Self {
            mode,
            nodes: 10,
            rate: Rate::new(1_000, 100),
            shape: Shape::Even,
            demand: 3.0,
            interval: Duration::from_millis(100),
            span: Duration::from_secs(32),
            cut: None,
            seed: 1,
        }
    }

    /// From when on the nodes should know of each other: what passed before is the first burst.
    pub fn settled(&self) -> Duration {
        Duration::from_secs(2).max(self.interval * 4)
    }
}

/// Somebody passed.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Nanoseconds since the beginning.
    pub at: u64,
    pub node: usize,
}

/// What happened in a run.
#[derive(Debug, Default)]
pub struct Record {
    /// In order.
    pub passed: Vec<Pass>,
    /// How many asked, by node.
    pub asked: Vec<u32>,
    /// How often the centre was asked, by all nodes.
    pub calls: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Cut,
    Heal,
    Exchange(usize),
    Request(usize),
}

/// Runs scenarios on all processors, and makes something of each record. In the order of the scenarios.
pub fn run_all<T: Send>(
    scenarios: &[Scenario],
    make: impl Fn(&Scenario, Record) -> T + Sync,
) -> Result<Vec<T>, String> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(number) else { break };
                    let outcome = run(scenario).map(|record| make(scenario, record));
                    done.lock().expect("nobody panicked").push((number, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("nobody panicked");
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs one scenario. The same scenario has the same record, whenever it is run.
pub fn run(scenario: &Scenario) -> Result<Record, String> {
    // What the nodes themselves leave to chance.
    fastrand::seed(scenario.seed);
    let fleet = Fleet::new(scenario.nodes, scenario.mode, scenario.interval);
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    // The fleet outlives the runtime, so that no node goes on to settle its account at the end.
    runtime.block_on(play(scenario, &fleet)).map_err(|error| format!("{scenario:?}: {error}"))
}

async fn play(scenario: &Scenario, fleet: &Fleet) -> Result<Record, tollgate::StoreError> {
    let Scenario { nodes, rate, .. } = *scenario;
    let limit = Limit::per_second(rate.per_second).burst(rate.burst).build("api").expect("valid");
    let charge = limit.charge("somebody");
    let mut random = Rng::with_seed(scenario.seed);
    let mut callers = scenario.shape.callers(nodes, scenario.demand * f64::from(rate.per_second));
    let interval = scenario.interval.as_secs_f64();

    let mut events = BinaryHeap::new();
    let mut plan = |at: f64, event| events.push(Reverse((nanos(at), event)));
    for (node, callers) in callers.iter_mut().enumerate() {
        plan(callers.first(&mut random), Event::Request(node));
        // As the background task does it: a phase of its own, and then a tenth less or more.
        plan(interval * random.f64(), Event::Exchange(node));
    }
    if let Some(cut) = scenario.cut {
        plan(cut.from.as_secs_f64(), Event::Cut);
        plan(cut.until.as_secs_f64(), Event::Heal);
    }

    let mut record = Record { asked: vec![0; nodes], ..Record::default() };
    let (mut now, end) = (0, nanos(scenario.span.as_secs_f64()));
    while let Some(Reverse((at, event))) = events.pop()
        && at < end
    {
        fleet.clock.advance(Duration::from_nanos(at - now));
        now = at;
        match event {
            Event::Cut => fleet.cut_off(scenario.cut.map_or(0, |cut| cut.nodes)),
            Event::Heal => fleet.cut_off(0),
            Event::Exchange(node) => {
                fleet.exchange(node).await?;
                let pause = interval * (0.9 + 0.2 * random.f64());
                events.push(Reverse((at + nanos(pause), event)));
            }
            Event::Request(node) => {
                record.asked[node] += 1;
                if fleet.passes(node, &charge).await {
                    record.passed.push(Pass { at, node });
                }
                events.push(Reverse((at + nanos(callers[node].next(&mut random)), event)));
            }
        }
    }
    record.calls = fleet.calls();
    Ok(record)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time of seconds")]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_scenario_has_the_same_record() {
        let scenario = Scenario { span: Duration::from_secs(3), ..Scenario::usual(Mode::DELTAS) };
        let records = run_all(&[scenario, scenario], |_, record| record).expect("nothing is cut");
        let times =
            |record: &Record| record.passed.iter().map(|pass| (pass.at, pass.node)).collect::<Vec<_>>();
        assert_eq!(times(&records[0]), times(&records[1]));
        assert!(times(&records[0]).len() > 1_000);
    }
}
