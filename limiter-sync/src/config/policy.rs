//! Sync policies: how the limits of a node are synchronized.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_core::ConfigError;

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
    /// They are decided against a share of the limit. A share of less than one token denies everything.
    Share {
        /// The numerator of the share. At least 1.
        part: u32,
        /// The denominator of the share. At least the numerator.
        of: u32,
    },
    /// They are denied.
    Deny,
}

impl WhenStale {
    /// Returns the share of one node among `nodes`, at least 1.
    pub const fn share_of(nodes: u32) -> Self {
        Self::Share { part: 1, of: nodes }
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
/// use tollgate::Limit;
/// use tollgate::sync::{ColdKeys, Synced, WhenStale};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let redis = tollgate::memory::MemoryStore::new();
/// let login = Limit::per_minute(5).build("login")?;
/// let synced = Synced::builder(redis)
///     .interval(Duration::from_millis(100))
///     .policy(&login, |policy| {
///         policy
///             .interval(Duration::from_millis(20))
///             .when_stale(WhenStale::Deny)
///             .cold_keys(ColdKeys::FetchFirst)
///     })
///     .build()?;
/// # let _ = synced;
/// # Ok(())
/// # }
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
    pub(super) ask_within: Duration,
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
            ask_within: Duration::from_millis(20),
        }
    }
}

impl SyncPolicy {
    /// Sets the sync interval: the time between two sync rounds. Each is up to a tenth shorter or longer, at random.
    /// Default: 100 ms. From 10 ms to an hour.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
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

    /// Sets after how long without an answer from the central store decisions count as stale: from the first call on,
    /// or from the moment when a sync round is missing, two intervals after it had something to send. Default: ten
    /// intervals, at least 1 s. More than zero.
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
    /// At least 1.
    pub fn max_lease_share(mut self, parts: u32) -> Self {
        self.max_lease_share = parts;
        self
    }

    /// Sets how long a check waits for the central store if this node's share of a limit is used up while there are
    /// tokens left. All checks of a key that need tokens wait for one call. Zero never waits: the check is denied, until
    /// the next sync round. Default: 20 ms. Applies to [`Mode::Deltas`].
    pub fn ask_within(mut self, at_most: Duration) -> Self {
        self.ask_within = at_most;
        self
    }

    /// Returns an error if a setting is invalid. `of` says whose policy it is.
    fn validate(&self, of: &str) -> Result<(), ConfigError> {
        let refuse = |setting, problem: String, advice: &str| {
            Err(ConfigError::new("Synced", setting, format!("of {of} {problem}"), advice))
        };
        if !INTERVALS.contains(&self.interval) {
            return refuse("interval", format!("is {:?}", self.interval), "use from 10 ms to an hour");
        }
        if self.stale_after.is_some_and(|bound| bound.is_zero()) {
            return refuse("stale_after", "is zero".into(), "use more, such as 1 s");
        }
        if self.max_lease_share == 0 {
            return refuse("max_lease_share", "is one of 0 parts".into(), "use at least 1");
        }
        match self.when_stale {
            WhenStale::Share { part, of } if part == 0 || part > of => {
                refuse("when_stale", format!("is a share of {part} of {of}"), "use from 1 of n to n of n")
            }
            WhenStale::Share { .. } | WhenStale::Continue | WhenStale::Deny => Ok(()),
        }
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
    /// Returns an error if a setting of one of the policies is invalid.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.default.validate("the default policy")?;
        self.by_limit.iter().try_for_each(|(limit, policy)| policy.validate(&format!("limit `{limit}`")))
    }

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
    fn an_invalid_setting_is_an_error_that_says_what_is_valid() {
        let policy = SyncPolicy::default;
        for (policy, setting, problem) in [
            (policy().interval(Duration::ZERO), "interval", "is 0ns"),
            (policy().interval(Duration::MAX), "interval", "is 18446744073709551615"),
            (policy().stale_after(Duration::ZERO), "stale_after", "is zero"),
            (policy().max_lease_share(0), "max_lease_share", "one of 0"),
            (policy().when_stale(WhenStale::share_of(0)), "when_stale", "1 of 0"),
            (policy().when_stale(WhenStale::Share { part: 3, of: 2 }), "when_stale", "3 of 2"),
        ] {
            let mut policies = Policies::default();
            assert_eq!(policies.validate(), Ok(()));
            policies.by_limit.insert("login".into(), policy);
            let error = policies.validate().expect_err(setting);
            assert_eq!(error.setting(), setting);
            assert!(error.problem().contains(problem) && error.problem().contains("`login`"), "{error}");
            assert!(error.advice().contains("use"), "{error}");
        }
    }
}
