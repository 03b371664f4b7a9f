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

use super::share::{TokenRate, nanos, span};

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
        rate: TokenRate,
        now: Time,
    ) -> f64 {
        let granted = usage.since(self.usage);
        // Before the first of them, the other nodes went on as before. What overflowed then pays for none of them.
        let since = late.since.max(self.at).min(now);
        let before = (span(self.at, since) * self.others).min(granted - nanos(late.amount)).max(0.0);
        let then = (self.balance + span(self.at, since) / rate.token - before).min(rate.capacity);
        let most = then + span(since, now) / rate.token;
        // However little was granted, only what a full bucket receives overflows, and pays.
        let unpaid = nanos(late.amount) - (most - rate.capacity).max(0.0);
        (balance - (most - (granted - before))).max(unpaid).clamp(0.0, nanos(late.amount))
    }
}
