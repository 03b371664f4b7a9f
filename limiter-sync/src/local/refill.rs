//! How the capacity of a limit comes back over time: this decides which instant a delta is dated to.

use tollgate_core::{AlgorithmKind, Limit, Time};

/// How the capacity of a limit comes back. Spans are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refill {
    /// Continuously: on a bucket that no other node uses, a grant is refilled after a while.
    Continuous {
        /// The time that one token takes.
        token: u64,
    },
    /// By windows: a count for each part of a period.
    Windows {
        /// The period.
        period: u64,
        /// How many parts it has.
        parts: u32,
    },
    /// Once per period, which starts with the first debit.
    Interval {
        /// The period.
        period: u64,
    },
}

impl Refill {
    /// Returns how a limit refills; `None` if replicas of its state cannot be merged.
    ///
    /// - A log stores every instant, and concurrency leases have holders: neither can be summed.
    /// - Queues and smooth limiters guarantee a distance between one start and the next, which replicas cannot.
    /// - An anchored window starts with the first hit among all nodes.
    /// - A block is caused by one denial, and must apply everywhere at once.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        if limit.block_time().is_some() {
            return None;
        }
        let parameters = limit.parameters();
        match limit.kind() {
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyMeter | AlgorithmKind::Gcra => {
                Some(Self::Continuous { token: parameters.period / u64::from(parameters.count.max(1)) })
            }
            AlgorithmKind::IntervalBucket => Some(Self::Interval { period: parameters.period }),
            AlgorithmKind::FixedWindow if parameters.anchored => None,
            AlgorithmKind::FixedWindow | AlgorithmKind::SlidingWindow => {
                Some(Self::Windows { period: parameters.period, parts: 1 })
            }
            AlgorithmKind::SlidingCounter => {
                Some(Self::Windows { period: parameters.period, parts: parameters.sub_buckets })
            }
            // `config` lists them, and does not compile if one is missing there.
            _ => None,
        }
    }

    pub(crate) fn is_continuous(self) -> bool {
        match self {
            Self::Continuous { .. } => true,
            Self::Windows { .. } | Self::Interval { .. } => false,
        }
    }

    /// Returns whether it is that of a bucket, whose balance consists of what was granted and refilled.
    pub(crate) fn is_bucket(self) -> bool {
        match self {
            Self::Continuous { .. } | Self::Interval { .. } => true,
            Self::Windows { .. } => false,
        }
    }

    /// Returns whether what was taken at an instant still counts now.
    pub(super) fn same_period(self, then: Time, now: Time) -> bool {
        match self {
            Self::Interval { period } => now.nanos().saturating_sub(then.nanos()) < period,
            Self::Windows { .. } | Self::Continuous { .. } => self.same_window(then, now),
        }
    }

    /// Returns whether deltas at both instants count in the same window.
    pub(super) fn same_window(self, one: Time, other: Time) -> bool {
        let window = |period: u64, parts: u32, at: Time| {
            u128::from(at.nanos()) * u128::from(parts) / u128::from(period.max(1))
        };
        match self {
            Self::Windows { period, parts } => window(period, parts, one) == window(period, parts, other),
            Self::Continuous { .. } | Self::Interval { .. } => true,
        }
    }
}
