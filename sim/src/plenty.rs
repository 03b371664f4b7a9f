//! Total demand below the limit: which requests are denied although a central bucket would have allowed them.

use std::time::Duration;

use fastrand::Rng;

use crate::figures::float;
use crate::fleet::Mode;
use crate::plan::{NodePlan, Plan, Planned};
use crate::simulation::{Bucket, Record, run_all};
use crate::table::Table;
use crate::traffic::{Arrivals, Shape};

/// Limits, and sync intervals in milliseconds: a tenth of the time that the limit takes to fill, and at most 100 ms.
const LIMITS: [(Bucket, u64); 4] = [
    (Bucket::new(10, 100), 100),
    (Bucket::new(100, 100), 100),
    (Bucket::new(1_000, 1_000), 100),
    (Bucket::new(1_000, 100), 10),
];
/// An interval that is too long for its limit: all of the bucket is refilled in it.
const TOO_LONG: (Bucket, u64) = (Bucket::new(1_000, 100), 100);
const NODES: [usize; 3] = [2, 10, 100];
/// Demand as a multiple of the limit.
const LOADS: [f64; 4] = [0.2, 0.5, 0.8, 0.9];

/// Requests arrive by a bucket of so many tenths of the limit: a central bucket allows all of them.
const TENTHS: u32 = 9;

fn below(number: u32) -> u32 {
    number * TENTHS / 10
}

/// How requests are spread over nodes and time.
#[derive(Clone, Copy, Debug)]
enum Spread {
    Shape(Shape),
    /// Half of the demand arrives on all nodes all the time, and half in bursts, each on any node, of up to this part of
    /// the capacity.
    Bursts(f64),
    /// Nine of ten nodes use a fifth of the rate, and half of the capacity arrives at once on the tenth, twice.
    Tenth,
}

impl Spread {
    const ALL: [Self; 7] = [
        Self::Shape(Shape::Even),
        Self::Shape(Shape::Skewed),
        Self::Shape(Shape::Bursty),
        Self::Shape(Shape::Hot),
        Self::Bursts(0.1),
        Self::Bursts(0.5),
        Self::Bursts(1.0),
    ];

    fn name(self) -> String {
        match self {
            Self::Shape(shape) => shape.name().to_owned(),
            Self::Bursts(part) => format!("bursts of up to {} %", part * 100.0),
            Self::Tenth => "a burst on the tenth".to_owned(),
        }
    }
}

/// A fleet with enough for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    mode: Mode,
    nodes: usize,
    limit: (Bucket, u64),
    spread: Spread,
    load: f64,
    seed: u64,
}

impl Case {
    const SPAN: f64 = 30.0;

    /// Ten nodes share 10/s with a burst of 100: nine of them use a fifth of the rate, 50 requests arrive on the tenth.
    pub(crate) fn tenth(mode: Mode, seed: u64) -> Self {
        Self { mode, nodes: 10, limit: LIMITS[0], spread: Spread::Tenth, load: 0.2, seed }
    }
}

impl Planned for Case {
    fn plan(&self) -> Plan {
        let (bucket, interval) = self.limit;
        let rate = self.load * f64::from(bucket.per_second);
        let steady = |arrivals: Vec<Arrivals>| arrivals.into_iter().map(NodePlan::new).collect::<Vec<_>>();
        let capacity = f64::from(bucket.burst);
        let nodes = match self.spread {
            Spread::Shape(shape) => steady(shape.arrivals(self.nodes, rate)),
            Spread::Tenth => {
                let mut nodes = steady(Shape::Even.arrivals(self.nodes - 1, rate));
                nodes.push(NodePlan {
                    bursts: vec![(10.0, bucket.burst / 2), (22.0, bucket.burst / 2)],
                    ..NodePlan::default()
                });
                nodes
            }
            Spread::Bursts(part) => {
                let mut nodes = steady(Shape::Even.arrivals(self.nodes, rate / 2.0));
                let mut random = Rng::with_seed(self.seed ^ 0xb5);
                let mut at = 0.0;
                loop {
                    let size = (capacity * part * random.f64()).ceil();
                    at += size / (rate / 2.0) * 2.0 * random.f64();
                    if at >= Self::SPAN {
                        break nodes;
                    }
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "at most a burst"
                    )]
                    nodes[random.usize(..self.nodes)].bursts.push((at, size as u32));
                }
            }
        };
        Plan {
            mode: self.mode,
            bucket,
            interval: Duration::from_millis(interval),
            span: Duration::from_secs_f64(Self::SPAN),
            seed: self.seed,
            nodes,
            at_most: Some(Bucket::new(below(bucket.per_second), below(bucket.burst))),
        }
    }
}

/// What was denied although a central bucket allowed it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Denied {
    /// As a fraction of all requests.
    pub(crate) spurious: f64,
    requests: f64,
}

impl Denied {
    fn of(fleet: &Record, central: &Record) -> Self {
        let requests = float(fleet.requests.len().max(1));
        let pairs = fleet.requests.iter().zip(&central.requests);
        let spurious = pairs.filter(|(fleet, central)| central.allowed && !fleet.allowed).count();
        Self { spurious: float(spurious) / requests, requests }
    }

    /// Returns both together, each weighted by its requests.
    fn and(self, other: Self) -> Self {
        let requests = self.requests + other.requests;
        Self {
            spurious: (self.spurious * self.requests + other.spurious * other.requests) / requests,
            requests,
        }
    }
}

/// Runs cases, each also with a check at the central store for every request.
pub(crate) fn denied(cases: &[Case]) -> Result<Vec<Denied>, String> {
    let with = |mode| cases.iter().map(move |case| Case { mode, ..*case });
    let cases: Vec<_> = with(Mode::DELTAS).zip(with(Mode::Central)).flat_map(|(a, b)| [a, b]).collect();
    let records = run_all(&cases, |_, record| record)?;
    Ok(records.chunks(2).map(|pair| Denied::of(&pair[0], &pair[1])).collect())
}

/// What was denied, by number of nodes and spread.
pub(crate) struct Plenty {
    rows: Vec<(usize, Spread, Vec<Denied>)>,
}

impl Plenty {
    pub(crate) fn measure(quick: bool) -> Result<Self, String> {
        let seeds = 0..if quick { 1 } else { 4 };
        let mut rows = Vec::new();
        for nodes in NODES {
            for spread in Spread::ALL {
                let mut row = Vec::new();
                for limit in LIMITS.into_iter().chain([TOO_LONG]) {
                    let with = |load| {
                        let case = Case { mode: Mode::DELTAS, nodes, limit, spread, load, seed: 0 };
                        seeds.clone().map(move |seed| Case { seed, ..case })
                    };
                    let cases: Vec<_> = LOADS.into_iter().flat_map(with).collect();
                    row.push(denied(&cases)?.into_iter().fold(Denied::default(), Denied::and));
                }
                rows.push((nodes, spread, row));
            }
        }
        let tenth: Vec<_> = seeds.map(|seed| Case::tenth(Mode::DELTAS, seed)).collect();
        let tenth = denied(&tenth)?.into_iter().fold(Denied::default(), Denied::and);
        rows.push((10, Spread::Tenth, vec![tenth]));
        Ok(Self { rows })
    }

    /// Returns the spurious denials in the worst cell, as a fraction of its requests.
    pub(crate) fn spurious(&self) -> f64 {
        self.rows
            .iter()
            .flat_map(|(.., row)| row.iter().take(LIMITS.len()))
            .map(|denied| denied.spurious)
            .fold(0.0, f64::max)
    }

    pub(crate) fn print(&self) {
        println!(
            "0.2 to 0.9 times the limit, at most 0.9 of its burst at once: what is denied although checks at the central \
             store would have allowed it,\nin ‰ of all requests\n"
        );
        let mut table = Table::new(["nodes", ""]);
        let limits = LIMITS.iter().chain([&TOO_LONG]);
        table.extend_head(limits.map(|(bucket, interval)| format!("{bucket}, {interval} ms")));
        for (nodes, spread, row) in &self.rows {
            let mut cells = vec![nodes.to_string(), spread.name()];
            cells.extend(row.iter().map(|denied| format!("{:.2}", denied.spurious * 1e3)));
            table.row(cells);
        }
        print!("{table}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_denied_that_the_central_store_has_tokens_for() {
        let bursts = |part| Case {
            mode: Mode::DELTAS,
            nodes: 10,
            limit: LIMITS[1],
            spread: Spread::Bursts(part),
            load: 0.9,
            seed: 1,
        };
        let cases = [Case::tenth(Mode::DELTAS, 1), bursts(0.5), bursts(1.0)];
        for (case, denied) in cases.iter().zip(denied(&cases).expect("no node is cut off")) {
            assert!(denied.spurious <= 0.001, "{} of {case:?}", denied.spurious);
        }
    }
}
