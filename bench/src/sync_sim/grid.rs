//! Intervals by numbers of nodes: what passes beyond the limit, and how much of it is used.

use std::collections::BTreeMap;
use std::time::Duration;

use super::figures::Figures;
use super::fleet::Mode;
use super::percent;
use super::simulation::{Rate, Scenario, run_all};
use crate::report::print_aligned;

/// Milliseconds between two exchanges.
pub const INTERVALS: [u64; 6] = [10, 50, 100, 250, 1_000, 5_000];
const MODES: [Mode; 2] = [Mode::DELTAS, Mode::Lease];

/// Steady demand of three times the limit, by mode, number of nodes and interval.
pub struct Grid {
    rate: Rate,
    pub nodes: &'static [usize],
    cells: BTreeMap<(&'static str, usize, u64), Figures>,
}

impl Grid {
    pub fn measure(rate: Rate, nodes: &'static [usize], quick: bool) -> Result<Self, String> {
        let mut scenarios = Vec::new();
        for &nodes in nodes {
            for interval in INTERVALS {
                for mode in MODES.into_iter().chain([Mode::Central]) {
                    let interval = Duration::from_millis(interval);
                    let usual = Scenario { nodes, rate, interval, ..Scenario::usual(mode) };
                    // One window and some more; for as long as it takes if nodes exchange rarely.
                    let some = Duration::from_secs(if quick || nodes == 1_000 { 12 } else { 30 });
                    let span = usual.settled() + some.max(interval * 8);
                    let seeds = if quick || nodes == 1_000 { 2 } else { 5 };
                    scenarios.extend((0..seeds).map(|seed| Scenario { span, seed, ..usual }));
                }
            }
        }
        let figures = run_all(&scenarios, |scenario, record| Figures::of(scenario, &record))?;
        let mut cells: BTreeMap<_, Figures> = BTreeMap::new();
        for (scenario, figures) in scenarios.iter().zip(figures) {
            let cell = (scenario.mode.name(), scenario.nodes, millis(scenario.interval));
            cells.entry(cell).and_modify(|worst| *worst = worst.worst(figures)).or_insert(figures);
        }
        Ok(Self { rate, nodes, cells })
    }

    /// The worst of the runs of a cell.
    pub fn figures(&self, mode: Mode, nodes: usize, interval: u64) -> Figures {
        self.cells[&(mode.name(), nodes, interval)]
    }

    /// What leases let pass beyond the limit, all in all, in seconds of it.
    pub fn beyond_leases(&self) -> f64 {
        let leases = self.cells.iter().filter(|((mode, ..), _)| *mode == Mode::Lease.name());
        leases.map(|(_, figures)| figures.beyond).fold(0.0, f64::max)
    }

    pub fn print(&self) {
        println!(
            "three times the limit of 1,000/s with a burst of 100, on all nodes alike; worst of some seeds"
        );
        println!("\noverspent in the worst 10 s, from 2 s or 4 intervals on: % of the limit\n");
        self.print_table(|figures| percent(figures.over));
        println!("\nfirst burst, before that: the deepest debt, in seconds of the limit that repay it\n");
        self.print_table(|figures| format!("{:.3}", figures.first_burst));
        println!("\nused of the limit, from 2 s or 4 intervals on: %\n");
        self.print_table(|figures| percent(figures.used));
    }

    fn print_table(&self, figure: impl Fn(Figures) -> String) {
        let mut lines = vec![vec![String::new()]];
        for mode in MODES.map(Mode::name) {
            lines[0].extend(self.nodes.iter().map(|nodes| format!("{mode} {nodes}")));
        }
        for interval in INTERVALS {
            let mut line = vec![in_words(interval)];
            for mode in MODES {
                line.extend(self.nodes.iter().map(|nodes| figure(self.figures(mode, *nodes, interval))));
            }
            lines.push(line);
        }
        let mut line = vec![Mode::Central.name().to_owned()];
        for _ in MODES {
            line.extend(self.nodes.iter().map(|nodes| figure(self.figures(Mode::Central, *nodes, 100))));
        }
        lines.push(line);
        print_aligned(&lines);
    }

    /// Which interval to choose, for ten nodes.
    pub fn print_choice(&self) {
        let limit = self.rate.to_string();
        let head = [&limit, "overspent %", "first burst s", "used %", "calls/s", "leases: used %", "calls/s"];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for interval in INTERVALS {
            let [deltas, lease] = MODES.map(|mode| self.figures(mode, 10, interval));
            lines.push(vec![
                in_words(interval),
                percent(deltas.over),
                format!("{:.3}", deltas.first_burst),
                percent(deltas.used),
                format!("{:.1}", deltas.calls),
                percent(lease.used),
                format!("{:.1}", lease.calls),
            ]);
        }
        print_aligned(&lines);
    }
}

/// An interval as people say it.
pub fn in_words(interval: u64) -> String {
    if interval < 1_000 { format!("{interval} ms") } else { format!("{} s", interval / 1_000) }
}

fn millis(interval: Duration) -> u64 {
    u64::try_from(interval.as_millis()).expect("a simulation of seconds")
}
