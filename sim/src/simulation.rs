//! One run on virtual time: requests, sync rounds and partitions, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tollgate_core::{Limit, StoreError};

use crate::fleet::{Fleet, Mode};
use crate::traffic::Shape;

/// The parameters of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) per_second: u32,
    pub(crate) burst: u32,
}

impl Bucket {
    pub(crate) const fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s, burst {}", self.per_second, self.burst)
    }
}

/// A time during which some nodes cannot reach the central store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partition {
    pub(crate) nodes: usize,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

/// What is simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) mode: Mode,
    pub(crate) nodes: usize,
    pub(crate) bucket: Bucket,
    pub(crate) shape: Shape,
    /// Demand as a multiple of the limit.
    pub(crate) demand: f64,
    pub(crate) interval: Duration,
    pub(crate) span: Duration,
    pub(crate) partition: Option<Partition>,
    pub(crate) seed: u64,
}

impl Scenario {
    /// Ten nodes at three times a limit of 1,000/s, with a sync interval of 100 ms.
    pub(crate) fn baseline(mode: Mode) -> Self {
        Self {
            mode,
            nodes: 10,
            bucket: Bucket::new(1_000, 100),
            shape: Shape::Even,
            demand: 3.0,
            interval: Duration::from_millis(100),
            span: Duration::from_secs(32),
            partition: None,
            seed: 1,
        }
    }

    /// Returns the time after which all nodes have synchronized several times.
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_secs(2).max(self.interval * 4)
    }
}

/// An allowed request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Nanoseconds since the start.
    pub(crate) at: u64,
    pub(crate) node: usize,
}

/// What a run recorded.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The allowed requests, in order.
    pub(crate) allowed: Vec<Allowed>,
    /// The number of requests, by node.
    pub(crate) requests: Vec<u32>,
    /// The number of calls to the central store, by all nodes.
    pub(crate) calls: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    PartitionStarts,
    PartitionEnds,
    Sync(usize),
    Request(usize),
}

/// Runs scenarios on all processors, and returns what `evaluate` makes of each record, in the order of the scenarios.
pub(crate) fn run_all<T: Send>(
    scenarios: &[Scenario],
    evaluate: impl Fn(&Scenario, Record) -> T + Sync,
) -> Result<Vec<T>, String> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(index) else { break };
                    let outcome = run(scenario).map(|record| evaluate(scenario, record));
                    done.lock().expect("no thread panicked").push((index, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs one scenario. The same scenario always has the same record.
fn run(scenario: &Scenario) -> Result<Record, String> {
    // The randomness of the nodes themselves.
    fastrand::seed(scenario.seed);
    let fleet = Fleet::new(scenario.nodes, scenario.mode, scenario.interval);
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    // The fleet outlives the runtime, so that no node sends pending deltas when it is dropped.
    runtime.block_on(play(scenario, &fleet)).map_err(|error| format!("{scenario:?}: {error}"))
}

async fn play(scenario: &Scenario, fleet: &Fleet) -> Result<Record, StoreError> {
    let Scenario { nodes, bucket, .. } = *scenario;
    let limit = Limit::per_second(bucket.per_second).burst(bucket.burst).build("api").expect("valid");
    let charge = limit.charge("user:42");
    let mut random = Rng::with_seed(scenario.seed);
    let mut arrivals = scenario.shape.arrivals(nodes, scenario.demand * f64::from(bucket.per_second));
    let interval = scenario.interval.as_secs_f64();

    let mut events = BinaryHeap::new();
    let mut schedule = |at: f64, event| events.push(Reverse((nanos(at), event)));
    for (node, arrivals) in arrivals.iter_mut().enumerate() {
        schedule(arrivals.first(&mut random), Event::Request(node));
        // As in the background task: a random phase, and then the interval with a jitter of a tenth.
        schedule(interval * random.f64(), Event::Sync(node));
    }
    if let Some(partition) = scenario.partition {
        schedule(partition.from.as_secs_f64(), Event::PartitionStarts);
        schedule(partition.until.as_secs_f64(), Event::PartitionEnds);
    }

    let mut record = Record { requests: vec![0; nodes], ..Record::default() };
    let (mut now, end) = (0, nanos(scenario.span.as_secs_f64()));
    while let Some(Reverse((at, event))) = events.pop()
        && at < end
    {
        fleet.clock.advance(Duration::from_nanos(at - now));
        now = at;
        match event {
            Event::PartitionStarts => {
                fleet.partition(scenario.partition.map_or(0, |partition| partition.nodes));
            }
            Event::PartitionEnds => fleet.partition(0),
            Event::Sync(node) => {
                fleet.sync(node).await?;
                let pause = interval * (0.9 + 0.2 * random.f64());
                events.push(Reverse((at + nanos(pause), event)));
            }
            Event::Request(node) => {
                record.requests[node] += 1;
                if fleet.check(node, &charge).await {
                    record.allowed.push(Allowed { at, node });
                }
                events.push(Reverse((at + nanos(arrivals[node].next(&mut random)), event)));
            }
        }
    }
    record.calls = fleet.calls();
    Ok(record)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of seconds")]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_scenario_has_the_same_record() {
        let scenario = Scenario { span: Duration::from_secs(3), ..Scenario::baseline(Mode::DELTAS) };
        let records = run_all(&[scenario, scenario], |_, record| record).expect("no node is partitioned");
        let times = |record: &Record| {
            record.allowed.iter().map(|allowed| (allowed.at, allowed.node)).collect::<Vec<_>>()
        };
        assert_eq!(times(&records[0]), times(&records[1]));
        assert!(times(&records[0]).len() > 1_000);
    }
}
