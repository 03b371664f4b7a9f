//! Ten nodes with traffic of different shapes: overshoot, utilization and fairness.

use std::time::Duration;

use crate::figures::Figures;
use crate::fleet::Mode;
use crate::simulation::{Bucket, Scenario, run_all};
use crate::table::{Table, percent};
use crate::traffic::Shape;

const MODES: [Mode; 3] = [Mode::DELTAS, Mode::Lease, Mode::Central];
/// A demand below the limit, where no request should be denied.
const BELOW: f64 = 0.8;

/// Figures by the shape of traffic.
pub(crate) struct Shapes {
    /// The shape, the mode, and the figures with a demand above and below the limit.
    rows: Vec<(Shape, Mode, Figures, Figures)>,
}

impl Shapes {
    pub(crate) fn measure(quick: bool) -> Result<Self, String> {
        let mut scenarios = Vec::new();
        for shape in Shape::ALL {
            for mode in MODES {
                // With room for a burst of traffic: the central store alone would allow most of it.
                let (bucket, span) =
                    (Bucket::new(1_000, 1_000), Duration::from_secs(if quick { 14 } else { 42 }));
                for demand in [3.0, BELOW] {
                    scenarios.push(Scenario { bucket, shape, demand, span, ..Scenario::baseline(mode) });
                }
            }
        }
        let figures = run_all(&scenarios, |scenario, record| Figures::of(scenario, &record))?;
        let rows = scenarios.chunks(2).zip(figures.chunks(2));
        let rows = rows.map(|(runs, figures)| (runs[0].shape, runs[0].mode, figures[0], figures[1]));
        Ok(Self { rows: rows.collect() })
    }

    /// Returns the total excess of leases, in seconds of the limit.
    pub(crate) fn lease_excess(&self) -> f64 {
        let leases = self.rows.iter().filter(|(_, mode, ..)| *mode == Mode::Lease);
        leases.map(|(.., high, low)| high.total_excess.max(low.total_excess)).fold(0.0, f64::max)
    }

    pub(crate) fn print(&self) {
        println!(
            "ten nodes, 100 ms, 1,000/s with a burst of 1,000; at three times the limit: overshoot in the worst 10 s, \
             largest debt, utilization,\nstandard deviation of the allowed requests per second, and the allowed \
             fraction of requests on the worst and best node relative to all;\nat {BELOW} times the limit: denied \
             requests, and the allowed fraction on the worst node\n"
        );
        let head = [
            "",
            "",
            "overshoot %",
            "debt s",
            "used %",
            "deviation %",
            "worst node",
            "best node",
            "denied %",
            "worst node",
        ];
        let mut table = Table::new(head);
        for (shape, mode, high, low) in &self.rows {
            table.row([
                shape.name().to_owned(),
                mode.name().to_owned(),
                percent(high.overshoot),
                format!("{:.3}", high.debt),
                percent(high.utilization),
                percent(high.deviation),
                format!("{:.2}", high.fairness.0),
                format!("{:.2}", high.fairness.1),
                percent(low.denied),
                format!("{:.2}", low.fairness.0),
            ]);
        }
        print!("{table}");
    }
}
