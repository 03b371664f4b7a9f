//! What all nodes granted of a key, so that grants which are reported late are compared with what was refilled
//! meanwhile.
//!
//! A bucket forgets what was refilled beyond its capacity. After an outage, the first node that is back finds a full
//! bucket, and as soon as it has booked something, the deltas of the others would count in full although they were
//! granted while the bucket overflowed. So the central store also counts all deltas of a contended bucket, in a sliding
//! window that is longer than most outages (the *usage record*). A node that is back compares: what was there when the
//! central store last answered, plus what was refilled since, less what all nodes granted since. It debits what the
//! bucket has beyond that, and nothing else of what it granted.

use std::time::Duration;

use tollgate_core::store::Windows;
use tollgate_core::{Limit, Time};

use super::refill::Refill;
use super::share::{nanos, span};
use crate::config::LimitConfig;

/// The length of the windows of a usage record.
pub(crate) const WINDOW: Duration = Duration::from_secs(600);
/// What is refilled in a window, in units of the record, at most: a window counts no more than a billion.
const MOST: u64 = 100_000_000;

/// Returns the unit in which a usage record counts, in tokens.
pub(crate) fn unit(limit: &Limit) -> u64 {
    let refilled = u128::from(limit.count()) * WINDOW.as_nanos() / limit.period().as_nanos().max(1);
    u64::try_from(refilled.div_ceil(MOST.into())).unwrap_or(u64::MAX).max(1)
}

/// A usage record as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) record: Windows,
    /// The unit of the record in tokens.
    pub(crate) unit: u64,
}

impl Usage {
    /// Returns what was granted since an earlier reading: at least that, if more than a window lies between them.
    fn since(self, before: Windows) -> f64 {
        let now = self.record;
        let next = before.start.nanos().saturating_add(now.period);
        let granted = if before.start == now.start {
            now.current.saturating_sub(before.current)
        } else if next == now.start.nanos() {
            now.previous.saturating_sub(before.current).saturating_add(now.current)
        } else {
            now.previous.saturating_add(now.current)
        };
        nanos(granted.saturating_mul(self.unit))
    }
}

/// Grants that are reported late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LateGrants {
    /// The sum, in tokens.
    pub(crate) amount: u64,
    /// When the first of them was made.
    pub(crate) since: Time,
}

/// What a node knew of a key when the central store last answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastAnswer {
    pub(super) at: Time,
    /// The central balance in tokens.
    pub(super) balance: f64,
    pub(super) usage: Windows,
    /// What other nodes granted per nanosecond.
    pub(super) others: f64,
}

impl LastAnswer {
    /// Returns how much of late grants has to be repaid: what the central `balance`, which does not contain them, has
    /// beyond what is left now of a bucket that contains all grants. `usage` contains the late grants.
    pub(super) fn owed(
        &self,
        late: LateGrants,
        balance: f64,
        usage: Usage,
        config: &LimitConfig,
        now: Time,
    ) -> f64 {
        let (rate, granted) = (config.rate, usage.since(self.usage));
        let refilled = |from: Time, to: Time| match config.refill {
            // Whole periods only: it is not known when one started.
            Refill::Interval { period } => {
                (span(from, to) / nanos(period)).floor() * nanos(period) / rate.token
            }
            Refill::Continuous { .. } | Refill::Windows { .. } => span(from, to) / rate.token,
        };
        // Before the first of them, the other nodes went on as before. What overflowed then pays for none of them.
        let since = late.since.max(self.at).min(now);
        let before = (span(self.at, since) * self.others).min(granted - nanos(late.amount)).max(0.0);
        let then = (self.balance + refilled(self.at, since) - before).min(rate.capacity);
        let most = then + refilled(since, now);
        // However little was granted, only what a full bucket receives overflows, and pays.
        let unpaid = nanos(late.amount) - (most - rate.capacity).max(0.0);
        (balance - (most - (granted - before))).max(unpaid).clamp(0.0, nanos(late.amount))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::{LimitConfigs, Policies};

    const SECOND: u64 = 1_000_000_000;

    /// 100 per second, at most 50 of them at once.
    fn limit() -> Limit {
        Limit::per_second(100).burst(50).build("api").expect("valid")
    }

    fn at(second: u64) -> Time {
        Time::from_nanos(second * SECOND)
    }

    fn window(start: u64, previous: u64, current: u64) -> Windows {
        let period = u64::try_from(WINDOW.as_nanos()).expect("ten minutes");
        Windows { sliding: true, start: at(start), period, previous, current }
    }

    /// What was known at 100 s: a balance, and a record of 7,000. Other nodes granted 60 per second.
    fn last(balance: f64) -> LastAnswer {
        LastAnswer { at: at(100), balance, usage: window(0, 0, 7_000), others: 60.0 / nanos(SECOND) }
    }

    fn config(limit: &Limit) -> Arc<LimitConfig> {
        LimitConfigs::new(Policies::default()).of(limit).expect("a bucket")
    }

    #[expect(clippy::cast_possible_truncation, reason = "small")]
    fn rounded(tokens: f64) -> i64 {
        tokens.round() as i64
    }

    /// What is owed at 110 s of grants since `since`, if the record is `granted` more by then.
    fn owed(last: LastAnswer, late: u64, since: u64, balance: f64, granted: u64) -> i64 {
        let late = LateGrants { amount: late, since: at(since) };
        let usage = Usage { record: window(0, 0, 7_000 + granted), unit: 1 };
        rounded(last.owed(late, balance, usage, &config(&limit()), at(110)))
    }

    #[test]
    fn what_overflowed_meanwhile_pays_for_late_grants() {
        // 1,000 were refilled in ten seconds, and two nodes granted 1,100. The first to return is paid for.
        assert_eq!(owed(last(0.0), 500, 100, 50.0, 500), 0);
        // The second makes up the difference: 100 of debt instead of a full bucket.
        assert_eq!(owed(last(0.0), 600, 100, 50.0, 1_100), 150);
        // The more was left before, the less is owed.
        assert_eq!(owed(last(40.0), 600, 100, 50.0, 1_100), 110);
        // Never more than was late.
        assert_eq!(owed(last(0.0), 600, 100, 50.0, 5_000), 600);
    }

    #[test]
    fn what_overflowed_before_the_first_late_grant_pays_for_none() {
        // Nine idle seconds, then 600 within one.
        let idle = LastAnswer { others: 0.0, ..last(50.0) };
        assert_eq!(owed(idle, 600, 109, 50.0, 600), 600 - 100);
        // The others granted 540 of the 600 that were reported before this node came.
        assert_eq!(owed(last(50.0), 60, 109, 50.0, 600), 0);
    }

    #[test]
    fn only_a_full_bucket_overflows() {
        // 10,000 of a million were left, so all that was refilled is still there.
        let limit = Limit::per_day(1_000_000).build("slow").expect("valid");
        let late = LateGrants { amount: 100, since: at(100) };
        let usage = Usage { record: window(0, 0, 7_000), unit: 1 };
        // Even if the record does not contain them.
        let owed = last(10_000.0).owed(late, 10_000.0, usage, &config(&limit), at(110));
        assert_eq!(rounded(owed), 100);
    }

    #[test]
    fn usage_between_two_readings_spans_windows() {
        let since = |before, now| rounded(Usage { record: now, unit: 10 }.since(before));
        assert_eq!(since(window(0, 5, 20), window(0, 5, 50)), 300);
        assert_eq!(
            since(window(0, 5, 20), window(600, 70, 30)),
            800,
            "50 of the window before, 30 of this one"
        );
        assert_eq!(since(window(0, 5, 20), window(6_000, 70, 30)), 1_000, "at least");
    }

    #[test]
    fn a_record_counts_large_limits_in_larger_units() {
        let per_second = |count| Limit::per_second(count).burst(1).build("api").expect("valid");
        assert_eq!(unit(&per_second(1)), 1);
        assert_eq!(unit(&per_second(100_000)), 1);
        assert_eq!(unit(&per_second(1_000_000)), 6);
        let window = u128::from(unit(&per_second(Limit::MAX_COUNT))) * u128::from(MOST);
        assert!(window >= 600 * u128::from(Limit::MAX_COUNT), "a window of the largest limit");
    }
}
