//! Nodes that cannot reach the centre for a while: what passes meanwhile, and when it is repaid.

use std::time::Duration;

use tollgate_limiter_sync::WhenStale;

use super::figures::{Figures, debts, float, nanos, seconds, used};
use super::fleet::Mode;
use super::percent;
use super::simulation::{Cut, Record, Scenario, run_all};
use crate::report::print_aligned;

const FROM: Duration = Duration::from_secs(10);
const UNTIL: Duration = Duration::from_secs(20);
const SPAN: Duration = Duration::from_secs(60);
/// How long before and after the cut is looked at by itself.
const BESIDE: Duration = Duration::from_secs(5);

const ROWS: [(&str, Mode); 5] = [
    ("deltas, go on", Mode::DELTAS),
    ("deltas, one of ten", Mode::Deltas(WhenStale::one_of(10))),
    ("deltas, deny", Mode::Deltas(WhenStale::Deny)),
    ("lease", Mode::Lease),
    ("central", Mode::Central),
];

/// What passed around a cut; rates are parts of the limit.
struct Passed {
    before: f64,
    during: f64,
    /// Of that, on nodes that were cut off.
    cut_off: f64,
    after: f64,
    later: f64,
    /// The deepest debt since the cut began, in seconds.
    debt: f64,
    /// Seconds after the end of the cut until the debt was no more than before it, or than an interval repays.
    repaid: f64,
    beyond: f64,
}

impl Passed {
    fn of(scenario: &Scenario, record: &Record) -> Self {
        let (rate, cut) = (scenario.rate, scenario.cut.expect("a partition"));
        let (from, until, end) = (nanos(FROM), nanos(UNTIL), nanos(SPAN));
        let times: Vec<u64> = record.passed.iter().map(|pass| pass.at).collect();
        let part = |from, until| used(&times, rate.per_second, from, until);
        let within = |at| (from..until).contains(&at);
        let cut_off = record.passed.iter().filter(|pass| pass.node < cut.nodes && within(pass.at)).count();
        let debts = debts(&times, rate);
        let deepest = |from, until| {
            let within = debts.iter().filter(|(at, _)| (from..until).contains(at));
            within.map(|(_, debt)| *debt).fold(0.0, f64::max)
        };
        let usual = deepest(from - nanos(BESIDE), from);
        let usual = usual.max(f64::from(rate.per_second) * scenario.interval.as_secs_f64());
        // Nobody may pass while the rest is repaid, so time tells when it was.
        let last = debts.iter().rfind(|(at, debt)| *at >= from && *debt > usual);
        let repaid = last.map_or(until, |(at, debt)| {
            at + nanos(Duration::from_secs_f64((debt - usual) / f64::from(rate.per_second)))
        });
        Self {
            before: part(from - nanos(BESIDE), from),
            during: part(from, until),
            cut_off: float(cut_off) / f64::from(rate.per_second) / seconds(until - from),
            after: part(until, until + nanos(BESIDE)),
            later: part(until + nanos(BESIDE), end),
            debt: deepest(from, end) / f64::from(rate.per_second),
            repaid: seconds(repaid.saturating_sub(until)),
            beyond: Figures::of(scenario, record).beyond,
        }
    }
}

/// All cuts.
pub struct Partitions {
    cuts: Vec<(usize, Vec<Passed>)>,
}

impl Partitions {
    pub fn measure() -> Result<Self, String> {
        let mut cuts = Vec::new();
        for nodes in [3, 10] {
            let cut = Some(Cut { nodes, from: FROM, until: UNTIL });
            let scenarios = ROWS.map(|(_, mode)| Scenario { span: SPAN, cut, ..Scenario::usual(mode) });
            cuts.push((nodes, run_all(&scenarios, |scenario, record| Passed::of(scenario, &record))?));
        }
        Ok(Self { cuts })
    }

    /// What leases let pass beyond the limit, all in all, in seconds of it.
    pub fn beyond_leases(&self) -> f64 {
        let rows = self.cuts.iter().flat_map(|(_, rows)| ROWS.iter().zip(rows));
        rows.filter(|((_, mode), _)| *mode == Mode::Lease).map(|(_, row)| row.beyond).fold(0.0, f64::max)
    }

    pub fn print(&self) {
        println!(
            "ten nodes at three times the limit, 100 ms, 1,000/s with a burst of 100; some are cut off from the centre \
             for {} s:\nwhat passed in the {} s before, meanwhile, in the {} s after, and from then on, in % of the limit;\n\
             the deepest debt, and how long after the cut it was repaid",
            UNTIL.as_secs() - FROM.as_secs(),
            BESIDE.as_secs(),
            BESIDE.as_secs(),
        );
        let head = ["before", "meanwhile", "of it cut off", "after", "later", "debt s", "repaid s"];
        for (nodes, rows) in &self.cuts {
            println!();
            let mut lines = vec![vec![format!("{nodes} of 10 cut off")]];
            lines[0].extend(head.map(str::to_owned));
            for ((name, _), row) in ROWS.iter().zip(rows) {
                let mut line = vec![(*name).to_owned()];
                line.extend([row.before, row.during, row.cut_off, row.after, row.later].map(percent));
                line.extend([row.debt, row.repaid].map(|figure| format!("{figure:.2}")));
                lines.push(line);
            }
            print_aligned(&lines);
        }
    }
}
