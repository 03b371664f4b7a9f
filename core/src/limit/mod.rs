//! Limits: an algorithm with its numbers, plus a name.

mod builder;
mod error;
mod parameters;

use alloc::sync::Arc;
use core::time::Duration;

pub use builder::LimitBuilder;
pub use error::LimitError;
pub use parameters::Parameters;

use crate::algorithm::{Algorithm, AlgorithmKind, Flow};
use crate::charge::{Action, Charge};
use crate::key::{Key, fnv1a};

/// An algorithm with its numbers, plus a name. Built once, shared by reference.
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::Limit;
///
/// let api = Limit::per_second(50).burst(100).build("api")?;      // 50 a second, at most 100 at once
/// let daily = Limit::per_day(10_000).fixed_window().build("daily")?;
/// let login = Limit::per_minute(5).block_for(Duration::from_secs(900)).build("login")?;
/// # let _ = (api, daily, login);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    algorithm: Algorithm,
    /// Zero if the limit has no block time.
    block: u64,
    id: u64,
    name: Arc<str>,
    spec: LimitBuilder,
}

/// Limits are equal if their names and all of their numbers are.
impl PartialEq for Limit {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Every limit that is built has a name of its own, so those that share one are clones.
        Arc::ptr_eq(&self.name, &other.name)
            || (self.id == other.id && self.name == other.name && self.spec == other.spec)
    }
}

impl Eq for Limit {}

impl core::hash::Hash for Limit {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.name.hash(hasher);
        self.spec.hash(hasher);
    }
}

impl Limit {
    /// `count` per second.
    pub fn per_second(count: u32) -> LimitBuilder {
        Self::per(count, Duration::from_secs(1))
    }

    /// `count` per minute.
    pub fn per_minute(count: u32) -> LimitBuilder {
        Self::per(count, Duration::from_secs(60))
    }

    /// `count` per hour.
    pub fn per_hour(count: u32) -> LimitBuilder {
        Self::per(count, Duration::from_secs(60 * 60))
    }

    /// `count` per day of 24 hours.
    pub fn per_day(count: u32) -> LimitBuilder {
        Self::per(count, Duration::from_secs(24 * 60 * 60))
    }

    /// `count` per `period`.
    pub fn per(count: u32, period: Duration) -> LimitBuilder {
        LimitBuilder::new(AlgorithmKind::TokenBucket, count, period)
    }

    /// At most `count` in flight.
    pub fn concurrent(count: u32) -> LimitBuilder {
        LimitBuilder::new(AlgorithmKind::Concurrency, count, Duration::ZERO)
    }

    fn assemble(name: &str, algorithm: Algorithm, block: u64, spec: LimitBuilder) -> Self {
        // Another algorithm keeps another state, and so does one that blocks: they are parts of the identity.
        let id = fnv1a(&[name.as_bytes(), &[algorithm.kind() as u8, u8::from(block > 0)]]);
        Self { algorithm, block, id, name: name.into(), spec }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A digest of the name, the algorithm and whether it has a block time: limits with the same id share state.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Which algorithm.
    pub fn kind(&self) -> AlgorithmKind {
        self.algorithm.kind()
    }

    /// The most that can pass at once.
    pub fn capacity(&self) -> u32 {
        self.algorithm.capacity()
    }

    /// How much passes per [`period`](Self::period); for a concurrency limit, how much is in flight at most.
    pub fn count(&self) -> u32 {
        self.spec.count
    }

    /// The period; for a concurrency limit, the lease.
    pub fn period(&self) -> Duration {
        match self.kind() {
            AlgorithmKind::Concurrency => self.spec.lease.unwrap_or(Duration::from_secs(60)),
            _ => self.spec.period,
        }
    }

    /// How long a denial lasts, if the limit has a block time.
    pub fn block_time(&self) -> Option<Duration> {
        (self.block > 0).then(|| Duration::from_nanos(self.block))
    }

    /// The numbers it was built from, to build a variation of it.
    pub fn to_builder(&self) -> LimitBuilder {
        self.spec.clone()
    }

    /// A charge of cost 1 against this limit.
    #[inline]
    pub fn charge<'a>(&'a self, key: impl Into<Key<'a>>) -> Charge<'a> {
        Charge::new(self, key.into())
    }

    /// The flow behind this limit, if its whole state is one instant. Stores may keep such states in
    /// one atomic word.
    #[inline]
    pub fn as_flow(&self) -> Option<&Flow> {
        if self.block == 0 { self.algorithm.as_flow() } else { None }
    }

    /// Why the algorithm cannot do that, if it cannot.
    pub fn refusal(&self, action: Action) -> Option<&'static str> {
        self.algorithm.refusal(action)
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
