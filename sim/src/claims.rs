//! The worst cases behind the claim lines: ten nodes, 100 ms, several limits and seeds.

use std::time::Duration;

use crate::figures::Figures;
use crate::fleet::Mode;
use crate::simulation::{Bucket, Scenario, run_all};
use crate::table::{Table, percent};

/// A small burst, the default burst of a limit, and a small limit.
const BUCKETS: [Bucket; 3] = [Bucket::new(1_000, 100), Bucket::new(1_000, 1_000), Bucket::new(100, 100)];
/// Demand as a multiple of the limit.
const DEMANDS: [f64; 2] = [3.0, 1.0];

/// The worst figures of all seeds, by limit, demand and mode.
pub(crate) struct WorstCases {
    rows: Vec<(Bucket, f64, Mode, Figures)>,
}

impl WorstCases {
    pub(crate) fn measure(quick: bool) -> Result<Self, String> {
        let mut rows = Vec::new();
        for bucket in BUCKETS {
            for demand in DEMANDS {
                for mode in [Mode::DELTAS, Mode::Lease] {
                    let baseline = Scenario { bucket, demand, ..Scenario::baseline(mode) };
                    let span = Duration::from_secs(if quick { 32 } else { 62 });
                    let seeds = 0..if quick { 2 } else { 8 };
                    let scenarios: Vec<_> = seeds.map(|seed| Scenario { span, seed, ..baseline }).collect();
                    let figures = run_all(&scenarios, |scenario, record| Figures::of(scenario, &record))?;
                    let worst = figures.into_iter().reduce(Figures::worst).expect("there are seeds");
                    rows.push((bucket, demand, mode, worst));
                }
            }
        }
        Ok(Self { rows })
    }

    fn worst(&self, mode: Mode, demand: Option<f64>) -> Figures {
        let rows =
            self.rows.iter().filter(|row| row.2 == mode && demand.is_none_or(|demand| equal(row.1, demand)));
        rows.map(|row| row.3).reduce(Figures::worst).expect("measured")
    }

    /// Returns the total excess of leases, in seconds of the limit.
    pub(crate) fn lease_excess(&self) -> f64 {
        self.worst(Mode::Lease, None).total_excess
    }

    pub(crate) fn print(&self) {
        println!("ten nodes with equal demand, 100 ms, after the first 2 s; worst of several seeds\n");
        let head = [
            "",
            "demand",
            "",
            "overshoot %",
            "initial debt s",
            "debt s",
            "used %",
            "deviation %",
            "worst node",
        ];
        let mut table = Table::new(head);
        for (bucket, demand, mode, worst) in &self.rows {
            table.row([
                bucket.to_string(),
                format!("{demand}x"),
                mode.name().to_owned(),
                percent(worst.overshoot),
                format!("{:.3}", worst.initial_debt),
                format!("{:.3}", worst.debt),
                percent(worst.utilization),
                percent(worst.deviation),
                format!("{:.2}", worst.fairness.0),
            ]);
        }
        print!("{table}");
        println!(
            "\ndeltas use {} % of the limit at three times the demand",
            percent(self.worst(Mode::DELTAS, Some(3.0)).utilization)
        );
    }

    /// Prints the claim lines. `lease_excess` is the largest total excess of leases in any run, in seconds of the
    /// limit.
    pub(crate) fn print_claims(&self, lease_excess: f64) {
        print_claim("cost overshoot-10-nodes-3x limit", self.worst(Mode::DELTAS, Some(3.0)).overshoot);
        print_claim("ratio lease-utilisation limit", self.worst(Mode::Lease, None).utilization);
        print_claim("cost lease-overshoot limit", lease_excess);
    }
}

/// Prints a claim line: whether higher or lower is better, a name, what it is compared with, and the value.
pub(crate) fn print_claim(claim: &str, value: f64) {
    let decimals = if value != 0.0 && value.abs() < 0.1 { 4 } else { 2 };
    println!("{claim} {value:.decimals$}");
}

/// Returns whether two demands are the same.
fn equal(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}
