//! What a fallback store granted of one key, by time.

use std::time::Duration;

use tollgate_core::{IdempotencyKey, Limit, Time};

/// Deltas of one key within this fraction of the limit's reset time are merged.
const RESOLUTION: u32 = 16;
/// The most deltas of one key: two reset times of debits, and as many refunds.
const MAX_DELTAS: usize = 4 * RESOLUTION as usize;

/// What was granted within a short time. A negative sum is a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delta {
    /// When the first part of it was granted.
    since: Time,
    /// The instant that the store applies it at.
    pub(super) at: Time,
    pub(super) sum: i64,
    /// Set by the first attempt to send it. Nothing is merged into it from then on.
    pub(super) idempotency_key: Option<IdempotencyKey>,
}

impl Delta {
    pub(super) fn new(sum: i64, at: Time) -> Self {
        Self { since: at, at, sum, idempotency_key: None }
    }

    /// Merges two deltas of about the same time, if the sum is equivalent to both.
    ///
    /// Debits are applied at the later instant, so that they count for long enough, and refunds at the earlier one, so
    /// that they do not count in a later window. A debit and a refund therefore merge only into a debit at its
    /// instant.
    fn merge(self, new: Self) -> Option<Self> {
        let sum = self.sum.checked_add(new.sum)?;
        let at = match (self.sum >= 0, new.sum >= 0) {
            (true, true) => self.at.max(new.at),
            (true, false) if sum >= 0 => self.at,
            (false, false) => self.at.min(new.at),
            (true, false) | (false, true) => return None,
        };
        self.idempotency_key.is_none().then_some(Self { at, sum, ..self })
    }
}

/// The deltas of one key.
#[derive(Debug)]
pub(super) struct KeyDeltas {
    pub(super) limit: Limit,
    /// How long the limit takes until an exhausted state equals a fresh one.
    pub(super) reset_time: Duration,
    pub(super) deltas: Vec<Delta>,
}

impl KeyDeltas {
    pub(super) fn new(limit: Limit, reset_time: Duration) -> Self {
        Self { limit, reset_time, deltas: Vec::new() }
    }

    /// Returns whether no delta has an effect any more.
    pub(super) fn is_expired(&self, now: Time) -> bool {
        self.deltas.iter().all(|delta| is_expired(delta, self.reset_time, now))
    }

    /// Adds a delta. Returns how much is lost by that, if there are too many.
    pub(super) fn add(&mut self, new: Delta, now: Time) -> u64 {
        let resolution = self.reset_time / RESOLUTION;
        let is_near = |delta: &Delta| new.at >= delta.since && new.at.since(delta.since) <= resolution;
        let merged = |(index, delta): (usize, &Delta)| {
            let mergeable = new.idempotency_key.is_none() && is_near(delta);
            mergeable.then(|| delta.merge(new)).flatten().map(|sum| (index, sum))
        };
        // The newest first: nearly all merge with it.
        if let Some((index, sum)) = self.deltas.iter().enumerate().rev().find_map(merged) {
            self.deltas[index] = sum;
            return 0;
        }
        let reset_time = self.reset_time;
        self.deltas.retain(|delta| !is_expired(delta, reset_time, now));
        let lost = if self.deltas.len() >= MAX_DELTAS { self.deltas.remove(0).sum } else { 0 };
        self.deltas.push(new);
        lost.unsigned_abs()
    }
}

/// Sliding windows look back for two periods.
fn is_expired(delta: &Delta, reset_time: Duration, now: Time) -> bool {
    now.since(delta.at) > 2 * reset_time
}
