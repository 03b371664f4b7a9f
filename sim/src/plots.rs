//! The charts: allowed requests over time, and overshoot and utilization by interval.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::burst;
use crate::figures::{float, nanos, per_slot};
use crate::fleet::Mode;
use crate::grid::{Grid, INTERVALS, in_words};
use crate::simulation::{Partition, Scenario, run_all};
use crate::stories;
use crate::svg::{Axis, COLOURS, Chart, Line, Panel};

/// The length of the slots in which allowed requests are counted.
const SLOT: Duration = Duration::from_millis(100);

/// Draws all charts into a directory, and returns their paths.
pub(crate) fn draw(grid: &Grid, out: &Path) -> Result<Vec<PathBuf>, String> {
    let partition = Partition { nodes: 3, from: Duration::from_secs(6), until: Duration::from_secs(12) };
    let charts = [
        ("burst.svg", burst::draw().map_err(|error| error.to_string())?),
        (
            "overload.svg",
            over_time("Ten nodes at three times the limit, sync interval 100 ms", 16, None)?.draw(),
        ),
        (
            "partition.svg",
            over_time(
                "Ten nodes at three times the limit; three are partitioned for six seconds",
                24,
                Some(partition),
            )?
            .draw(),
        ),
        ("joining.svg", stories::joining()?.draw()),
        ("quiet-node.svg", stories::quiet_node()?.draw()),
        ("outage.svg", stories::outage()?.draw()),
        ("overshoot.svg", overshoot(grid).draw()),
        ("utilisation.svg", utilisation(grid).draw()),
    ];
    let failed = |error: std::io::Error| format!("{}: {error}", out.display());
    std::fs::create_dir_all(out).map_err(failed)?;
    let mut drawn = Vec::new();
    for (name, chart) in charts {
        let path = out.join(name);
        std::fs::write(&path, chart).map_err(failed)?;
        drawn.push(path);
    }
    Ok(drawn)
}

/// Draws the allowed requests in each slot of time, with a panel for each mode.
fn over_time(title: &str, seconds: u32, partition: Option<Partition>) -> Result<Chart, String> {
    let modes = [Mode::DELTAS, Mode::Lease, Mode::Central];
    let span = Duration::from_secs(seconds.into());
    let scenarios = modes.map(|mode| Scenario { span, partition, ..Scenario::baseline(mode) });
    let slots =
        run_all(&scenarios, |scenario, record| per_slot(&record.times(), nanos(SLOT), nanos(scenario.span)))?;
    let limit = f64::from(scenarios[0].bucket.per_second) * SLOT.as_secs_f64();
    let max = slots.iter().flatten().copied().max().unwrap_or_default();
    let top = (float(max) / limit).ceil() * limit;
    let panel = |((mode, slots), colour): ((Mode, &Vec<usize>), &'static str)| Panel {
        title: mode.name().to_owned(),
        y: axis("allowed in 100 ms", 0.0, top, limit, ""),
        lines: vec![Line {
            name: String::new(),
            colour,
            dots: false,
            points: slots.iter().enumerate().map(middle_of_slot).collect(),
        }],
        level: Some((limit, "the limit".to_owned())),
    };
    Ok(Chart {
        title: title.to_owned(),
        x: axis("time in seconds", 0.0, f64::from(seconds), 2.0, ""),
        panels: modes.into_iter().zip(&slots).zip(COLOURS).map(panel).collect(),
        height: 110.0,
        band: partition.map(|Partition { from, until, .. }| {
            (from.as_secs_f64(), until.as_secs_f64(), "three nodes partitioned".to_owned())
        }),
    })
}

fn middle_of_slot((slot, allowed): (usize, &usize)) -> (f64, f64) {
    ((float(slot) + 0.5) * SLOT.as_secs_f64(), float(*allowed))
}

/// Draws the overshoot by interval, on a logarithmic axis: it ranges from 0.01 % to more than 100 %.
fn overshoot(grid: &Grid) -> Chart {
    let overshoot =
        |nodes, interval| (grid.figures(Mode::DELTAS, nodes, interval).overshoot * 100.0).max(0.01).log10();
    let marks = [0.01, 0.1, 1.0, 10.0, 100.0];
    let y = Axis {
        label: "overshoot, worst 10 s".to_owned(),
        from: -2.0,
        to: 2.3,
        ticks: marks
            .map(|mark: f64| (mark.log10(), format!("{}{mark} %", if mark > 0.01 { "" } else { "≤ " })))
            .into(),
    };
    Chart {
        title: "Overshoot by sync interval, at three times the limit".to_owned(),
        x: intervals(),
        panels: vec![Panel { title: "deltas".to_owned(), y, lines: by_nodes(grid, overshoot), level: None }],
        height: 260.0,
        band: None,
    }
}

/// Draws the utilization by interval.
fn utilisation(grid: &Grid) -> Chart {
    let modes = [Mode::DELTAS, Mode::Lease];
    let used = |mode, nodes, interval| grid.figures(mode, nodes, interval).utilization * 100.0;
    let all = modes.into_iter().flat_map(|mode| {
        grid.nodes.iter().flat_map(move |nodes| INTERVALS.map(|interval| used(mode, *nodes, interval)))
    });
    let (min, max) = all.fold((80.0, 110.0), |(min, max), used| (used.min(min), used.max(max)));
    let step = if max - min > 60.0 { 20.0 } else { 10.0 };
    let (from, to) = ((min / step).floor() * step, (max / step).ceil() * step);
    let panel = |mode: Mode| Panel {
        title: mode.name().to_owned(),
        y: axis("utilization", from, to, step, " %"),
        lines: by_nodes(grid, |nodes, interval| used(mode, nodes, interval)),
        level: Some((100.0, "the limit".to_owned())),
    };
    Chart {
        title: "Utilization of the limit by sync interval, at three times the limit".to_owned(),
        x: intervals(),
        panels: modes.map(panel).into(),
        height: 160.0,
        band: None,
    }
}

/// Returns a line for each number of nodes.
fn by_nodes(grid: &Grid, figure: impl Fn(usize, u64) -> f64) -> Vec<Line> {
    let line = |(nodes, colour): (&usize, &'static str)| Line {
        name: format!("{nodes} nodes"),
        colour,
        dots: true,
        points: INTERVALS
            .iter()
            .enumerate()
            .map(|(at, interval)| (float(at), figure(*nodes, *interval)))
            .collect(),
    };
    grid.nodes.iter().zip(COLOURS).map(line).collect()
}

/// Returns an axis with the intervals at equal distances.
fn intervals() -> Axis {
    Axis {
        label: "sync interval".to_owned(),
        from: -0.25,
        to: float(INTERVALS.len()) - 0.75,
        ticks: INTERVALS.iter().enumerate().map(|(at, interval)| (float(at), in_words(*interval))).collect(),
    }
}

/// Returns an axis with a tick at each step.
pub(crate) fn axis(label: &str, from: f64, to: f64, step: f64, unit: &str) -> Axis {
    let marks =
        std::iter::successors(Some(from), |at| Some(at + step)).take_while(|at| *at <= to + step / 1e3);
    Axis { label: label.to_owned(), from, to, ticks: marks.map(|at| (at, format!("{at}{unit}"))).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_ticks_from_end_to_end() {
        let ticks = axis("used", 80.0, 110.0, 10.0, " %").ticks;
        let labels: Vec<_> = ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["80 %", "90 %", "100 %", "110 %"]);
    }
}
