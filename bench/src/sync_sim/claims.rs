//! The worst cases behind the claim lines: ten nodes, 100 ms, several limits and seeds.

use std::time::Duration;

use super::figures::Figures;
use super::fleet::Mode;
use super::percent;
use super::simulation::{Rate, Scenario, run_all};
use crate::report::{Claim, Finding, Findings, Kind, print_aligned};

/// With a small burst, with the one that a limit has unless it says otherwise, and a limit that is small.
const RATES: [Rate; 3] = [Rate::new(1_000, 100), Rate::new(1_000, 1_000), Rate::new(100, 100)];
/// What is asked for, in limits.
const DEMANDS: [f64; 2] = [3.0, 1.0];

const LIMIT: &str = "limit";
const OVER: &str = "overspent";
const USED: &str = "used";
const BEYOND: &str = "beyond";

/// The worst of all seeds, by limit and demand.
pub struct Worst {
    rows: Vec<(Rate, f64, Mode, Figures)>,
}

impl Worst {
    pub fn measure(quick: bool) -> Result<Self, String> {
        let mut rows = Vec::new();
        for rate in RATES {
            for demand in DEMANDS {
                for mode in [Mode::DELTAS, Mode::Lease] {
                    let usual = Scenario { rate, demand, ..Scenario::usual(mode) };
                    let span = Duration::from_secs(if quick { 32 } else { 62 });
                    let seeds = 0..if quick { 2 } else { 8 };
                    let scenarios: Vec<_> = seeds.map(|seed| Scenario { span, seed, ..usual }).collect();
                    let figures = run_all(&scenarios, |scenario, record| Figures::of(scenario, &record))?;
                    let worst = figures.into_iter().reduce(Figures::worst).expect("there are seeds");
                    rows.push((rate, demand, mode, worst));
                }
            }
        }
        Ok(Self { rows })
    }

    fn of(&self, mode: Mode, demand: Option<f64>) -> Figures {
        let rows =
            self.rows.iter().filter(|row| row.2 == mode && demand.is_none_or(|demand| within(row.1, demand)));
        rows.map(|row| row.3).reduce(Figures::worst).expect("measured")
    }

    /// What leases let pass beyond the limit, all in all, in seconds of it.
    pub fn beyond_leases(&self) -> f64 {
        self.of(Mode::Lease, None).beyond
    }

    pub fn print(&self) {
        println!("ten nodes alike, 100 ms, from 2 s on; worst of some seeds\n");
        let head =
            ["", "demand", "", "overspent %", "first burst s", "debt s", "used %", "swing %", "worst node"];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for (rate, demand, mode, worst) in &self.rows {
            lines.push(vec![
                rate.to_string(),
                format!("{demand}x"),
                mode.name().to_owned(),
                percent(worst.over),
                format!("{:.3}", worst.first_burst),
                format!("{:.3}", worst.debt),
                percent(worst.used),
                percent(worst.swing),
                format!("{:.2}", worst.fared.0),
            ]);
        }
        print_aligned(&lines);
        println!(
            "\ndeltas use {} % of the limit at three times the demand",
            percent(self.of(Mode::DELTAS, Some(3.0)).used)
        );
    }

    /// The claim lines. `beyond` is the most that any lease let pass beyond the limit, all in all, in seconds of it.
    pub fn conclude(&self, beyond: f64) {
        let mut findings = Findings::default();
        let mut record = |subject, column: &str, value| {
            findings.record(subject, column.to_owned(), Finding::Figure { value, crowded: false });
        };
        let (deltas, lease) = (Mode::DELTAS.name(), Mode::Lease.name());
        record(deltas, OVER, self.of(Mode::DELTAS, Some(3.0)).over);
        record(lease, USED, self.of(Mode::Lease, None).used);
        record(lease, BEYOND, beyond);
        for (column, value) in [(OVER, 0.0), (USED, 1.0), (BEYOND, 0.0)] {
            record(LIMIT, column, value);
        }
        let claim = |kind, name: &str, ours, theirs, column: &str| Claim {
            kind,
            name: name.to_owned(),
            against: LIMIT,
            ours: (ours, column.to_owned()),
            theirs: (theirs, column.to_owned()),
        };
        findings.conclude(&[
            claim(Kind::Itself, "overshoot-10-nodes-3x", deltas, LIMIT, OVER),
            // What passed by what might have.
            claim(Kind::Ratio, "lease-utilisation", LIMIT, lease, USED),
            claim(Kind::Itself, "lease-overshoot", lease, LIMIT, BEYOND),
        ]);
    }
}

/// Whether two demands are the same one.
fn within(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}
