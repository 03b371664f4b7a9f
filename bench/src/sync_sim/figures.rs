//! What a record says: how much passed beyond the limit, how much of it was used, and by whom.

use std::time::Duration;

use super::simulation::{Pass, Rate, Record, Scenario};

/// The windows in which overshoot is counted.
pub const WINDOW: Duration = Duration::from_secs(10);
const SECOND: u64 = 1_000_000_000;

/// What a run comes to.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// What passed beyond the limit in the worst window, once settled; a part of what the limit allows in a window.
    pub over: f64,
    /// The deepest debt before that, in seconds that it takes to repay it.
    pub first_burst: f64,
    /// The deepest debt from then on, likewise.
    pub debt: f64,
    /// What passed, once settled; a part of what the limit allows.
    pub used: f64,
    /// What passed beyond the burst and all that has come in since the beginning, at the worst instant, in seconds of
    /// the limit.
    pub beyond: f64,
    /// What was turned away of all that was asked for.
    pub denied: f64,
    /// What passed of what was asked for on the node that fared worst, and on the one that fared best; each by what
    /// passed of everything.
    pub fared: (f64, f64),
    /// How far a second is off the others once settled, as a part of what the limit allows: the standard deviation.
    pub swing: f64,
    /// How often a node asked the centre in a second.
    pub calls: f64,
}

impl Figures {
    pub fn of(scenario: &Scenario, record: &Record) -> Self {
        let rate = scenario.rate;
        let (settled, end) = (nanos(scenario.settled()), nanos(scenario.span));
        let times: Vec<u64> = record.passed.iter().map(|pass| pass.at).collect();
        let late = between(&times, settled, end);
        let asked: u32 = record.asked.iter().sum();
        let debts = debts(&times, rate);
        let deepest = |from, until| {
            let within = debts.iter().filter(|(at, _)| (from..until).contains(at));
            within.map(|(_, debt)| debt / f64::from(rate.per_second)).fold(0.0, f64::max)
        };
        Self {
            over: excess(late, rate.per_second),
            first_burst: deepest(0, settled),
            debt: deepest(settled, end),
            used: used(&times, rate.per_second, settled, end),
            beyond: float(beyond(&times, rate)) / f64::from(rate.per_second),
            denied: 1.0 - float(times.len()) / f64::from(asked.max(1)),
            fared: fared(&record.passed, &record.asked),
            swing: swing(&times, rate.per_second, settled, end),
            calls: record.calls_per_node(scenario),
        }
    }

    /// The worse of both in everything.
    pub fn worst(self, other: Self) -> Self {
        Self {
            over: self.over.max(other.over),
            first_burst: self.first_burst.max(other.first_burst),
            debt: self.debt.max(other.debt),
            used: self.used.min(other.used),
            beyond: self.beyond.max(other.beyond),
            denied: self.denied.max(other.denied),
            fared: (self.fared.0.min(other.fared.0), self.fared.1.max(other.fared.1)),
            swing: self.swing.max(other.swing),
            calls: self.calls.max(other.calls),
        }
    }
}

impl Record {
    #[expect(clippy::cast_precision_loss, reason = "an average")]
    fn calls_per_node(&self, scenario: &Scenario) -> f64 {
        self.calls as f64 / scenario.span.as_secs_f64() / float(scenario.nodes)
    }
}

/// The most that happened within any `span` nanoseconds.
pub fn most_within(times: &[u64], span: u64) -> usize {
    let (mut first, mut most) = (0, 0);
    for (last, at) in times.iter().enumerate() {
        while at - times[first] >= span {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most
}

/// What passed beyond the limit in the worst window, as a part of what the limit allows in one.
fn excess(times: &[u64], per_second: u32) -> f64 {
    let allowed = f64::from(per_second) * WINDOW.as_secs_f64();
    (float(most_within(times, nanos(WINDOW))) / allowed - 1.0).max(0.0)
}

/// What passed from one instant to another, as a part of what the limit allows.
pub fn used(times: &[u64], per_second: u32, from: u64, until: u64) -> f64 {
    let allowed = f64::from(per_second) * seconds(until - from);
    float(between(times, from, until).len()) / allowed
}

/// How far a bucket that is told of everything at once would be below zero, in tokens, each time that somebody passes.
pub fn debts(times: &[u64], rate: Rate) -> Vec<(u64, f64)> {
    let (mut level, mut last) = (f64::from(rate.burst), 0);
    let debt = |at: &u64| {
        level = (level + f64::from(rate.per_second) * seconds(at - last)).min(f64::from(rate.burst)) - 1.0;
        last = *at;
        (*at, (-level).max(0.0))
    };
    times.iter().map(debt).collect()
}

/// What passed beyond the burst and what has come in since the first, all in all: whole tokens at the worst instant.
/// Nothing is rounded, so that nothing means nothing.
fn beyond(times: &[u64], rate: Rate) -> usize {
    let begin = times.first().copied().unwrap_or_default();
    let allowed = |at: u64| u64::from(rate.burst) + u64::from(rate.per_second) * (at - begin) / SECOND;
    let over = |(at, passed): (&u64, usize)| {
        passed.saturating_sub(usize::try_from(allowed(*at)).unwrap_or(usize::MAX))
    };
    times.iter().zip(1..).map(over).max().unwrap_or_default()
}

/// How the worst and the best node fared, each by how all did together.
fn fared(passed: &[Pass], asked: &[u32]) -> (f64, f64) {
    let mut by_node = vec![0_u32; asked.len()];
    for pass in passed {
        by_node[pass.node] += 1;
    }
    let all = float(passed.len()) / f64::from(asked.iter().sum::<u32>().max(1));
    let parts = by_node.iter().zip(asked).filter(|(_, asked)| **asked > 0);
    let parts = parts.map(|(passed, asked)| f64::from(*passed) / f64::from(*asked) / all);
    parts.fold((f64::MAX, 0.0), |(worst, best), part| (worst.min(part), best.max(part)))
}

/// How much passed in each slot of time.
pub fn per_slot(times: &[u64], slot: u64, span: u64) -> Vec<usize> {
    (0..span / slot).map(|number| between(times, number * slot, (number + 1) * slot).len()).collect()
}

fn swing(times: &[u64], per_second: u32, from: u64, until: u64) -> f64 {
    let seconds: Vec<f64> = per_slot(times, SECOND, until)
        .into_iter()
        .skip(usize::try_from(from.div_ceil(SECOND)).unwrap_or_default())
        .map(|passed| float(passed) / f64::from(per_second))
        .collect();
    let count = float(seconds.len().max(1));
    let mean = seconds.iter().sum::<f64>() / count;
    (seconds.iter().map(|second| (second - mean).powi(2)).sum::<f64>() / count).sqrt()
}

/// Those of one instant to another, without the last.
fn between(times: &[u64], from: u64, until: u64) -> &[u64] {
    let begin = times.partition_point(|at| *at < from);
    let end = times.partition_point(|at| *at < until);
    &times[begin..end]
}

pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("a simulation of seconds")
}

#[expect(clippy::cast_precision_loss, reason = "a figure, not a clock")]
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "nobody counts that far")]
pub fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many a second, at equal distances.
    fn steady(per_second: u64, from: u64, until: u64) -> Vec<u64> {
        (from * per_second..until * per_second).map(|number| number * SECOND / per_second).collect()
    }

    #[test]
    fn a_window_ends_before_the_instant_that_is_its_span_away() {
        assert_eq!(most_within(&[0, 4, 9, 10], 10), 3);
        assert_eq!(most_within(&[0, 4, 9, 9], 10), 4);
        assert_eq!(most_within(&[], 10), 0);
    }

    #[test]
    fn the_worst_window_counts_wherever_it_begins() {
        assert!(excess(&steady(100, 0, 30), 100) < 1e-9);
        // A second of twice as much, in the middle of half as much.
        let mut times = steady(50, 0, 15);
        times.extend(steady(200, 15, 16));
        times.extend(steady(50, 16, 40));
        assert!(excess(&times, 100) < 1e-9, "650 of a thousand");
        assert!((excess(&times, 50) - 0.3).abs() < 1e-9);
    }

    #[test]
    fn debt_is_what_the_bucket_lacks_and_time_repays_it() {
        let rate = Rate::new(10, 5);
        let mut times = vec![0; 20];
        times.push(SECOND);
        let debts = debts(&times, rate);
        assert!((debts[19].1 - 15.0).abs() < 1e-9);
        assert!((debts[20].1 - 6.0).abs() < 1e-9);
        assert_eq!(beyond(&times, rate), 15);
        assert_eq!(beyond(&times[..5], rate), 0);
    }

    #[test]
    fn idle_time_is_not_saved_beyond_the_burst() {
        let mut times = vec![0];
        times.extend([100 * SECOND; 8]);
        let debts = debts(&times, Rate::new(10, 5));
        assert!((debts[8].1 - 3.0).abs() < 1e-9);
        assert_eq!(beyond(&times, Rate::new(10, 5)), 0, "all in all, they were there");
    }

    #[test]
    fn nodes_are_compared_by_what_they_asked_for() {
        let passed: Vec<Pass> = [0, 0, 0, 1].map(|node| Pass { at: 0, node }).into();
        let (worst, best) = fared(&passed, &[4, 4]);
        assert!((worst - 0.5).abs() < 1e-9 && (best - 1.5).abs() < 1e-9);
    }

    #[test]
    fn steady_traffic_swings_nowhere() {
        let times = steady(100, 0, 10);
        assert!(swing(&times, 100, 2 * SECOND, 10 * SECOND) < 1e-9);
        assert!((used(&times, 200, 2 * SECOND, 10 * SECOND) - 0.5).abs() < 1e-9);
    }
}
