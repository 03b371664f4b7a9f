//! Outages: nodes that are cut off from the central store and come back one after the other, and what passes then.

use std::time::Duration;

use fastrand::Rng;

use crate::figures::{float, seconds};
use crate::fleet::Mode;
use crate::plan::{NodePlan, Plan, Planned};
use crate::simulation::{Bucket, Record, run_all};
use crate::table::{Table, percent};
use crate::traffic::Shape;

pub(crate) const FROM: f64 = 10.0;
pub(crate) const UNTIL: f64 = 20.0;
const END: f64 = 32.0;
/// The nodes are back within this time, in seconds.
const RETURN: f64 = 0.15;
const INTERVAL: Duration = Duration::from_millis(100);
const BUCKETS: [Bucket; 3] = [Bucket::new(100, 100), Bucket::new(1_000, 100), Bucket::new(1_000, 1_000)];
/// Demand as a multiple of the limit.
const DEMANDS: [f64; 3] = [1.0, 1.5, 3.0];
/// The number of nodes, and how many of them are cut off.
const CUTS: [(usize, usize); 5] = [(2, 2), (5, 5), (10, 10), (10, 3), (2, 1)];
/// A fleet stayed within the limit if it granted at most this much of it during the outage.
const WITHIN: f64 = 1.02;

/// An outage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) mode: Mode,
    pub(crate) nodes: usize,
    pub(crate) cut: usize,
    pub(crate) bucket: Bucket,
    pub(crate) demand: f64,
    pub(crate) seed: u64,
}

impl Case {
    fn returns(&self) -> Vec<f64> {
        let mut random = Rng::with_seed(!self.seed);
        (0..self.cut).map(|_| UNTIL + RETURN * random.f64()).collect()
    }
}

impl Planned for Case {
    fn plan(&self) -> Plan {
        let demand = self.demand * f64::from(self.bucket.per_second);
        let mut nodes: Vec<_> =
            Shape::Even.arrivals(self.nodes, demand).into_iter().map(NodePlan::new).collect();
        for (node, back) in nodes.iter_mut().zip(self.returns()) {
            node.cut = Some(FROM..back);
        }
        Plan {
            mode: self.mode,
            bucket: self.bucket,
            interval: INTERVAL,
            span: Duration::from_secs_f64(END),
            seed: self.seed,
            at_most: None,
            nodes,
        }
    }
}

/// What passed, as fractions of the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    /// During the outage, on average.
    pub(crate) during: f64,
    /// In the worst second that starts at least an interval after the last node is back.
    pub(crate) worst_second: f64,
}

impl Effect {
    fn of(case: &Case, record: &Record) -> Self {
        let times = record.times();
        let last = case.returns().into_iter().fold(UNTIL, f64::max);
        // With the jitter of intervals.
        let settled = last + 1.1 * INTERVAL.as_secs_f64();
        let passed = |from: f64, until: f64| {
            float(times.iter().filter(|at| (from..until).contains(&seconds(**at))).count())
        };
        let limit = f64::from(case.bucket.per_second);
        let starts =
            std::iter::successors(Some(settled), |at| Some(at + 0.1)).take_while(|at| at + 1.0 <= END);
        let worst = starts.map(|at| passed(at, at + 1.0)).fold(f64::MAX, f64::min);
        Self {
            during: passed(FROM, last) / (last - FROM) / limit,
            // As in fairness, less than a request is a matter of counting.
            worst_second: (worst + 1.0) / limit,
        }
    }

    pub(crate) fn is_within_limit(&self) -> bool {
        self.during <= WITHIN
    }
}

/// Runs cases.
pub(crate) fn effects(cases: &[Case]) -> Result<Vec<Effect>, String> {
    run_all(cases, |case, record| Effect::of(case, &record))
}

/// The effects of outages, by nodes, demand and bucket.
pub(crate) struct Outages {
    /// The number of nodes and how many of them are cut off, the demand, and the effects on each seed.
    rows: Vec<((usize, usize), f64, Vec<Effect>)>,
}

impl Outages {
    pub(crate) fn measure(quick: bool) -> Result<Self, String> {
        let mut rows = Vec::new();
        let seeds = if quick { 2 } else { 8 };
        for (nodes, cut) in CUTS {
            for demand in DEMANDS {
                for bucket in BUCKETS {
                    let case = |seed| Case { mode: Mode::DELTAS, nodes, cut, bucket, demand, seed };
                    let cases: Vec<_> = (0..seeds).map(case).collect();
                    rows.push(((nodes, cut), demand, effects(&cases)?));
                }
            }
        }
        Ok(Self { rows })
    }

    /// Returns what passes in the worst second after an outage in which the fleet stayed within the limit.
    pub(crate) fn worst_second(&self) -> f64 {
        let effects = self.rows.iter().flat_map(|(.., effects)| effects);
        effects.filter(|it| it.is_within_limit()).map(|it| it.worst_second).fold(f64::MAX, f64::min)
    }

    pub(crate) fn print(&self) {
        println!(
            "nodes are cut off for {} s and come back within {} ms, 100 ms: what passes during the outage on average, \
             at most, and in the worst\nsecond from one interval after the last node is back, in % of the limit; in \
             brackets if more than the limit passed before, which is repaid\n",
            UNTIL - FROM,
            RETURN * 1e3,
        );
        let mut table = Table::new(["cut off", "demand"]);
        table.extend_head(BUCKETS.iter().flat_map(|bucket| [bucket.to_string(), "after".to_owned()]));
        for rows in self.rows.chunks(BUCKETS.len()) {
            let ((nodes, cut), demand, ..) = rows[0];
            let mut cells = vec![format!("{cut} of {nodes}"), format!("{demand}x")];
            for (.., effects) in rows {
                let during = effects.iter().map(|effect| effect.during).fold(0.0, f64::max);
                let within = effects.iter().filter(|effect| effect.is_within_limit());
                let worst = within.map(|effect| effect.worst_second).reduce(f64::min);
                let any = effects.iter().map(|effect| effect.worst_second).fold(f64::MAX, f64::min);
                cells.push(percent(during));
                cells.push(worst.map_or_else(|| format!("({})", percent(any)), percent));
            }
            table.row(cells);
        }
        print!("{table}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_passes_after_an_outage_and_what_is_beyond_it_is_repaid() {
        let case = |cut, demand| Case {
            mode: Mode::DELTAS,
            nodes: 10,
            cut,
            bucket: Bucket::new(100, 100),
            demand,
            seed: 1,
        };
        let effects = effects(&[case(10, 1.5), case(10, 3.0), case(3, 1.5)]).expect("nodes are back");
        for effect in &effects[..2] {
            assert!(effect.is_within_limit() && effect.worst_second >= 0.8, "{effect:?}");
        }
        assert!(!effects[2].is_within_limit() && effects[2].worst_second < 0.8, "{:?}", effects[2]);
    }
}
