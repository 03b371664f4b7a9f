//! Ten nodes, and traffic of all shapes: who gets what.

use std::time::Duration;

use super::figures::Figures;
use super::fleet::Mode;
use super::percent;
use super::simulation::{Rate, Scenario, run_all};
use super::traffic::Shape;
use crate::report::print_aligned;

const MODES: [Mode; 3] = [Mode::DELTAS, Mode::Lease, Mode::Central];
/// What is asked for when nobody would have to be turned away.
const BELOW: f64 = 0.8;

/// What passed of a shape of traffic.
pub struct Shapes {
    /// The shape, the mode, what it comes to beyond the limit, and below.
    rows: Vec<(Shape, Mode, Figures, Figures)>,
}

impl Shapes {
    pub fn measure(quick: bool) -> Result<Self, String> {
        let mut scenarios = Vec::new();
        for shape in Shape::ALL {
            for mode in MODES {
                // A burst that has room for a burst of traffic, so that a centre would let most of it pass.
                let (rate, span) =
                    (Rate::new(1_000, 1_000), Duration::from_secs(if quick { 14 } else { 42 }));
                for demand in [3.0, BELOW] {
                    scenarios.push(Scenario { rate, shape, demand, span, ..Scenario::usual(mode) });
                }
            }
        }
        let figures = run_all(&scenarios, |scenario, record| Figures::of(scenario, &record))?;
        let rows = scenarios.chunks(2).zip(figures.chunks(2));
        let rows = rows.map(|(runs, figures)| (runs[0].shape, runs[0].mode, figures[0], figures[1]));
        Ok(Self { rows: rows.collect() })
    }

    /// What leases let pass beyond the limit, all in all, in seconds of it.
    pub fn beyond_leases(&self) -> f64 {
        let leases = self.rows.iter().filter(|(_, mode, ..)| *mode == Mode::Lease);
        leases.map(|(.., high, low)| high.beyond.max(low.beyond)).fold(0.0, f64::max)
    }

    pub fn print(&self) {
        println!(
            "ten nodes, 100 ms, 1,000/s with a burst of 1,000; at three times the limit: overspent in the worst 10 s, deepest \
             debt, used,\nhow far a second is off (standard deviation), and how the worst and the best node fared by what \
             they asked for;\nat {BELOW} times the limit: what was turned away, and how the worst node fared\n"
        );
        let head = [
            "",
            "",
            "overspent %",
            "debt s",
            "used %",
            "swing %",
            "worst node",
            "best node",
            "denied %",
            "worst node",
        ];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for (shape, mode, high, low) in &self.rows {
            lines.push(vec![
                shape.name().to_owned(),
                mode.name().to_owned(),
                percent(high.over),
                format!("{:.3}", high.debt),
                percent(high.used),
                percent(high.swing),
                format!("{:.2}", high.fared.0),
                format!("{:.2}", high.fared.1),
                percent(low.denied),
                format!("{:.2}", low.fared.0),
            ]);
        }
        print_aligned(&lines);
    }
}
