//! Limits that are small for the number of nodes: less than a token each between two exchanges.

use std::time::Duration;

use super::figures::Figures;
use super::fleet::Mode;
use super::percent;
use super::simulation::{Rate, Scenario, run_all};
use crate::report::print_aligned;

const MODES: [Mode; 2] = [Mode::DELTAS, Mode::Lease];
/// Limits, and nodes that share them.
const CASES: [(Rate, usize); 5] = [
    (Rate::new(10, 10), 10),
    (Rate::new(10, 10), 20),
    (Rate::new(10, 10), 100),
    (Rate::new(100, 100), 100),
    (Rate::new(1_000, 1_000), 1_000),
];

/// The worst of all seeds, by limit, number of nodes and mode.
pub struct Small {
    rows: Vec<(Rate, usize, Mode, Figures)>,
}

impl Small {
    pub fn measure(quick: bool) -> Result<Self, String> {
        let mut rows = Vec::new();
        for (rate, nodes) in CASES {
            for mode in MODES {
                let span = Duration::from_secs(if quick { 32 } else { 62 });
                let seeds = 0..if quick { 2 } else { 4 };
                let usual = Scenario { nodes, rate, span, ..Scenario::usual(mode) };
                let scenarios: Vec<_> = seeds.map(|seed| Scenario { seed, ..usual }).collect();
                let figures = run_all(&scenarios, |scenario, record| Figures::of(scenario, &record))?;
                let worst = figures.into_iter().reduce(Figures::worst).expect("there are seeds");
                rows.push((rate, nodes, mode, worst));
            }
        }
        Ok(Self { rows })
    }

    /// What leases let pass beyond the limit, all in all, in seconds of it.
    pub fn beyond_leases(&self) -> f64 {
        let leases = self.rows.iter().filter(|(_, _, mode, _)| *mode == Mode::Lease);
        leases.map(|(.., figures)| figures.beyond).fold(0.0, f64::max)
    }

    pub fn print(&self) {
        println!(
            "limits that are small for the nodes that share them, at three times the limit, 100 ms, from 2 s on;"
        );
        println!("worst of some seeds\n");
        let head =
            ["", "nodes", "", "overspent %", "first burst s", "used %", "worst node", "best node", "calls/s"];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for (rate, nodes, mode, worst) in &self.rows {
            lines.push(vec![
                rate.to_string(),
                nodes.to_string(),
                mode.name().to_owned(),
                percent(worst.over),
                format!("{:.3}", worst.first_burst),
                percent(worst.used),
                format!("{:.2}", worst.fared.0),
                format!("{:.2}", worst.fared.1),
                format!("{:.1}", worst.calls),
            ]);
        }
        print_aligned(&lines);
    }
}
