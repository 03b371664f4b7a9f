//! Nodes that are partitioned from the central store for a while: what they allow meanwhile, and when it is repaid.

use std::time::Duration;

use crate::figures::{Figures, debts, float, nanos, seconds, utilization};
use crate::fleet::Mode;
use crate::simulation::{Partition, Record, Scenario, run_all};
use crate::table::{Table, percent};

const FROM: Duration = Duration::from_secs(10);
const UNTIL: Duration = Duration::from_secs(20);
const SPAN: Duration = Duration::from_secs(60);
/// The time before and after the partition that is reported separately.
const MARGIN: Duration = Duration::from_secs(5);

const ROWS: [(&str, Mode); 5] = [
    ("deltas, continue", Mode::DELTAS),
    ("deltas, a tenth", Mode::DELTAS_TENTH),
    ("deltas, deny", Mode::DELTAS_DENY),
    ("lease", Mode::Lease),
    ("central", Mode::Central),
];

/// The figures of a partition. Rates are fractions of the limit.
struct Effect {
    before: f64,
    during: f64,
    /// The part of `during` that partitioned nodes allowed.
    partitioned: f64,
    after: f64,
    later: f64,
    /// The largest debt since the start of the partition, in seconds of the limit.
    debt: f64,
    /// Seconds from the end of the partition until the debt was not larger than before it, or than what one interval
    /// repays.
    repaid: f64,
    total_excess: f64,
}

impl Effect {
    fn of(scenario: &Scenario, record: &Record) -> Self {
        let (bucket, partition) = (scenario.bucket, scenario.partition.expect("a partition"));
        let (from, until, end) = (nanos(FROM), nanos(UNTIL), nanos(SPAN));
        let times = record.times();
        let fraction = |from, until| utilization(&times, bucket.per_second, from, until);
        let within = |at| (from..until).contains(&at);
        let partitioned =
            record.allowed().filter(|allowed| allowed.node < partition.nodes && within(allowed.at)).count();
        let debts = debts(&times, bucket);
        let largest = |from, until| {
            let within = debts.iter().filter(|(at, _)| (from..until).contains(at));
            within.map(|(_, debt)| *debt).fold(0.0, f64::max)
        };
        let normal = largest(from - nanos(MARGIN), from);
        let normal = normal.max(f64::from(bucket.per_second) * scenario.interval.as_secs_f64());
        // Nothing is allowed while the rest is repaid: the time of the repayment follows from the rate.
        let last = debts.iter().rfind(|(at, debt)| *at >= from && *debt > normal);
        let repaid = last.map_or(until, |(at, debt)| {
            at + nanos(Duration::from_secs_f64((debt - normal) / f64::from(bucket.per_second)))
        });
        Self {
            before: fraction(from - nanos(MARGIN), from),
            during: fraction(from, until),
            partitioned: float(partitioned) / f64::from(bucket.per_second) / seconds(until - from),
            after: fraction(until, until + nanos(MARGIN)),
            later: fraction(until + nanos(MARGIN), end),
            debt: largest(from, end) / f64::from(bucket.per_second),
            repaid: seconds(repaid.saturating_sub(until)),
            total_excess: Figures::of(scenario, record).total_excess,
        }
    }
}

/// The effects of partitions, by the number of partitioned nodes.
pub(crate) struct Partitions {
    effects: Vec<(usize, Vec<Effect>)>,
}

impl Partitions {
    pub(crate) fn measure() -> Result<Self, String> {
        let mut effects = Vec::new();
        for nodes in [3, 10] {
            let partition = Some(Partition { nodes, from: FROM, until: UNTIL });
            let scenarios =
                ROWS.map(|(_, mode)| Scenario { span: SPAN, partition, ..Scenario::baseline(mode) });
            effects.push((nodes, run_all(&scenarios, |scenario, record| Effect::of(scenario, &record))?));
        }
        Ok(Self { effects })
    }

    /// Returns the total excess of leases, in seconds of the limit.
    pub(crate) fn lease_excess(&self) -> f64 {
        let rows = self.effects.iter().flat_map(|(_, rows)| ROWS.iter().zip(rows));
        rows.filter(|((_, mode), _)| *mode == Mode::Lease)
            .map(|(_, row)| row.total_excess)
            .fold(0.0, f64::max)
    }

    pub(crate) fn print(&self) {
        println!(
            "ten nodes at three times the limit, 100 ms, 1,000/s with a burst of 100; some are partitioned from the \
             central store for {} s:\nwhat is allowed in the {} s before, during the partition, in the {} s after, and \
             later, in % of the limit;\nthe largest debt, and the time after the partition until it is repaid",
            UNTIL.as_secs() - FROM.as_secs(),
            MARGIN.as_secs(),
            MARGIN.as_secs(),
        );
        let head = ["before", "during", "partitioned nodes", "after", "later", "debt s", "repaid s"];
        for (nodes, rows) in &self.effects {
            println!();
            let mut table = Table::new([format!("{nodes} of 10 partitioned").as_str()]);
            table.extend_head(head.map(str::to_owned));
            for ((name, _), row) in ROWS.iter().zip(rows) {
                let mut cells = vec![(*name).to_owned()];
                cells.extend([row.before, row.during, row.partitioned, row.after, row.later].map(percent));
                cells.extend([row.debt, row.repaid].map(|figure| format!("{figure:.2}")));
                table.row(cells);
            }
            print!("{table}");
        }
    }
}
