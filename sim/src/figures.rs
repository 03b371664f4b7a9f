//! The figures of a run: overshoot, utilization and fairness.

use std::time::Duration;

use crate::simulation::{Bucket, Checked, Record, Scenario};

/// The length of the windows in which overshoot is counted.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);
const SECOND: u64 = 1_000_000_000;

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Requests allowed beyond the limit in the worst window after the warm-up, as a fraction of what the limit allows
    /// in a window.
    pub(crate) overshoot: f64,
    /// The largest debt during the warm-up, in seconds of the limit that repay it.
    pub(crate) initial_debt: f64,
    /// The largest debt after the warm-up, in seconds of the limit that repay it.
    pub(crate) debt: f64,
    /// Requests allowed after the warm-up, as a fraction of what the limit allows.
    pub(crate) utilization: f64,
    /// Requests allowed beyond the burst and the refill since the first request, at the worst instant, in seconds of
    /// the limit.
    pub(crate) total_excess: f64,
    /// Denied requests as a fraction of all requests.
    pub(crate) denied: f64,
    /// The allowed fraction of requests on the worst and on the best node, each divided by that of all nodes.
    pub(crate) fairness: (f64, f64),
    /// The standard deviation of the requests allowed per second after the warm-up, as a fraction of the limit.
    pub(crate) deviation: f64,
    /// Calls to the central store per second and node.
    pub(crate) calls: f64,
}

impl Figures {
    pub(crate) fn of(scenario: &Scenario, record: &Record) -> Self {
        let bucket = scenario.bucket;
        let (warm, end) = (nanos(scenario.warm_up()), nanos(scenario.span));
        let times = record.times();
        let after_warm_up = between(&times, warm, end);
        let debts = debts(&times, bucket);
        let largest = |from, until| {
            let within = debts.iter().filter(|(at, _)| (from..until).contains(at));
            within.map(|(_, debt)| debt / f64::from(bucket.per_second)).fold(0.0, f64::max)
        };
        Self {
            overshoot: overshoot(after_warm_up, bucket.per_second),
            initial_debt: largest(0, warm),
            debt: largest(warm, end),
            utilization: utilization(&times, bucket.per_second, warm, end),
            total_excess: float(total_excess(&times, bucket)) / f64::from(bucket.per_second),
            denied: 1.0 - float(times.len()) / float(record.requests.len().max(1)),
            fairness: fairness(&record.requests),
            deviation: deviation(&times, bucket.per_second, warm, end),
            calls: record.calls_per_node(scenario),
        }
    }

    /// Returns the worse value of both in every field.
    pub(crate) fn worst(self, other: Self) -> Self {
        Self {
            overshoot: self.overshoot.max(other.overshoot),
            initial_debt: self.initial_debt.max(other.initial_debt),
            debt: self.debt.max(other.debt),
            utilization: self.utilization.min(other.utilization),
            total_excess: self.total_excess.max(other.total_excess),
            denied: self.denied.max(other.denied),
            fairness: (self.fairness.0.min(other.fairness.0), self.fairness.1.max(other.fairness.1)),
            deviation: self.deviation.max(other.deviation),
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

/// Returns the largest number of events within any `span` nanoseconds.
fn max_within(times: &[u64], span: u64) -> usize {
    let (mut first, mut max) = (0, 0);
    for (last, at) in times.iter().enumerate() {
        while at - times[first] >= span {
            first += 1;
        }
        max = max.max(last + 1 - first);
    }
    max
}

/// Returns what is allowed beyond the limit in the worst window, as a fraction of what the limit allows in one.
fn overshoot(times: &[u64], per_second: u32) -> f64 {
    let allowed = f64::from(per_second) * WINDOW.as_secs_f64();
    (float(max_within(times, nanos(WINDOW))) / allowed - 1.0).max(0.0)
}

/// Returns what is allowed between two instants, as a fraction of what the limit allows.
pub(crate) fn utilization(times: &[u64], per_second: u32, from: u64, until: u64) -> f64 {
    let allowed = f64::from(per_second) * seconds(until - from);
    float(between(times, from, until).len()) / allowed
}

/// Returns the debt of a token bucket that takes a token for every allowed request, in tokens, at each request.
pub(crate) fn debts(times: &[u64], bucket: Bucket) -> Vec<(u64, f64)> {
    let (mut level, mut last) = (f64::from(bucket.burst), 0);
    let debt = |at: &u64| {
        level =
            (level + f64::from(bucket.per_second) * seconds(at - last)).min(f64::from(bucket.burst)) - 1.0;
        last = *at;
        (*at, (-level).max(0.0))
    };
    times.iter().map(debt).collect()
}

/// Returns what is allowed beyond the burst and the refill since the first request, in whole tokens at the worst
/// instant. In integers, so that zero is exact.
fn total_excess(times: &[u64], bucket: Bucket) -> usize {
    let start = times.first().copied().unwrap_or_default();
    let allowed = |at: u64| u64::from(bucket.burst) + u64::from(bucket.per_second) * (at - start) / SECOND;
    let excess = |(at, count): (&u64, usize)| {
        count.saturating_sub(usize::try_from(allowed(*at)).unwrap_or(usize::MAX))
    };
    times.iter().zip(1..).map(excess).max().unwrap_or_default()
}

/// Returns the allowed fraction of requests on the worst and on the best node, each divided by that of all nodes.
fn fairness(requests: &[Checked]) -> (f64, f64) {
    let nodes = requests.iter().map(|request| request.node + 1).max().unwrap_or_default();
    let mut by_node = vec![(0.0, 0.0); nodes];
    for request in requests {
        let (allowed, all) = &mut by_node[request.node];
        *all += 1.0;
        *allowed += f64::from(u8::from(request.allowed));
    }
    let all = float(requests.iter().filter(|request| request.allowed).count()) / float(requests.len().max(1));
    let nodes = by_node.iter().filter(|(_, requests)| *requests > 0.0);
    let fractions = nodes.map(|(allowed, requests)| allowed / requests / all);
    fractions.fold((f64::MAX, 0.0), |(worst, best), fraction| (worst.min(fraction), best.max(fraction)))
}

/// Returns how many events are in each slot of time.
pub(crate) fn per_slot(times: &[u64], slot: u64, span: u64) -> Vec<usize> {
    (0..span / slot).map(|number| between(times, number * slot, (number + 1) * slot).len()).collect()
}

fn deviation(times: &[u64], per_second: u32, from: u64, until: u64) -> f64 {
    let seconds: Vec<f64> = per_slot(times, SECOND, until)
        .into_iter()
        .skip(usize::try_from(from.div_ceil(SECOND)).unwrap_or_default())
        .map(|allowed| float(allowed) / f64::from(per_second))
        .collect();
    let count = float(seconds.len().max(1));
    let mean = seconds.iter().sum::<f64>() / count;
    (seconds.iter().map(|second| (second - mean).powi(2)).sum::<f64>() / count).sqrt()
}

/// Returns the events from one instant to another, the latter excluded.
fn between(times: &[u64], from: u64, until: u64) -> &[u64] {
    let start = times.partition_point(|at| *at < from);
    let end = times.partition_point(|at| *at < until);
    &times[start..end]
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("a simulation lasts seconds")
}

#[expect(clippy::cast_precision_loss, reason = "a figure, not a clock")]
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `per_second` events per second at equal distances.
    fn steady(per_second: u64, from: u64, until: u64) -> Vec<u64> {
        (from * per_second..until * per_second).map(|number| number * SECOND / per_second).collect()
    }

    #[test]
    fn a_window_excludes_its_end() {
        assert_eq!(max_within(&[0, 4, 9, 10], 10), 3);
        assert_eq!(max_within(&[0, 4, 9, 9], 10), 4);
        assert_eq!(max_within(&[], 10), 0);
    }

    #[test]
    fn the_worst_window_counts_wherever_it_starts() {
        assert!(overshoot(&steady(100, 0, 30), 100) < 1e-9);
        // One second at twice the rate, between seconds at half the rate.
        let mut times = steady(50, 0, 15);
        times.extend(steady(200, 15, 16));
        times.extend(steady(50, 16, 40));
        assert!(overshoot(&times, 100) < 1e-9, "650 of a thousand");
        assert!((overshoot(&times, 50) - 0.3).abs() < 1e-9);
    }

    #[test]
    fn debt_grows_with_excess_and_is_repaid_by_the_refill() {
        let bucket = Bucket::new(10, 5);
        let mut times = vec![0; 20];
        times.push(SECOND);
        let debts = debts(&times, bucket);
        assert!((debts[19].1 - 15.0).abs() < 1e-9);
        assert!((debts[20].1 - 6.0).abs() < 1e-9);
        assert_eq!(total_excess(&times, bucket), 15);
        assert_eq!(total_excess(&times[..5], bucket), 0);
    }

    #[test]
    fn idle_time_saves_no_more_than_the_burst() {
        let mut times = vec![0];
        times.extend([100 * SECOND; 8]);
        let debts = debts(&times, Bucket::new(10, 5));
        assert!((debts[8].1 - 3.0).abs() < 1e-9);
        assert_eq!(total_excess(&times, Bucket::new(10, 5)), 0, "the refill of the idle time covers them");
    }

    #[test]
    fn fairness_compares_nodes_by_their_requests() {
        let request = |(node, allowed)| Checked { at: 0, node, allowed };
        let of_node = |node, allowed| (0..4).map(move |number| (node, number < allowed));
        let requests: Vec<_> = of_node(0, 3).chain(of_node(1, 1)).map(request).collect();
        let (worst, best) = fairness(&requests);
        assert!((worst - 0.5).abs() < 1e-9 && (best - 1.5).abs() < 1e-9);
    }

    #[test]
    fn steady_traffic_has_no_deviation() {
        let times = steady(100, 0, 10);
        assert!(deviation(&times, 100, 2 * SECOND, 10 * SECOND) < 1e-9);
        assert!((utilization(&times, 200, 2 * SECOND, 10 * SECOND) - 0.5).abs() < 1e-9);
    }
}
