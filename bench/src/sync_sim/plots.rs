//! The pictures: what passes over time, and what an interval costs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::figures::{float, nanos, per_slot};
use super::fleet::Mode;
use super::grid::{Grid, INTERVALS, in_words};
use super::simulation::{Cut, Scenario, run_all};
use super::svg::{Axis, COLOURS, Chart, Line, Panel};

/// What passes is counted in slots of this.
const SLOT: Duration = Duration::from_millis(100);

/// Draws all of them into a directory, and says where they are.
pub fn draw(grid: &Grid, out: &Path) -> Result<Vec<PathBuf>, String> {
    let cut = Cut { nodes: 3, from: Duration::from_secs(6), until: Duration::from_secs(12) };
    let charts = [
        ("overload.svg", over_time("Ten nodes at three times the limit, exchanging every 100 ms", 16, None)?),
        (
            "partition.svg",
            over_time(
                "Ten nodes at three times the limit; three lose the centre for six seconds",
                24,
                Some(cut),
            )?,
        ),
        ("overshoot.svg", overshoot(grid)),
        ("utilisation.svg", utilisation(grid)),
    ];
    let failed = |error: std::io::Error| format!("{}: {error}", out.display());
    std::fs::create_dir_all(out).map_err(failed)?;
    let mut drawn = Vec::new();
    for (name, chart) in charts {
        let path = out.join(name);
        std::fs::write(&path, chart.draw()).map_err(failed)?;
        drawn.push(path);
    }
    Ok(drawn)
}

/// What passes in each slot of time, a panel for each mode.
fn over_time(title: &str, seconds: u32, cut: Option<Cut>) -> Result<Chart, String> {
    let modes = [Mode::DELTAS, Mode::Lease, Mode::Central];
    let span = Duration::from_secs(seconds.into());
    let scenarios = modes.map(|mode| Scenario { span, cut, ..Scenario::usual(mode) });
    let slots = run_all(&scenarios, |scenario, record| {
        let times: Vec<u64> = record.passed.iter().map(|pass| pass.at).collect();
        per_slot(&times, nanos(SLOT), nanos(scenario.span))
    })?;
    let limit = f64::from(scenarios[0].rate.per_second) * SLOT.as_secs_f64();
    let most = slots.iter().flatten().copied().max().unwrap_or_default();
    let top = (float(most) / limit).ceil() * limit;
    let panel = |((mode, slots), colour): ((Mode, &Vec<usize>), &'static str)| Panel {
        title: mode.name().to_owned(),
        y: axis("passed in 100 ms", 0.0, top, limit, ""),
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
        band: cut
            .map(|cut| (cut.from.as_secs_f64(), cut.until.as_secs_f64(), "three nodes cut off".to_owned())),
    })
}

fn middle_of_slot((slot, passed): (usize, &usize)) -> (f64, f64) {
    ((float(slot) + 0.5) * SLOT.as_secs_f64(), float(*passed))
}

/// What passes beyond the limit, by interval. From a hundredth of a percent to all of it and more, so by its logarithm.
fn overshoot(grid: &Grid) -> Chart {
    let over = |nodes, interval| (grid.figures(Mode::DELTAS, nodes, interval).over * 100.0).max(0.01).log10();
    let marks = [0.01, 0.1, 1.0, 10.0, 100.0];
    let y = Axis {
        label: "beyond the limit, worst 10 s".to_owned(),
        from: -2.0,
        to: 2.3,
        ticks: marks
            .map(|mark: f64| (mark.log10(), format!("{}{mark} %", if mark > 0.01 { "" } else { "≤ " })))
            .into(),
    };
    Chart {
        title: "How far an interval lets nodes go beyond the limit, at three times its demand".to_owned(),
        x: intervals(),
        panels: vec![Panel { title: "deltas".to_owned(), y, lines: by_nodes(grid, over), level: None }],
        height: 260.0,
        band: None,
    }
}

/// How much of the limit is used, by interval.
fn utilisation(grid: &Grid) -> Chart {
    let modes = [Mode::DELTAS, Mode::Lease];
    let used = |mode, nodes, interval| grid.figures(mode, nodes, interval).used * 100.0;
    let all = modes.into_iter().flat_map(|mode| {
        grid.nodes.iter().flat_map(move |nodes| INTERVALS.map(|interval| used(mode, *nodes, interval)))
    });
    let (least, most) = all.fold((80.0, 110.0), |(least, most), used| (used.min(least), used.max(most)));
    let step = if most - least > 60.0 { 20.0 } else { 10.0 };
    let (from, to) = ((least / step).floor() * step, (most / step).ceil() * step);
    let panel = |mode: Mode| Panel {
        title: mode.name().to_owned(),
        y: axis("used of the limit", from, to, step, " %"),
        lines: by_nodes(grid, |nodes, interval| used(mode, nodes, interval)),
        level: Some((100.0, "the limit".to_owned())),
    };
    Chart {
        title: "How much of the limit is used, at three times its demand".to_owned(),
        x: intervals(),
        panels: modes.map(panel).into(),
        height: 160.0,
        band: None,
    }
}

/// A line for each number of nodes.
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

/// The intervals side by side, at equal distances.
fn intervals() -> Axis {
    Axis {
        label: "time between two exchanges".to_owned(),
        from: -0.25,
        to: float(INTERVALS.len()) - 0.75,
        ticks: INTERVALS.iter().enumerate().map(|(at, interval)| (float(at), in_words(*interval))).collect(),
    }
}

/// An axis that is marked at each step.
fn axis(label: &str, from: f64, to: f64, step: f64, unit: &str) -> Axis {
    let marks =
        std::iter::successors(Some(from), |at| Some(at + step)).take_while(|at| *at <= to + step / 1e3);
    Axis { label: label.to_owned(), from, to, ticks: marks.map(|at| (at, format!("{at}{unit}"))).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_marked_from_end_to_end() {
        let ticks = axis("used", 80.0, 110.0, 10.0, " %").ticks;
        let labels: Vec<_> = ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["80 %", "90 %", "100 %", "110 %"]);
    }
}
