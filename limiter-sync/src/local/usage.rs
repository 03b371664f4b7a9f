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

use tollgate_core::Time;
use tollgate_core::store::Windows;

use super::share::{TokenRate, span};

/// The length of the windows of a usage record.
pub(crate) const WINDOW: Duration = Duration::from_secs(120);

/// What a node knew of a key when the central store last answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastAnswer {
    pub(super) at: Time,
    /// The central balance in tokens.
    pub(super) balance: f64,
    /// The usage record; unused if there was none.
    pub(super) usage: Windows,
}

impl LastAnswer {
    /// Returns what was refilled since and then lost because the bucket was full: as much can pay for grants that the
    /// bucket does not contain. `usage` is the record now, which contains late deltas of `amount`, and `balance` the
    /// central balance, which does not.
    pub(super) fn overflow(
        &self,
        amount: f64,
        balance: f64,
        usage: Windows,
        rate: TokenRate,
        now: Time,
    ) -> f64 {
        let most = self.balance + span(self.at, now) / rate.token;
        let kept = most - (granted(self.usage, usage) - amount);
        // However little was granted, the bucket overflows by no more than it had received.
        (kept - balance).min(most - rate.capacity).max(0.0)
    }
}

/// Returns what was granted between two readings of a usage record: at least that, if more than a window lies between
/// them.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn granted(before: Windows, now: Windows) -> f64 {
    let next = before.start.nanos().saturating_add(now.period);
    let granted = if before.start == now.start {
        (now.current.saturating_sub(before.current)) + now.previous.saturating_sub(before.previous)
    } else if next == now.start.nanos() {
        now.previous.saturating_sub(before.current).saturating_add(now.current)
    } else {
        now.previous.saturating_add(now.current)
    };
    granted as f64
}
