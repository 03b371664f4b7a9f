//! What a store can do, as data.

use core::time::Duration;

use crate::algorithm::AlgorithmKind;

/// Whose clock decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockSource {
    /// The time that the caller passes. A store may decide at the time of other callers that are ahead, and says so in
    /// [`Verdict::decided_at`](crate::Verdict::decided_at) and [`Export::at`](crate::store::Export::at).
    Caller,
    /// The store's own clock; the caller's time is only a hint.
    Store,
}

/// How a request whose charges belong to several entities stays all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Atomicity {
    /// One atomic step, whatever the entities.
    Everywhere,
    /// One atomic step within an entity; across entities by compensating refunds, so that a concurrent request may be
    /// denied because of a debit that is refunded a moment later. Never over the limit.
    WithinEntity,
}

/// A set of algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlgorithmSet(u16);

impl AlgorithmSet {
    /// Every algorithm.
    pub const ALL: Self = Self(u16::MAX);
    /// No algorithm.
    pub const NONE: Self = Self(0);

    /// Creates a set of these algorithms.
    pub const fn of(kinds: &[AlgorithmKind]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < kinds.len() {
            bits |= 1 << kinds[index] as u16;
            index += 1;
        }
        Self(bits)
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether the set contains this algorithm.
    pub const fn contains(self, kind: AlgorithmKind) -> bool {
        self.0 & 1 << kind as u16 != 0
    }
}

/// How long a repeated [idempotency key](crate::IdempotencyKey) is recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdempotencyRetention {
    /// Not at all.
    None,
    /// For at least this long.
    For(Duration),
    /// For the last so many calls of each key.
    Last(u32),
}

/// What a store can do. What it cannot do is data that a caller and a test suite can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// Whose clock decides.
    pub clock_source: ClockSource,
    /// How requests across entities stay all or nothing.
    pub atomicity: Atomicity,
    /// For which algorithms decisions are those of the pure function, whatever the number of concurrent callers. For
    /// the others the store trades exactness for something else, and documents its bound.
    pub exact: AlgorithmSet,
    /// How long a repeated idempotency key is recognized.
    pub idempotency: IdempotencyRetention,
    /// Calls may end with an unknown effect, so a limiter should send an idempotency key with every mutating one.
    pub unknown_effects: bool,
    /// For which algorithms states can be exported.
    pub snapshots: AlgorithmSet,
}

impl Capability {
    /// A store that decides exactly, atomically everywhere, by its caller's clock, and exports all states. It
    /// recognizes no idempotency keys: a store that does says for how long
    /// ([`with_idempotency`](Self::with_idempotency)).
    pub const fn exact() -> Self {
        Self {
            clock_source: ClockSource::Caller,
            atomicity: Atomicity::Everywhere,
            exact: AlgorithmSet::ALL,
            idempotency: IdempotencyRetention::None,
            unknown_effects: false,
            snapshots: AlgorithmSet::ALL,
        }
    }

    /// Sets whose clock decides.
    #[must_use]
    pub const fn with_clock_source(mut self, source: ClockSource) -> Self {
        self.clock_source = source;
        self
    }

    /// Sets how requests across entities stay all or nothing.
    #[must_use]
    pub const fn with_atomicity(mut self, atomicity: Atomicity) -> Self {
        self.atomicity = atomicity;
        self
    }

    /// Sets the algorithms whose decisions are the pure function's.
    #[must_use]
    pub const fn with_exact(mut self, kinds: AlgorithmSet) -> Self {
        self.exact = kinds;
        self
    }

    /// Sets how long idempotency keys are recognized.
    #[must_use]
    pub const fn with_idempotency(mut self, retention: IdempotencyRetention) -> Self {
        self.idempotency = retention;
        self
    }

    /// Declares that calls may end with an unknown effect.
    #[must_use]
    pub const fn with_unknown_effects(mut self) -> Self {
        self.unknown_effects = true;
        self
    }

    /// Sets the algorithms whose states can be exported.
    #[must_use]
    pub const fn with_snapshots(mut self, kinds: AlgorithmSet) -> Self {
        self.snapshots = kinds;
        self
    }
}
