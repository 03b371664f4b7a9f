//! The builder of limits: collects parameters. `validation` checks them.

use core::time::Duration;

use super::validation::Validation;
use super::{Limit, LimitError};
use crate::algorithm::AlgorithmKind;

/// Bounds of a limit's parameters.
impl Limit {
    /// The largest count, burst, queue and cost. Small enough that every product with a period fits the numbers of a
    /// scripting language or one multiply-divide.
    pub const MAX_COUNT: u32 = 1_000_000_000;
    /// The longest period, block time and lease: a leap year.
    pub const MAX_PERIOD: Duration = Duration::from_secs(366 * 24 * 60 * 60);
    /// The longest time that a bucket may take to fill.
    pub const MAX_FILL: Duration = Duration::from_secs(30 * 366 * 24 * 60 * 60);
    /// The largest number of entries in one state: timestamps of a sliding log, leases of a concurrency limit.
    pub const MAX_ENTRIES: u32 = 100_000;
    /// The largest number of sub-buckets of a sliding counter.
    pub const MAX_SUB_BUCKETS: u32 = 256;
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 128;
}

/// Collects the parameters of a [`Limit`]. [`build`](Self::build) validates them.
///
/// A builder starts as a token bucket. A method that names an algorithm selects it. An option that the selected
/// algorithm does not have is an error, not ignored.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use std::time::Duration;
/// use tollgate::Limit;
///
/// let uploads = Limit::per_minute(60).burst(10).build("uploads")?;
/// let search = Limit::per_second(100).sliding_window().build("search")?;
/// let jobs = Limit::concurrent(20).lease(Duration::from_secs(30)).build("jobs")?;
/// # let _ = (uploads, search, jobs);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct LimitBuilder {
    pub(super) kind: AlgorithmKind,
    pub(super) count: u32,
    pub(super) period: Duration,
    pub(super) burst: Option<u32>,
    pub(super) waiting: u32,
    pub(super) sub_buckets: u32,
    pub(super) anchored: bool,
    pub(super) count_denied: bool,
    pub(super) min_gap: Option<Duration>,
    pub(super) warm_up: Duration,
    pub(super) cold_factor: Option<u32>,
    pub(super) lease: Option<Duration>,
    pub(super) block: Option<Duration>,
}

/// The defaults of optional parameters. The documentation of each setter repeats its default.
impl LimitBuilder {
    pub(super) fn burst_or_default(&self) -> u32 {
        self.burst.unwrap_or(self.count)
    }

    pub(super) fn cold_factor_or_default(&self) -> u32 {
        self.cold_factor.unwrap_or(3)
    }

    pub(super) fn lease_or_default(&self) -> Duration {
        self.lease.unwrap_or(Duration::from_secs(60))
    }
}

impl LimitBuilder {
    pub(super) fn new(kind: AlgorithmKind, count: u32, period: Duration) -> Self {
        Self {
            kind,
            count,
            period,
            burst: None,
            waiting: 0,
            sub_buckets: 0,
            anchored: false,
            count_denied: false,
            min_gap: None,
            warm_up: Duration::ZERO,
            cold_factor: None,
            lease: None,
            block: None,
        }
    }

    fn algorithm(mut self, kind: AlgorithmKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the burst: the most that can pass at once. Default: the count. Token buckets of both kinds, leaky buckets
    /// as meters, GCRA and smooth bursty limiters only.
    pub fn burst(mut self, burst: u32) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Selects a token bucket that is refilled with the whole count at the end of each period instead of
    /// continuously. The first period starts with the first debit from a full bucket.
    pub fn refill_by_interval(self) -> Self {
        self.algorithm(AlgorithmKind::IntervalBucket)
    }

    /// Selects a leaky bucket as a meter: its level drains continuously, and a charge that would overflow it is denied.
    pub fn leaky_bucket(self) -> Self {
        self.algorithm(AlgorithmKind::LeakyMeter)
    }

    /// Selects a leaky bucket as a queue: one caller starts every period/count, first in first out, and at most
    /// `waiting` callers wait. The decision says when an admitted caller starts.
    pub fn queue(mut self, waiting: u32) -> Self {
        self.waiting = waiting;
        self.algorithm(AlgorithmKind::LeakyQueue)
    }

    /// Selects fixed windows: one counter per window, windows aligned to the Unix epoch. Up to twice the count can pass
    /// around the boundary between two windows.
    pub fn fixed_window(self) -> Self {
        self.algorithm(AlgorithmKind::FixedWindow)
    }

    /// Starts a window at its first hit instead of aligning windows to the Unix epoch. Fixed windows only.
    pub fn anchored(mut self) -> Self {
        self.anchored = true;
        self
    }

    /// Selects a sliding log: exact timestamps, so that never more than the count passes in any period. Its state grows
    /// with the number of takes in a period.
    pub fn sliding_log(self) -> Self {
        self.algorithm(AlgorithmKind::SlidingLog)
    }

    /// Counts denied takes too: a client that keeps retrying remains denied until it pauses. Sliding logs only.
    pub fn count_denied(mut self) -> Self {
        self.count_denied = true;
        self
    }

    /// Sets the minimum time between two takes. Default: none. Sliding logs only.
    pub fn min_gap(mut self, gap: Duration) -> Self {
        self.min_gap = Some(gap);
        self
    }

    /// Selects a sliding counter: the period is divided into `sub_buckets` counters, and that many are summed,
    /// including the current one.
    pub fn sliding_counter(mut self, sub_buckets: u32) -> Self {
        self.sub_buckets = sub_buckets;
        self.algorithm(AlgorithmKind::SlidingCounter)
    }

    /// Selects a sliding window: the count of the previous window, weighted by the part of it that still overlaps, plus
    /// the count of the current one.
    pub fn sliding_window(self) -> Self {
        self.algorithm(AlgorithmKind::SlidingWindow)
    }

    /// Selects the generic cell rate algorithm. It decides as a token bucket with the same parameters;
    /// [`RedisCellReply`](crate::RedisCellReply) converts its decisions to those of redis-cell.
    pub fn gcra(self) -> Self {
        self.algorithm(AlgorithmKind::Gcra)
    }

    /// Selects a smooth bursty limiter: any cost passes once the debt of the preceding charge is repaid, and the next
    /// caller waits for it. Up to `burst` unused permits are stored.
    pub fn smooth(self) -> Self {
        self.algorithm(AlgorithmKind::SmoothBursty)
    }

    /// Selects a smooth limiter that is slow when cold, and reaches its rate over `warm_up`.
    pub fn warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self.algorithm(AlgorithmKind::SmoothWarmingUp)
    }

    /// Sets how many times slower a cold limiter is than a warm one. Default: 3. Limiters that warm up only.
    pub fn cold_factor(mut self, factor: u32) -> Self {
        self.cold_factor = Some(factor);
        self
    }

    /// Sets how long a slot is held if its lease is neither released nor renewed. Default: 60 s. Concurrency limits
    /// only.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets a block time: after a denial, the key remains denied for this long. Useful to protect logins. Default:
    /// none. Available with every algorithm.
    pub fn block_for(mut self, block: Duration) -> Self {
        self.block = Some(block);
        self
    }

    /// Validates the parameters and creates the limit.
    ///
    /// The name identifies the state: a limit of the same name with other parameters continues with the state of its
    /// predecessor. Another algorithm, or a block time where there was none, starts with a fresh state.
    ///
    /// Names are chosen by developers and operators. Do not make them from what a request contains: two names whose
    /// [ids](Limit::id) collide share their states in a process, and since the id is no cryptographic hash, whoever
    /// chooses a name can make it collide with another one. What comes from users belongs into the key, which stores
    /// compare or hash with a secret.
    pub fn build(self, name: &str) -> Result<Limit, LimitError> {
        let validation = Validation { builder: &self, name };
        let algorithm = validation.algorithm()?;
        let block = validation.block_time()?;
        Ok(Limit::assemble(name, algorithm, block, self))
    }
}
