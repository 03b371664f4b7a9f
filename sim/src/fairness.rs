//! Nodes that start, join and wake up at different times: whether each gets its fair part.

use std::time::Duration;

use fastrand::Rng;

use crate::fair_parts::{self, FairParts};
use crate::figures::float;
use crate::fleet::Mode;
use crate::plan::{NodePlan, Plan, Planned};
use crate::simulation::{Bucket, run_all};
use crate::table::Table;
use crate::traffic::Arrivals;

const BUCKETS: [Bucket; 3] = [Bucket::new(100, 100), Bucket::new(1_000, 100), Bucket::new(1_000, 1_000)];
const NODES: [usize; 4] = [2, 4, 10, 100];
/// Demand as a multiple of the limit.
const DEMANDS: [f64; 3] = [1.5, 3.0, 10.0];
const INTERVAL: Duration = Duration::from_millis(100);
/// When nodes have started at random, in seconds.
const STARTED: f64 = 3.0;
/// When the last node joins, or wakes up. It falls asleep `NAP` earlier.
const JOINS: f64 = 8.0;
const NAP: f64 = 4.0;
/// How long it may take after the last start until parts are fair, in seconds: ten intervals.
const SETTLED: f64 = 1.0;
/// For how many seconds windows start.
const MEASURED: f64 = 7.0;

/// How nodes start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// All at random times.
    Random,
    /// One joins the others.
    Joins,
    /// One sleeps for a while.
    Wakes,
}

impl Start {
    const ALL: [Self; 3] = [Self::Random, Self::Joins, Self::Wakes];

    fn name(self) -> &'static str {
        match self {
            Self::Random => "random starts",
            Self::Joins => "one joins",
            Self::Wakes => "one wakes up",
        }
    }

    fn last(self) -> f64 {
        match self {
            Self::Random => STARTED,
            Self::Joins | Self::Wakes => JOINS,
        }
    }
}

/// How demand is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    Equal,
    /// Half of the nodes ask for a third of an equal part of the limit.
    HalfLow,
    /// All nodes but one ask for half of an equal part of the limit.
    OneHigh,
    /// The second node asks for half as much as the first, the third for a third, and so on.
    Skewed,
}

impl Mix {
    const UNEQUAL: [Self; 3] = [Self::HalfLow, Self::OneHigh, Self::Skewed];

    fn name(self) -> &'static str {
        match self {
            Self::Equal => "equal",
            Self::HalfLow => "half with little",
            Self::OneHigh => "one with much",
            Self::Skewed => "skewed",
        }
    }

    /// Returns the demand of each node, in limits, for a total demand.
    fn demands(self, nodes: usize, demand: f64) -> Vec<f64> {
        let all = float(nodes);
        let low = |number: usize, part: f64, lows: usize| {
            let low = part / all;
            let high = (demand - low * float(lows)) / (all - float(lows));
            if number < lows { low } else { high }
        };
        let harmonic: f64 = (1..=nodes).map(|number| 1.0 / float(number)).sum();
        let of = |number: usize| match self {
            Self::Equal => demand / all,
            Self::HalfLow => low(number, 1.0 / 3.0, nodes / 2),
            Self::OneHigh => low(number, 0.5, nodes - 1),
            Self::Skewed => demand / harmonic / float(number + 1),
        };
        (0..nodes).map(of).collect()
    }
}

/// A fleet of nodes that start at different times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) nodes: usize,
    pub(crate) bucket: Bucket,
    pub(crate) demand: f64,
    pub(crate) mix: Mix,
    pub(crate) start: Start,
    pub(crate) seed: u64,
}

impl Case {
    fn end(&self) -> f64 {
        self.start.last() + SETTLED + MEASURED + fair_parts::window(self.bucket, self.nodes)
    }
}

impl Planned for Case {
    fn plan(&self) -> Plan {
        let mut random = Rng::with_seed(self.seed ^ 0x5eed);
        let demands = self.mix.demands(self.nodes, self.demand);
        let node = |(number, demand): (usize, &f64)| {
            let last = number + 1 == self.nodes;
            let starts = STARTED * random.f64();
            let asleep = match self.start {
                Start::Random => Some(0.0..starts),
                Start::Joins if last => Some(0.0..JOINS),
                Start::Wakes if last => Some(JOINS - NAP..JOINS),
                Start::Joins | Start::Wakes => None,
            };
            let arrivals = Arrivals::steady(demand * f64::from(self.bucket.per_second));
            NodePlan { asleep, ..NodePlan::new(arrivals) }
        };
        Plan {
            mode: Mode::DELTAS,
            bucket: self.bucket,
            interval: INTERVAL,
            span: Duration::from_secs_f64(self.end()),
            seed: self.seed,
            at_most: None,
            nodes: demands.iter().enumerate().map(node).collect(),
        }
    }
}

/// Returns the worst parts of all cases.
pub(crate) fn worst(cases: &[Case]) -> Result<FairParts, String> {
    let parts = run_all(cases, |case, record| {
        let from = case.start.last() + SETTLED;
        FairParts::of(&record.requests, case.bucket, case.nodes, from, case.end())
    })?;
    Ok(parts.into_iter().reduce(FairParts::worst).expect("there are cases"))
}

/// The worst parts by number of nodes, start and mix.
pub(crate) struct Fairness {
    rows: Vec<(usize, Bucket, Start, Mix, FairParts)>,
}

impl Fairness {
    pub(crate) fn measure(quick: bool) -> Result<Self, String> {
        let mut rows = Vec::new();
        let seeds = if quick { 2 } else { 6 };
        let starts = Start::ALL.map(|start| (start, Mix::Equal));
        let mixes = Mix::UNEQUAL.map(|mix| (Start::Random, mix));
        for nodes in NODES {
            for (start, mix) in starts.into_iter().chain(mixes) {
                for bucket in BUCKETS {
                    let with =
                        |demand| (0..seeds).map(move |seed| Case { nodes, bucket, demand, mix, start, seed });
                    let cases: Vec<_> = DEMANDS.into_iter().flat_map(with).collect();
                    rows.push((nodes, bucket, start, mix, worst(&cases)?));
                }
            }
        }
        Ok(Self { rows })
    }

    fn worst(&self, which: impl Fn(usize, Start, Mix) -> bool) -> f64 {
        let rows = self.rows.iter().filter(|(nodes, _, start, mix, _)| which(*nodes, *start, *mix));
        rows.map(|(.., parts)| parts.least).fold(f64::MAX, f64::min)
    }

    /// Returns the smallest part of ten nodes with equal demand that start at random.
    pub(crate) fn ten_nodes(&self) -> f64 {
        self.worst(|nodes, start, mix| nodes == 10 && start == Start::Random && mix == Mix::Equal)
    }

    /// Returns the smallest part, of any number of nodes with equal demand, of which one joins or wakes up.
    pub(crate) fn joining(&self) -> f64 {
        self.worst(|_, start, mix| start != Start::Random && mix == Mix::Equal)
    }

    pub(crate) fn print(&self) {
        println!(
            "1.5, 3 and 10 times the limit, 100 ms: the smallest and the largest part that a node gets of its max-min \
             fair part, in any 5 s\n(in which at least 20 tokens per node are refilled) from 1 s after the last start; \
             one request more or less does not count\n"
        );
        let mut table = Table::new(["nodes", "", "demand"]);
        table.extend_head(BUCKETS.iter().flat_map(|bucket| [bucket.to_string(), String::new()]));
        for rows in self.rows.chunks(BUCKETS.len()) {
            let (nodes, _, start, mix, _) = rows[0];
            let mut cells = vec![nodes.to_string(), start.name().to_owned(), mix.name().to_owned()];
            cells.extend(
                rows.iter()
                    .flat_map(|(.., parts)| [format!("{:.2}", parts.least), format!("{:.2}", parts.most)]),
            );
            table.row(cells);
        }
        print!("{table}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least(nodes: usize, bucket: Bucket, mix: Mix, start: Start) -> f64 {
        let case = |demand| Case { nodes, bucket, demand, mix, start, seed: 1 };
        worst(&[case(1.5), case(3.0)]).expect("no node is cut off").least
    }

    #[test]
    fn nodes_with_equal_demand_get_equal_parts() {
        for start in Start::ALL {
            for nodes in [2, 10] {
                let least = least(nodes, Bucket::new(100, 100), Mix::Equal, start);
                assert!(least >= 0.85, "{least} on {nodes} nodes, {start:?}");
            }
        }
    }

    #[test]
    fn a_node_with_little_demand_gets_all_of_it() {
        for mix in Mix::UNEQUAL {
            let least = least(10, Bucket::new(100, 100), mix, Start::Random);
            assert!(least >= 0.85, "{least}, {mix:?}");
        }
    }
}
