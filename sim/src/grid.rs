//! Overshoot and utilization by sync interval and number of nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::figures::Figures;
use crate::fleet::Mode;
use crate::simulation::{Bucket, Scenario, run_all};
use crate::table::{Table, percent};

/// Sync intervals in milliseconds.
pub(crate) const INTERVALS: [u64; 6] = [10, 50, 100, 250, 1_000, 5_000];
const MODES: [Mode; 2] = [Mode::DELTAS, Mode::Lease];

/// Figures at a steady demand of three times the limit, by mode, number of nodes and interval.
pub(crate) struct Grid {
    bucket: Bucket,
    pub(crate) nodes: &'static [usize],
    cells: BTreeMap<(&'static str, usize, u64), Figures>,
}

impl Grid {
    pub(crate) fn measure(bucket: Bucket, nodes: &'static [usize], quick: bool) -> Result<Self, String> {
        let mut scenarios = Vec::new();
        for &nodes in nodes {
            for interval in INTERVALS {
                for mode in MODES.into_iter().chain([Mode::Central]) {
                    let interval = Duration::from_millis(interval);
                    let baseline = Scenario { nodes, bucket, interval, ..Scenario::baseline(mode) };
                    // More than one window, and several intervals.
                    let measured = Duration::from_secs(if quick || nodes == 1_000 { 12 } else { 30 });
                    let span = baseline.warm_up() + measured.max(interval * 8);
                    let seeds = if quick || nodes == 1_000 { 2 } else { 5 };
                    scenarios.extend((0..seeds).map(|seed| Scenario { span, seed, ..baseline }));
                }
            }
        }
        let figures = run_all(&scenarios, |scenario, record| Figures::of(scenario, &record))?;
        let mut cells: BTreeMap<_, Figures> = BTreeMap::new();
        for (scenario, figures) in scenarios.iter().zip(figures) {
            let cell = (scenario.mode.name(), scenario.nodes, millis(scenario.interval));
            cells.entry(cell).and_modify(|worst| *worst = worst.worst(figures)).or_insert(figures);
        }
        Ok(Self { bucket, nodes, cells })
    }

    /// Returns the worst figures of all seeds of a cell.
    pub(crate) fn figures(&self, mode: Mode, nodes: usize, interval: u64) -> Figures {
        self.cells[&(mode.name(), nodes, interval)]
    }

    /// Returns the total excess of leases, in seconds of the limit.
    pub(crate) fn lease_excess(&self) -> f64 {
        let leases = self.cells.iter().filter(|((mode, ..), _)| *mode == Mode::Lease.name());
        leases.map(|(_, figures)| figures.total_excess).fold(0.0, f64::max)
    }

    pub(crate) fn print(&self) {
        println!(
            "three times the limit of 1,000/s with a burst of 100, equal demand on all nodes; worst of several seeds"
        );
        println!("\novershoot in the worst 10 s, after 2 s or 4 intervals: % of the limit\n");
        self.print_table(|figures| percent(figures.overshoot));
        println!("\ninitial debt, before that: the largest debt, in seconds of the limit that repay it\n");
        self.print_table(|figures| format!("{:.3}", figures.initial_debt));
        println!("\nutilization, after 2 s or 4 intervals: % of the limit\n");
        self.print_table(|figures| percent(figures.utilization));
    }

    fn print_table(&self, figure: impl Fn(Figures) -> String) {
        let columns =
            || MODES.into_iter().flat_map(|mode| self.nodes.iter().map(move |nodes| (mode, *nodes)));
        let mut table = Table::new([""]);
        table.extend_head(columns().map(|(mode, nodes)| format!("{} {nodes}", mode.name())));
        for interval in INTERVALS {
            let cells = columns().map(|(mode, nodes)| figure(self.figures(mode, nodes, interval)));
            table.row(std::iter::once(in_words(interval)).chain(cells));
        }
        let cells = columns().map(|(_, nodes)| figure(self.figures(Mode::Central, nodes, 100)));
        table.row(std::iter::once(Mode::Central.name().to_owned()).chain(cells));
        print!("{table}");
    }

    /// Prints the trade-off between intervals, for ten nodes.
    pub(crate) fn print_choice(&self) {
        let limit = self.bucket.to_string();
        let head =
            [&limit, "overshoot %", "initial debt s", "used %", "calls/s", "leases: used %", "calls/s"];
        let mut table = Table::new(head);
        for interval in INTERVALS {
            let [deltas, lease] = MODES.map(|mode| self.figures(mode, 10, interval));
            table.row([
                in_words(interval),
                percent(deltas.overshoot),
                format!("{:.3}", deltas.initial_debt),
                percent(deltas.utilization),
                format!("{:.1}", deltas.calls),
                percent(lease.utilization),
                format!("{:.1}", lease.calls),
            ]);
        }
        print!("{table}");
    }
}

/// Formats an interval with its unit.
pub(crate) fn in_words(interval: u64) -> String {
    if interval < 1_000 { format!("{interval} ms") } else { format!("{} s", interval / 1_000) }
}

fn millis(interval: Duration) -> u64 {
    u64::try_from(interval.as_millis()).expect("a simulation lasts seconds")
}
