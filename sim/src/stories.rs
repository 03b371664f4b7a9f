//! The charts of single events, each beside checks at the central store: a node that joins, a burst on a quiet node, an
//! outage.

use std::ops::Range;
use std::time::Duration;

use crate::figures::{float, nanos, per_slot};
use crate::fleet::Mode;
use crate::outages;
use crate::plan::{NodePlan, Plan, Planned};
use crate::plots::axis;
use crate::simulation::{Bucket, run_all};
use crate::svg::{COLOURS, Chart, Line, Panel};
use crate::traffic::{Arrivals, Shape};

/// An event, and how it is drawn.
struct Story {
    title: &'static str,
    plan: Plan,
    /// The slots in which requests are counted.
    slot: Duration,
    /// The largest number of requests in a slot, and the distance of the ticks.
    top: (f64, f64),
    /// The nodes of each line.
    lines: Vec<(&'static str, Range<usize>)>,
    /// Names the limit. Otherwise it is not drawn.
    level: Option<&'static str>,
    band: Option<(f64, f64, String)>,
}

struct InMode<'a>(&'a Plan, Mode);

impl Planned for InMode<'_> {
    fn plan(&self) -> Plan {
        Plan { mode: self.1, ..self.0.clone() }
    }
}

impl Story {
    fn chart(self) -> Result<Chart, String> {
        let modes = [Mode::DELTAS, Mode::Central];
        let records = run_all(&modes.map(|mode| InMode(&self.plan, mode)), |_, record| record)?;
        let per_slot = |record: &crate::simulation::Record, nodes: &Range<usize>| {
            let of_nodes = record.allowed().filter(|request| nodes.contains(&request.node));
            let times: Vec<u64> = of_nodes.map(|request| request.at).collect();
            per_slot(&times, nanos(self.slot), nanos(self.plan.span))
        };
        let slot = self.slot.as_secs_f64();
        let panel = |(mode, record): (Mode, _)| Panel {
            title: mode.name().to_owned(),
            y: axis(&format!("allowed in {} ms", self.slot.as_millis()), 0.0, self.top.0, self.top.1, ""),
            lines: (self.lines.iter().zip(COLOURS))
                .map(|((name, nodes), colour)| Line {
                    name: (*name).to_owned(),
                    colour,
                    dots: false,
                    points: (per_slot(record, nodes).iter().enumerate())
                        .map(|(number, allowed)| ((float(number) + 0.5) * slot, float(*allowed)))
                        .collect(),
                })
                .collect(),
            level: self.level.map(|name| (f64::from(self.plan.bucket.per_second) * slot, name.to_owned())),
        };
        Ok(Chart {
            title: self.title.to_owned(),
            x: axis("time in seconds", 0.0, self.plan.span.as_secs_f64(), 2.0, ""),
            panels: modes.into_iter().zip(&records).map(panel).collect(),
            height: 130.0,
            band: self.band,
        })
    }
}

fn plan(bucket: Bucket, seconds: u64, nodes: Vec<NodePlan>) -> Plan {
    Plan {
        mode: Mode::DELTAS,
        bucket,
        interval: Duration::from_millis(100),
        span: Duration::from_secs(seconds),
        seed: 1,
        at_most: None,
        nodes,
    }
}

/// Draws two nodes that start one after the other.
pub(crate) fn joining() -> Result<Chart, String> {
    let bucket = Bucket::new(1_000, 100);
    let starting_at =
        |second: f64| NodePlan { asleep: Some(0.0..second), ..NodePlan::new(Arrivals::steady(1_500.0)) };
    let story = Story {
        title: "A second node joins; each has 1.5 times the limit, sync interval 100 ms",
        plan: plan(bucket, 12, vec![starting_at(0.0), starting_at(4.0)]),
        slot: Duration::from_millis(200),
        top: (300.0, 100.0),
        lines: vec![("first node", 0..1), ("second node", 1..2)],
        level: Some("the limit"),
        band: None,
    };
    story.chart()
}

/// Draws a burst on a node that was quiet, while the others use a part of the limit.
pub(crate) fn quiet_node() -> Result<Chart, String> {
    let mut nodes: Vec<_> = Shape::Even.arrivals(9, 2.0).into_iter().map(NodePlan::new).collect();
    nodes.push(NodePlan { bursts: vec![(10.0, 50)], ..NodePlan::default() });
    let story = Story {
        title: "10 per second, burst 100: 50 requests at once on one of ten nodes",
        plan: plan(Bucket::new(10, 100), 16, nodes),
        slot: Duration::from_millis(250),
        top: (60.0, 20.0),
        lines: vec![("the quiet node", 9..10), ("the nine others", 0..9)],
        level: None,
        band: None,
    };
    story.chart()
}

/// Draws an outage of all nodes.
pub(crate) fn outage() -> Result<Chart, String> {
    let case = outages::Case {
        mode: Mode::DELTAS,
        nodes: 10,
        cut: 10,
        bucket: Bucket::new(1_000, 1_000),
        demand: 1.5,
        seed: 1,
    };
    let story = Story {
        title: "Ten nodes at 1.5 times the limit; no central store for 10 s",
        plan: case.plan(),
        slot: Duration::from_millis(200),
        top: (300.0, 100.0),
        lines: vec![("", 0..10)],
        level: Some("the limit"),
        band: Some((outages::FROM, outages::UNTIL, "no central store".to_owned())),
    };
    story.chart()
}
