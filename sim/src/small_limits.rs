//! Limits that are small for the number of nodes: less than one token per node and sync interval.

use std::time::Duration;

use crate::figures::Figures;
use crate::fleet::Mode;
use crate::simulation::{Bucket, Scenario, run_all};
use crate::table::{Table, percent};

const MODES: [Mode; 2] = [Mode::DELTAS, Mode::Lease];
/// Limits, and the numbers of nodes that share them.
const CASES: [(Bucket, usize); 5] = [
    (Bucket::new(10, 10), 10),
    (Bucket::new(10, 10), 20),
    (Bucket::new(10, 10), 100),
    (Bucket::new(100, 100), 100),
    (Bucket::new(1_000, 1_000), 1_000),
];

/// The worst figures of all seeds, by limit, number of nodes and mode.
pub(crate) struct SmallLimits {
    rows: Vec<(Bucket, usize, Mode, Figures)>,
}

impl SmallLimits {
    pub(crate) fn measure(quick: bool) -> Result<Self, String> {
        let mut rows = Vec::new();
        for (bucket, nodes) in CASES {
            for mode in MODES {
                let span = Duration::from_secs(if quick { 32 } else { 62 });
                let seeds = 0..if quick { 2 } else { 4 };
                let baseline = Scenario { nodes, bucket, span, ..Scenario::baseline(mode) };
                let scenarios: Vec<_> = seeds.map(|seed| Scenario { seed, ..baseline }).collect();
                let figures = run_all(&scenarios, |scenario, record| Figures::of(scenario, &record))?;
                let worst = figures.into_iter().reduce(Figures::worst).expect("there are seeds");
                rows.push((bucket, nodes, mode, worst));
            }
        }
        Ok(Self { rows })
    }

    /// Returns the total excess of leases, in seconds of the limit.
    pub(crate) fn lease_excess(&self) -> f64 {
        let leases = self.rows.iter().filter(|(_, _, mode, _)| *mode == Mode::Lease);
        leases.map(|(.., figures)| figures.total_excess).fold(0.0, f64::max)
    }

    pub(crate) fn print(&self) {
        println!(
            "limits that are small for the number of nodes, at three times the limit, 100 ms, after the first 2 s;"
        );
        println!("worst of several seeds\n");
        let head = [
            "",
            "nodes",
            "",
            "overshoot %",
            "initial debt s",
            "used %",
            "worst node",
            "best node",
            "calls/s",
        ];
        let mut table = Table::new(head);
        for (bucket, nodes, mode, worst) in &self.rows {
            table.row([
                bucket.to_string(),
                nodes.to_string(),
                mode.name().to_owned(),
                percent(worst.overshoot),
                format!("{:.3}", worst.initial_debt),
                percent(worst.utilization),
                format!("{:.2}", worst.fairness.0),
                format!("{:.2}", worst.fairness.1),
                format!("{:.1}", worst.calls),
            ]);
        }
        print!("{table}");
    }
}
