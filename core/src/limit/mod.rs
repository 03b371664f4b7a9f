//! Limits: an algorithm with its parameters, and a name.
//!
//! - `builder`: the parameters and their defaults; `validation`: their bounds; `error`: what was invalid.
//! - `parameters`: all parameters as plain numbers, and shares of a limit.

mod builder;
mod error;
mod parameters;
mod validation;

use alloc::sync::Arc;
use core::time::Duration;

pub use builder::LimitBuilder;
pub use error::LimitError;
pub use parameters::Parameters;

use crate::algorithm::{Algorithm, AlgorithmKind, Flow, WindowLimit};
use crate::charge::{Action, Charge};
use crate::key::{Key, fnv1a};

/// A rate limit or concurrency limit: an algorithm with its parameters, and a name.
///
/// A limit is immutable, and is built once at startup. It holds no state of its own: a store keeps one state per limit
/// and key. Clones are cheap.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use std::time::Duration;
/// use tollgate::Limit;
///
/// let api = Limit::per_second(50).burst(100).build("api")?; // 50 per second, at most 100 at once
/// let daily = Limit::per_day(10_000).fixed_window().build("daily")?;
/// let login = Limit::per_minute(5).block_for(Duration::from_secs(900)).build("login")?;
/// # let _ = (api, daily, login);
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    algorithm: Algorithm,
    /// Zero if the limit has no block time.
    block: u64,
    id: u64,
    name: Arc<str>,
    builder: LimitBuilder,
}

/// Limits are equal if their names and all of their parameters are.
impl PartialEq for Limit {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Every build allocates a name, so limits that share one are clones of each other.
        Arc::ptr_eq(&self.name, &other.name)
            || (self.id == other.id && self.name == other.name && self.builder == other.builder)
    }
}

impl Eq for Limit {}

impl core::hash::Hash for Limit {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.name.hash(hasher);
        self.builder.hash(hasher);
    }
}

impl Limit {
    /// Starts a limit of `count` per second.
    pub fn per_second(count: u32) -> LimitBuilder {
        Self::per(count, Duration::from_secs(1))
    }

    /// Starts a limit of `count` per minute.
    pub fn per_minute(count: u32) -> LimitBuilder {
        Self::per(count, Duration::from_secs(60))
    }

    /// Starts a limit of `count` per hour.
    pub fn per_hour(count: u32) -> LimitBuilder {
        Self::per(count, Duration::from_secs(60 * 60))
    }

    /// Starts a limit of `count` per day of 24 hours.
    pub fn per_day(count: u32) -> LimitBuilder {
        Self::per(count, Duration::from_secs(24 * 60 * 60))
    }

    /// Starts a limit of `count` per `period`.
    pub fn per(count: u32, period: Duration) -> LimitBuilder {
        LimitBuilder::new(AlgorithmKind::TokenBucket, count, period)
    }

    /// Starts a concurrency limit: at most `count` slots in use.
    pub fn concurrent(count: u32) -> LimitBuilder {
        LimitBuilder::new(AlgorithmKind::Concurrency, count, Duration::ZERO)
    }

    fn assemble(name: &str, algorithm: Algorithm, block: u64, builder: LimitBuilder) -> Self {
        debug_assert_eq!(algorithm.kind(), builder.kind);
        // States of different algorithms, or with and without a block time, are not interchangeable.
        let id = fnv1a(&[name.as_bytes(), &[algorithm.kind() as u8, u8::from(block > 0)]]);
        Self { algorithm, block, id, name: name.into(), builder }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name, shared.
    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Returns a digest of the name, the algorithm and whether there is a block time, the same in every process. Limits
    /// with the same id share state. It is not collision-resistant:
    /// [names are not for user input](LimitBuilder::build).
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the algorithm.
    pub fn kind(&self) -> AlgorithmKind {
        self.builder.kind
    }

    /// Returns the capacity: the most that can pass at once.
    pub fn capacity(&self) -> u32 {
        self.algorithm.capacity()
    }

    /// Returns how much passes per [`period`](Self::period). For a concurrency limit: the number of slots.
    pub fn count(&self) -> u32 {
        self.builder.count
    }

    /// Returns the period. For a concurrency limit: the lease time.
    pub fn period(&self) -> Duration {
        if self.kind() == AlgorithmKind::Concurrency {
            self.builder.lease_or_default()
        } else {
            self.builder.period
        }
    }

    /// Returns how long a state takes to equal a fresh one after the whole capacity was used. `None` for a concurrency
    /// limit, whose slots are released.
    pub fn reset_time(&self) -> Option<Duration> {
        match self.kind() {
            AlgorithmKind::TokenBucket
            | AlgorithmKind::IntervalBucket
            | AlgorithmKind::LeakyMeter
            | AlgorithmKind::LeakyQueue
            | AlgorithmKind::Gcra
            | AlgorithmKind::SmoothBursty => {
                Some(self.period().mul_f64(f64::from(self.capacity()) / f64::from(self.count())))
            }
            AlgorithmKind::FixedWindow
            | AlgorithmKind::SlidingLog
            | AlgorithmKind::SlidingCounter
            | AlgorithmKind::SlidingWindow
            | AlgorithmKind::SmoothWarmingUp => Some(self.period()),
            AlgorithmKind::Concurrency => None,
        }
    }

    /// Returns for how long a key remains denied after a denial, if the limit has a block time.
    pub fn block_time(&self) -> Option<Duration> {
        (self.block > 0).then(|| Duration::from_nanos(self.block))
    }

    /// Returns a builder with the parameters of this limit, to build a variation of it.
    pub fn to_builder(&self) -> LimitBuilder {
        self.builder.clone()
    }

    /// Creates a charge of cost 1 against this limit.
    #[inline]
    pub fn charge<'a>(&'a self, key: impl Into<Key<'a>>) -> Charge<'a> {
        Charge::new(self, key.into())
    }

    /// Returns the algorithm if its whole state is one theoretical arrival time, and the limit has no block time.
    /// Stores can keep such a state in one atomic word.
    #[inline]
    pub fn as_flow(&self) -> Option<&Flow> {
        if self.block == 0 { self.algorithm.as_flow() } else { None }
    }

    /// Returns the algorithm if it is a fixed or sliding window, and the limit has no block time. Stores can keep such a
    /// state as [`Windows`](crate::store::Windows).
    #[inline]
    pub fn as_window(&self) -> Option<WindowLimit<'_>> {
        if self.block == 0 { self.algorithm.as_window() } else { None }
    }

    /// Returns why the algorithm does not support an action. `None` if it does.
    pub fn refusal(&self, action: Action) -> Option<&'static str> {
        self.kind().refusal(action)
    }

    pub(crate) fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    pub(crate) fn block(&self) -> u64 {
        self.block
    }
}

#[cfg(test)]
mod tests;
