//! Sync policies: how the limits of a node are synchronized.

use std::collections::HashMap;
use std::time::Duration;

/// The shortest and the longest sync interval.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3_600);

/// How decisions are made without a call to the central store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// On a local replica of the state. Grants become deltas, which the next sync round sends to the central store; its
    /// answer contains the grants of all nodes. In between, nodes together may exceed the limit; the excess is repaid.
    Deltas,
    /// With tokens leased from the central store in advance: in total, never more than the limit passes.
    Lease,
}

/// What happens to checks when the central store has not answered for too long. Applies to [`Mode::Deltas`] only: with
/// [`Mode::Lease`], only leased tokens pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenStale {
    /// They are decided on the local replica, as before.
    Continue,
    /// They are decided against a share of the limit. A share of less than one token, or of more than the limit, denies
    /// everything.
    Share {
        /// The numerator of the share.
        part: u32,
        /// The denominator of the share.
        of: u32,
    },
    /// They are denied.
    Deny,
}

impl WhenStale {
    /// Returns the share of one node among `nodes`.
    pub const fn share_of(nodes: u32) -> Self {
        Self::Share { part: 1, of: if nodes == 0 { 1 } else { nodes } }
    }
}

/// What happens to the first check of a key that has no local replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColdKeys {
    /// It is decided as if the key were unused; the next sync round corrects the replica.
    Optimistic,
    /// The state is fetched from the central store, once. If that fails, the check is decided as if the key were
    /// unused, or fails with the error if the policy is [`WhenStale::Deny`].
    FetchFirst,
}

/// How a limit is synchronized.
///
/// ```
/// use std::time::Duration;
/// use tollgate_limiter_sync::{ColdKeys, Synced, WhenStale};
/// # let redis = tollgate_store_memory::MemoryStore::new();
///
/// let synced = Synced::builder(redis)
///     .interval(Duration::from_millis(100))
///     .policy("login", |policy| {
///         policy
///             .interval(Duration::from_millis(20))
///             .when_stale(WhenStale::Deny)
///             .cold_keys(ColdKeys::FetchFirst)
///     })
///     .build();
/// # let _ = synced;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a policy does nothing until it is returned to a `SyncedBuilder`"]
pub struct SyncPolicy {
    pub(super) interval: Duration,
    pub(super) mode: Mode,
    pub(super) when_stale: WhenStale,
    pub(super) stale_after: Option<Duration>,
    pub(super) cold_keys: ColdKeys,
    pub(super) max_lease_share: u32,
}

impl Default for SyncPolicy {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            mode: Mode::Deltas,
            when_stale: WhenStale::Continue,
            stale_after: None,
            cold_keys: ColdKeys::Optimistic,
            max_lease_share: 4,
        }
    }
}

impl SyncPolicy {
    /// Sets the sync interval: the time between two sync rounds. Each is up to a tenth shorter or longer, at random.
    /// Default: 100 ms. At least 10 ms, at most an hour.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval.clamp(*INTERVALS.start(), *INTERVALS.end());
        self
    }

    /// Sets how decisions are made. Default: [`Mode::Deltas`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what happens to checks when the central store has not answered for too long. Default:
    /// [`WhenStale::Continue`].
    pub fn when_stale(mut self, when_stale: WhenStale) -> Self {
        self.when_stale = when_stale;
        self
    }

    /// Sets after how long without an answer from the central store decisions count as stale. Default: ten intervals,
    /// at least 1 s.
    pub fn stale_after(mut self, stale_after: Duration) -> Self {
        self.stale_after = Some(stale_after);
        self
    }

    /// Sets what happens to the first check of a key that has no local replica. Default: [`ColdKeys::Optimistic`].
    pub fn cold_keys(mut self, cold_keys: ColdKeys) -> Self {
        self.cold_keys = cold_keys;
        self
    }

    /// Sets the largest share of the capacity that this node leases at a time: one of `parts`. Default: 4, a quarter.
    pub fn max_lease_share(mut self, parts: u32) -> Self {
        self.max_lease_share = parts.max(1);
        self
    }

    /// Returns after how long without an answer decisions are stale.
    pub(super) fn staleness_bound(&self) -> Duration {
        self.stale_after.unwrap_or_else(|| (self.interval * 10).max(Duration::from_secs(1)))
    }
}

/// The default policy, and those of single limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    pub(super) default: SyncPolicy,
    pub(super) by_limit: HashMap<Box<str>, SyncPolicy>,
}

impl Policies {
    /// Returns the policy of the limit of this name.
    pub(super) fn of(&self, limit: &str) -> &SyncPolicy {
        self.by_limit.get(limit).unwrap_or(&self.default)
    }

    /// Returns the distinct intervals of all policies, in order.
    pub(super) fn intervals(&self) -> Vec<Duration> {
        let mut intervals = vec![self.default.interval];
        intervals.extend(self.by_limit.values().map(|policy| policy.interval));
        intervals.sort_unstable();
        intervals.dedup();
        intervals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_clamped() {
        assert_eq!(SyncPolicy::default().interval(Duration::ZERO).interval, Duration::from_millis(10));
        assert_eq!(SyncPolicy::default().interval(Duration::MAX).interval, Duration::from_secs(3_600));
    }
}
