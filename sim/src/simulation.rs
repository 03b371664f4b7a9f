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

use crate::figures::seconds;
use crate::fleet::{Fleet, Mode};
use crate::plan::{NodePlan, Plan, Planned};
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

/// Nodes with demand of a shape, all the time.
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

impl Planned for Scenario {
    fn plan(&self) -> Plan {
        let arrivals = self.shape.arrivals(self.nodes, self.demand * f64::from(self.bucket.per_second));
        let node = |(number, arrivals)| {
            let cut = self.partition.filter(|partition| number < partition.nodes);
            let cut = cut.map(|cut| cut.from.as_secs_f64()..cut.until.as_secs_f64());
            NodePlan { cut, ..NodePlan::new(arrivals) }
        };
        Plan {
            mode: self.mode,
            bucket: self.bucket,
            interval: self.interval,
            span: self.span,
            seed: self.seed,
            nodes: arrivals.into_iter().enumerate().map(node).collect(),
            at_most: None,
        }
    }
}

/// A request, and its decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    /// Nanoseconds since the start.
    pub(crate) at: u64,
    pub(crate) node: usize,
    pub(crate) allowed: bool,
}

/// What a run recorded.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The requests, in order.
    pub(crate) requests: Vec<Checked>,
    /// The number of calls to the central store, by all nodes.
    pub(crate) calls: u64,
}

impl Record {
    /// Returns the allowed requests, in order.
    pub(crate) fn allowed(&self) -> impl Iterator<Item = &Checked> {
        self.requests.iter().filter(|request| request.allowed)
    }

    /// Returns when requests were allowed, in order.
    pub(crate) fn times(&self) -> Vec<u64> {
        self.allowed().map(|request| request.at).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Cut(usize),
    Reconnect(usize),
    Sync(usize),
    Request(usize),
    /// So many requests at once.
    Burst(usize, u32),
}

/// Runs scenarios on all processors, and returns what `evaluate` makes of each record, in the order of the scenarios.
pub(crate) fn run_all<P: Planned + Sync, T: Send>(
    scenarios: &[P],
    evaluate: impl Fn(&P, Record) -> T + Sync,
) -> Result<Vec<T>, String> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(index) else { break };
                    let outcome = run(&scenario.plan()).map(|record| evaluate(scenario, record));
                    done.lock().expect("no thread panicked").push((index, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs a plan. The same plan always has the same record.
fn run(plan: &Plan) -> Result<Record, String> {
    // The randomness of the nodes themselves.
    fastrand::seed(plan.seed);
    let fleet = Fleet::new(plan.nodes.len(), plan.mode, plan.interval);
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    // The fleet outlives the runtime, so that no node sends pending deltas when it is dropped.
    runtime.block_on(play(plan, &fleet)).map_err(|error| format!("{plan}: {error}"))
}

async fn play(plan: &Plan, fleet: &Fleet) -> Result<Record, StoreError> {
    let limit =
        Limit::per_second(plan.bucket.per_second).burst(plan.bucket.burst).build("api").expect("valid");
    let charge = limit.charge("user:42");
    let mut random = Rng::with_seed(plan.seed);
    let mut arrivals: Vec<_> = plan.nodes.iter().map(|node| node.arrivals).collect();
    let interval = plan.interval.as_secs_f64();

    let mut events = BinaryHeap::new();
    let mut schedule = |at: f64, event| events.push(Reverse((nanos(at), event)));
    for (number, node) in plan.nodes.iter().enumerate() {
        if let Some(arrivals) = &mut arrivals[number] {
            schedule(arrivals.first(&mut random), Event::Request(number));
        }
        // As in the background task: a random phase, and then the interval with a jitter of a tenth.
        schedule(interval * random.f64(), Event::Sync(number));
        for (at, size) in &node.bursts {
            schedule(*at, Event::Burst(number, *size));
        }
        if let Some(cut) = &node.cut {
            schedule(cut.start, Event::Cut(number));
            schedule(cut.end, Event::Reconnect(number));
        }
    }

    let mut envelope = Envelope::new(plan.at_most);
    let mut record = Record::default();
    let (mut now, end) = (0, nanos(plan.span.as_secs_f64()));
    while let Some(Reverse((at, event))) = events.pop()
        && at < end
    {
        fleet.clock.advance(Duration::from_nanos(at - now));
        now = at;
        match event {
            Event::Cut(node) => fleet.cut(node, true),
            Event::Reconnect(node) => fleet.cut(node, false),
            Event::Sync(node) => {
                fleet.sync(node).await?;
                let pause = interval * (0.9 + 0.2 * random.f64());
                events.push(Reverse((at + nanos(pause), event)));
            }
            Event::Request(node) => {
                if plan.nodes[node].is_awake(seconds(at)) && envelope.admits(at) {
                    let allowed = fleet.check(node, &charge).await;
                    record.requests.push(Checked { at, node, allowed });
                }
                if let Some(arrivals) = &mut arrivals[node] {
                    events.push(Reverse((at + nanos(arrivals.next(&mut random)), event)));
                }
            }
            Event::Burst(node, size) => {
                for _ in 0..size {
                    if envelope.admits(at) {
                        let allowed = fleet.check(node, &charge).await;
                        record.requests.push(Checked { at, node, allowed });
                    }
                }
            }
        }
    }
    record.calls = fleet.calls();
    Ok(record)
}

/// What bounds the requests on all nodes together: a bucket of tokens.
struct Envelope {
    bucket: Option<Bucket>,
    level: f64,
    at: u64,
}

impl Envelope {
    fn new(bucket: Option<Bucket>) -> Self {
        Self { bucket, level: bucket.map_or(0.0, |bucket| bucket.burst.into()), at: 0 }
    }

    /// Returns whether a request arrives.
    fn admits(&mut self, at: u64) -> bool {
        let Some(bucket) = self.bucket else { return true };
        let refilled = self.level + seconds(at - self.at) * f64::from(bucket.per_second);
        (self.level, self.at) = (refilled.min(bucket.burst.into()), at);
        let admits = self.level >= 1.0;
        if admits {
            self.level -= 1.0;
        }
        admits
    }
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
        let times =
            |record: &Record| record.allowed().map(|allowed| (allowed.at, allowed.node)).collect::<Vec<_>>();
        assert_eq!(times(&records[0]), times(&records[1]));
        assert!(times(&records[0]).len() > 1_000);
    }
}
