//! What nodes ask for, so that their shares follow demand and not what was granted before.
//!
//! A key whose tokens do not suffice has a *demand record* at the central store: a sliding window of a few sync
//! intervals and a few tokens, into which every node debits once per window what it asks for. A node that asks for more
//! than its fair part is *hungry* and adds [`HUNGRY`]; another one adds its demand, in units of which the limit's rate
//! has [`RATE`]. The sum of a window says how many nodes are hungry, and what the others use, and with that the *fair
//! part* of each hungry node: all nodes up to it get what they ask for, and the rest is divided equally (max-min
//! fairness).

use tollgate_core::Time;
use tollgate_core::store::Windows;

use super::share::{TokenRate, nanos, narrow, span};

/// What a hungry node adds to the record: more than a hundred others, each with the demand of a whole limit.
const HUNGRY: u64 = 1_000_000;
/// The demand of a whole limit, in the record.
const RATE: f64 = 10_000.0;
/// The smallest fair part: a record may be wrong for a moment.
const MIN_FAIR: f64 = 1.0 / 4_096.0;
/// How much smaller the fair part becomes at most from one window to the next. While a node that was satisfied becomes
/// hungry, it is counted as both.
const LARGEST_STEP: f64 = 0.5;
/// A node that asks for nearly the fair part is hungry if it is denied anything.
const NEARLY: f64 = 0.95;
/// For how many windows a fair part is valid.
const VALID: u64 = 2;

/// What a node adds to a key's demand record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DemandReport {
    /// The debit.
    pub(crate) amount: u64,
    /// When: in the window that it belongs to.
    pub(crate) at: Time,
    /// The node also reported in the window before.
    continued: bool,
}

/// The demand of a node, and what it knows of all nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// What callers asked for since the last report, granted or not.
    asked: f64,
    since: Time,
    /// The average before that, as a part of the limit.
    average: f64,
    /// When a caller was last denied.
    denied_at: Time,
    /// The number of the window of the last report.
    window: u64,
    /// The part of the limit that a hungry node gets; zero if it is not known.
    fair: f32,
    fair_until: Time,
}

impl Demand {
    pub(super) fn new(now: Time) -> Self {
        Self {
            asked: 0.0,
            since: now,
            average: 0.0,
            denied_at: Time::EPOCH,
            window: 0,
            fair: 0.0,
            fair_until: now,
        }
    }

    /// Counts what a caller asked for.
    #[inline]
    pub(super) fn count(&mut self, cost: f64) {
        self.asked += cost;
    }

    /// Counts what a caller asked for and did not get.
    #[inline]
    pub(super) fn deny(&mut self, cost: f64, now: Time) {
        self.asked += cost;
        self.denied_at = now;
    }

    /// Returns whether a caller was denied lately: within a window, or within the time in which the fair part yields two
    /// tokens. A node with a small part has few requests, and is not denied in every window.
    #[inline]
    pub(super) fn is_unmet(&self, rate: TokenRate, now: Time, window: u64) -> bool {
        let since = now.nanos().saturating_sub(self.denied_at.nanos());
        since < window || span(self.denied_at, now) < 2.0 * self.own_token(rate, now)
    }

    /// Returns whether there is a report to make because callers were denied.
    #[inline]
    pub(super) fn is_due(&self, rate: TokenRate, now: Time, window: u64) -> bool {
        self.is_unmet(rate, now, window) && self.window != number(now, window)
    }

    /// Returns the part of the limit that a hungry node gets, if nodes are hungry.
    #[inline]
    pub(super) fn fair(&self, now: Time) -> Option<f64> {
        (self.fair > 0.0 && now < self.fair_until).then(|| self.fair.into())
    }

    /// Returns how long the fair part takes for a token, in nanoseconds.
    fn own_token(&self, rate: TokenRate, now: Time) -> f64 {
        self.fair(now).map_or(0.0, |fair| rate.token / fair)
    }

    /// Returns the report of this window, if there is one to make: tokens are `scarce`, a caller was denied, or other
    /// nodes are hungry. `window` is the length of a window, and `random` a random number below 1.
    pub(super) fn report(
        &mut self,
        scarce: bool,
        rate: TokenRate,
        now: Time,
        window: u64,
        random: f64,
    ) -> Option<DemandReport> {
        let (number, fair) = (number(now, window), self.fair(now));
        let unmet = self.is_unmet(rate, now, window);
        if number == self.window || !(scarce || unmet || fair.is_some()) {
            return None;
        }
        let elapsed = span(self.since, now).max(1.0);
        // Over so long that some requests come in it.
        let over = (2.0 * nanos(window)).max(4.0 * self.own_token(rate, now));
        let latest = (elapsed / over).min(1.0);
        self.average += (self.asked * rate.token / elapsed - self.average) * latest;
        let hungry = fair.map_or(unmet, |fair| self.average > fair * NEARLY);
        let amount = if hungry { HUNGRY } else { rounded(self.average.min(1.0) * RATE, random) };
        let continued = self.window + 1 == number;
        (self.asked, self.since, self.window) = (0.0, now, number);
        Some(DemandReport { amount, at: now, continued })
    }

    /// Learns from the record after a report. `used` is this node's part of what all nodes used.
    pub(super) fn learn(&mut self, report: DemandReport, record: Windows, used: f64, now: Time, window: u64) {
        let of = |sum: u64| {
            let (hungry, used) = (sum / HUNGRY, sum % HUNGRY);
            (hungry > 0).then(|| (1.0 - whole(used) / RATE) / whole(hungry))
        };
        // The window before is complete, if this node is in it. In this one, more nodes may have reported already.
        let before = record.previous + if report.continued { 0 } else { report.amount };
        let fair = match (of(before).filter(|_| record.previous > 0), of(record.current)) {
            (Some(before), Some(current)) => before.min(current),
            (Some(before), None) => before,
            // The first window with hungry nodes: more may follow.
            (None, Some(current)) => current.min(used),
            (None, None) => {
                self.fair = 0.0;
                return;
            }
        };
        let least = self.fair(now).unwrap_or(used) * LARGEST_STEP;
        self.fair = narrow(fair.max(least).clamp(MIN_FAIR, 1.0));
        self.fair_until = Time::from_nanos(now.nanos().saturating_add(window * VALID));
    }
}

/// Returns the number of the window that contains an instant.
fn number(at: Time, window: u64) -> u64 {
    at.nanos() / window.max(1)
}

/// Rounds up or down at random, so that the average is exact.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and saturating")]
fn rounded(number: f64, random: f64) -> u64 {
    (number + random) as u64
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn whole(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 250_000_000;
    /// 100 per second.
    const LIMIT: TokenRate = TokenRate { token: 10_000_000.0, capacity: 100.0 };

    /// The start of a window.
    fn at(window: u64) -> Time {
        Time::from_nanos(window * WINDOW)
    }

    fn record(previous: u64, current: u64) -> Windows {
        Windows { sliding: true, start: at(100), period: WINDOW, previous, current }
    }

    /// Returns a node that asked for `requests` in each of ten windows, and its last report.
    fn asking(requests: u32, denied: bool) -> (Demand, DemandReport) {
        let mut demand = Demand::new(at(90));
        let mut last = None;
        for window in 91..=100 {
            for _ in 0..requests {
                if denied { demand.deny(1.0, at(window)) } else { demand.count(1.0) }
            }
            last = demand.report(true, LIMIT, at(window), WINDOW, 0.5);
            assert_eq!(demand.report(true, LIMIT, at(window), WINDOW, 0.5), None, "once per window");
        }
        (demand, last.expect("tokens are scarce"))
    }

    #[test]
    fn a_satisfied_node_reports_what_it_asks_for() {
        // Five in a quarter of a second: a fifth of the limit.
        let (_, report) = asking(5, false);
        assert!((1_990..=2_000).contains(&report.amount), "{report:?}");
        assert_eq!(asking(5, true).1.amount, HUNGRY, "a node that was denied something is hungry");
    }

    #[test]
    fn bursts_are_not_mistaken_for_hunger() {
        // A hundred nodes, each of which got far more than the limit yields.
        let (mut demand, report) = asking(3_000, false);
        demand.learn(report, record(99 * report.amount, 99 * report.amount), 0.01, at(100), WINDOW);
        assert_eq!(demand.fair(at(100)), None);
    }

    #[test]
    fn nothing_is_reported_while_there_is_plenty() {
        let mut demand = Demand::new(at(90));
        demand.count(20.0);
        assert_eq!(demand.report(false, LIMIT, at(91), WINDOW, 0.5), None);
        demand.deny(1.0, at(91));
        assert!(demand.is_due(LIMIT, at(91), WINDOW));
        assert!(demand.report(false, LIMIT, at(91), WINDOW, 0.5).is_some());
    }

    #[test]
    fn hungry_nodes_divide_what_the_others_leave() {
        let (mut demand, report) = asking(50, true);
        assert_eq!(demand.fair(at(100)), None);
        // Two others are hungry, too, and satisfied ones use a tenth.
        let sum = 3 * HUNGRY + 1_000;
        demand.learn(report, record(sum, sum), 0.5, at(100), WINDOW);
        let fair = demand.fair(at(100)).expect("nodes are hungry");
        assert!((fair - 0.3).abs() < 1e-6, "{fair}");
        assert_eq!(demand.fair(at(100 + VALID)), None, "not known any longer");
    }

    #[test]
    fn in_the_first_window_with_hungry_nodes_they_keep_to_what_they_had() {
        let (mut demand, report) = asking(50, true);
        demand.learn(report, record(5_000, HUNGRY), 0.2, at(100), WINDOW);
        let fair = demand.fair(at(100)).expect("this node is hungry");
        assert!((fair - 0.2).abs() < 1e-6, "{fair}: others may follow");
    }

    #[test]
    fn a_node_that_asks_for_more_than_the_fair_part_is_hungry_before_it_is_denied_anything() {
        let (mut demand, report) = asking(5, false);
        demand.learn(report, record(8 * HUNGRY, 8 * HUNGRY), 0.2, at(100), WINDOW);
        (0..5).for_each(|_| demand.count(1.0));
        let report = demand.report(true, LIMIT, at(101), WINDOW, 0.5).expect("tokens are scarce");
        assert_eq!(report.amount, HUNGRY, "a fifth of the limit, and an eighth is fair");
    }

    #[test]
    fn nobody_is_hungry() {
        let (mut demand, report) = asking(5, false);
        demand.learn(report, record(8_000, 2_000), 0.5, at(100), WINDOW);
        assert_eq!(demand.fair(at(100)), None);
    }
}
