//! What follows from a limit and its sync policy, computed once per limit.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tollgate_core::store::AlgorithmSet;
use tollgate_core::{AlgorithmKind, Limit, Time};

use super::policy::{ColdKeys, Mode, Policies, WhenStale};
use crate::local::refill::Refill;
use crate::local::share::TokenRate;
use crate::local::usage;
use crate::nanos;

/// How many limits are cached: more than a program has, except one that creates limits from requests.
const MAX_LIMITS: u64 = 1_024;
/// The shortest coarse unit of time, as a power of two of nanoseconds: about 8.6 seconds.
const MIN_COARSE_BITS: u32 = 33;

/// Algorithms whose limits are decided locally, unless the limit has a block time or anchored windows.
const LOCAL: AlgorithmSet = AlgorithmSet::of(&[
    AlgorithmKind::TokenBucket,
    AlgorithmKind::IntervalBucket,
    AlgorithmKind::LeakyMeter,
    AlgorithmKind::Gcra,
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingCounter,
]);

/// Algorithms whose limits are always decided by the central store.
pub(crate) const CENTRAL: AlgorithmSet = AlgorithmSet::of(&[
    AlgorithmKind::SlidingLog,
    AlgorithmKind::Concurrency,
    AlgorithmKind::LeakyQueue,
    AlgorithmKind::SmoothBursty,
    AlgorithmKind::SmoothWarmingUp,
]);

// A new algorithm does not compile until it is in one of the sets.
const _: () = {
    let mut index = 0;
    while index < AlgorithmKind::ALL.len() {
        let kind = AlgorithmKind::ALL[index];
        assert!(LOCAL.contains(kind) != CENTRAL.contains(kind), "every algorithm is in exactly one set");
        index += 1;
    }
};

/// A limit, and what follows from its policy. Spans are in nanoseconds.
#[derive(Debug)]
pub(crate) struct LimitConfig {
    pub(crate) limit: Limit,
    pub(crate) refill: Refill,
    pub(crate) rate: TokenRate,
    pub(crate) mode: Mode,
    pub(crate) cold_keys: ColdKeys,
    pub(crate) when_stale: WhenStale,
    pub(crate) stale_after: u64,
    pub(crate) interval: u64,
    /// The index of the interval among the distinct intervals of all policies.
    pub(crate) interval_index: usize,
    /// How many low bits of an instant [`CoarseTime`] drops. A key that only denies is synchronized about once per
    /// coarse unit.
    coarse_bits: u32,
    /// The limit that applies while stale, if the policy is [`WhenStale::Share`] and the share is at least a token.
    pub(crate) stale_share: Option<Limit>,
    /// The most tokens that are leased at a time.
    pub(crate) max_lease: u32,
    /// How long a check waits for the central store when this node's share is used up.
    pub(crate) ask_within: Duration,
    /// What nodes that share a key tell each other about it. `None` if the limit's name is too long for it.
    pub(crate) records: Option<Records>,
}

/// Sliding windows of each contended key at the central store, by which its nodes know of each other. Nothing is ever
/// denied by them.
#[derive(Debug)]
pub(crate) struct Records {
    /// What nodes ask for.
    pub(crate) demand: Limit,
    /// The length of its windows in nanoseconds.
    pub(crate) demand_window: u64,
    /// What nodes granted. `None` for windows, which are counts of that themselves.
    pub(crate) usage: Option<Limit>,
    /// The unit of that record in tokens.
    pub(crate) usage_unit: u64,
}

impl Records {
    /// How many sync intervals a window of the demand record is long at least, in halves: every node has a sync round in
    /// each.
    const HALF_INTERVALS: u32 = 5;
    /// How many tokens are refilled in a window at least: nodes need not report more often than there is anything to
    /// share.
    const TOKENS: u32 = 4;

    fn of(limit: &Limit, refill: Refill, interval: Duration) -> Option<Self> {
        let tokens = limit.period().saturating_mul(Self::TOKENS) / limit.count().max(1);
        let window = (interval * Self::HALF_INTERVALS / 2).max(tokens);
        // Whole milliseconds: stores decide windows of odd lengths more slowly, and the name has no more digits.
        let window = Duration::from_nanos(nanos(window).next_multiple_of(1_000_000));
        let record = |what: &str, window: Duration| {
            // All nodes with this limit and interval have the same record.
            let name = format!("{} {} {what} {}ms", limit.name(), limit.kind().name(), window.as_millis());
            Limit::per(Limit::MAX_COUNT, window).sliding_window().build(&name).ok()
        };
        let usage_unit = usage::unit(limit);
        let usage = match refill {
            Refill::Continuous { .. } | Refill::Interval { .. } => {
                Some(record(&format!("usage {usage_unit}"), usage::WINDOW)?)
            }
            Refill::Windows { .. } => None,
        };
        Some(Self { demand: record("demand", window)?, demand_window: nanos(window), usage, usage_unit })
    }
}

impl LimitConfig {
    /// Returns `None` if the limit is always decided centrally.
    fn new(limit: &Limit, policies: &Policies, intervals: &[Duration]) -> Option<Self> {
        if !LOCAL.contains(limit.kind()) {
            return None;
        }
        let policy = policies.of(limit.name());
        let stale_share = match policy.when_stale {
            // A share that is too small to count is none.
            WhenStale::Share { part, of } => limit.share(part, of).ok(),
            WhenStale::Continue | WhenStale::Deny => None,
        };
        let interval = nanos(policy.interval);
        let refill = Refill::of(limit)?;
        Some(Self {
            refill,
            rate: TokenRate::of(limit),
            mode: policy.mode,
            cold_keys: policy.cold_keys,
            when_stale: policy.when_stale,
            stale_after: nanos(policy.staleness_bound()),
            interval,
            interval_index: intervals.iter().position(|known| *known == policy.interval).unwrap_or(0),
            coarse_bits: interval.saturating_mul(10).ilog2().max(MIN_COARSE_BITS),
            stale_share,
            max_lease: (limit.capacity() / policy.max_lease_share).max(1),
            ask_within: policy.ask_within,
            records: Records::of(limit, refill, policy.interval),
            limit: limit.clone(),
        })
    }

    /// Returns the unit of the usage record in tokens, if there is such a record.
    pub(crate) fn usage_unit(&self) -> Option<u64> {
        self.records.as_ref().and_then(|records| records.usage.as_ref().map(|_| records.usage_unit))
    }

    /// Returns the coarse time of an instant.
    #[inline]
    pub(crate) fn coarse(&self, at: Time) -> CoarseTime {
        let unit = (at.nanos() >> self.coarse_bits).to_le_bytes()[0] % CoarseTime::MODULUS;
        CoarseTime(NonZeroU8::MIN.saturating_add(unit))
    }
}

/// The number of a coarse unit of time, from 1 to 128, wrapping. One byte, because every key has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoarseTime(NonZeroU8);

impl CoarseTime {
    const MODULUS: u8 = 128;

    /// Returns whether at least one whole unit lies between an earlier time and this one.
    #[inline]
    pub(crate) fn is_long_after(self, earlier: Self) -> bool {
        self.0.get().wrapping_sub(earlier.0.get()) % Self::MODULUS >= 2
    }
}

/// The configurations of the limits in use. Bounded, because a program that creates limits from requests has any number
/// of them. Read only when a key has no local entry, so the cost of the cache does not matter.
#[derive(Debug)]
pub(crate) struct LimitConfigs {
    policies: Policies,
    intervals: Vec<Duration>,
    cache: Cache<Limit, Option<Arc<LimitConfig>>>,
}

impl LimitConfigs {
    pub(crate) fn new(policies: Policies) -> Self {
        let intervals = policies.intervals();
        Self { policies, intervals, cache: Cache::new(MAX_LIMITS) }
    }

    /// Returns the configuration of a limit; `None` if it is always decided centrally.
    pub(crate) fn of(&self, limit: &Limit) -> Option<Arc<LimitConfig>> {
        let create = || LimitConfig::new(limit, &self.policies, &self.intervals).map(Arc::new);
        self.cache.get_with_by_ref(limit, create)
    }

    /// Returns the distinct sync intervals, in order.
    pub(crate) fn intervals(&self) -> &[Duration] {
        &self.intervals
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SyncPolicy;

    #[test]
    fn every_interval_has_an_index_of_its_own() {
        let second = Duration::from_secs(1);
        let slow = SyncPolicy::default().interval(second);
        let mut policies = Policies::default();
        policies.by_limit.insert("slow".into(), slow);
        policies.by_limit.insert("slow too".into(), slow);
        let configs = LimitConfigs::new(policies);
        assert_eq!(configs.intervals(), [Duration::from_millis(100), second]);
        let slow = Limit::per_second(1).build("slow too").expect("valid");
        assert_eq!(configs.of(&slow).expect("a bucket").interval_index, 1);
    }

    #[test]
    fn windows_of_demand_are_whole_milliseconds() {
        for limit in [Limit::per_second(3), Limit::per(1_000, Duration::from_nanos(333_333_333))] {
            let limit = limit.build("odd").expect("valid");
            let config = LimitConfigs::new(Policies::default()).of(&limit).expect("a bucket");
            let records = config.records.as_ref().expect("a short name");
            assert_eq!(records.demand_window % 1_000_000, 0, "{records:?}");
            assert_eq!(nanos(records.demand.period()), records.demand_window);
        }
    }

    #[test]
    fn limits_whose_state_cannot_be_merged_are_decided_centrally() {
        for limit in [
            Limit::per_second(1).sliding_log(),
            Limit::concurrent(1),
            Limit::per_second(1).queue(3),
            Limit::per_second(1).smooth(),
            Limit::per_second(1).fixed_window().anchored(),
            Limit::per_second(1).block_for(Duration::from_secs(1)),
        ] {
            let limit = limit.build("x").expect("valid");
            assert!(LimitConfigs::new(Policies::default()).of(&limit).is_none(), "{limit:?}");
        }
    }
}
