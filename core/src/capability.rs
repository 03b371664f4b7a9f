//! What a store can do, as data.

use core::time::Duration;

use crate::algorithm::AlgorithmKind;

/// Whose clock decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Timekeeper {
    /// The time that the caller passes.
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
    /// One atomic step within an entity; across entities by giving back, so that a concurrent request
    /// may be denied by a debit that is given back a moment later. Never over the limit.
    WithinEntity,
}

/// A set of algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kinds(u16);

impl Kinds {
    /// Every algorithm.
    pub const ALL: Self = Self(u16::MAX);
    /// None of them.
    pub const NONE: Self = Self(0);

    /// These.
    pub const fn of(kinds: &[AlgorithmKind]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < kinds.len() {
            bits |= 1 << kinds[index] as u16;
            index += 1;
        }
        Self(bits)
    }

    /// Those that are in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether this algorithm is one of them.
    pub const fn contains(self, kind: AlgorithmKind) -> bool {
        self.0 & 1 << kind as u16 != 0
    }
}

/// How far back a repeated [operation id](crate::OperationId) is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationMemory {
    /// Not at all.
    None,
    /// For at least this long.
    For(Duration),
    /// The last so many calls of each key.
    Last(u32),
}

/// What a store can do. What it cannot do is data that a caller and a test suite can read, not a
/// surprise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// Whose clock decides.
    pub timekeeper: Timekeeper,
    /// How requests across entities stay all or nothing.
    pub atomicity: Atomicity,
    /// For which algorithms decisions are those of the pure function, whatever the number of concurrent
    /// callers. For the others the store trades exactness for something else, and says what.
    pub exact: Kinds,
    /// How far back a repeated operation id is recognised.
    pub operation_ids: OperationMemory,
    /// Calls may end with an unknown effect, so a limiter should name every mutating one.
    pub may_lose_answers: bool,
    /// For which algorithms states can be exported and merged.
    pub snapshots: Kinds,
}

impl Capability {
    /// A store that decides exactly, atomically everywhere, by its caller's clock.
    pub const fn exact() -> Self {
        Self {
            timekeeper: Timekeeper::Caller,
            atomicity: Atomicity::Everywhere,
            exact: Kinds::ALL,
            operation_ids: OperationMemory::For(Duration::from_secs(60)),
            may_lose_answers: false,
            snapshots: Kinds::ALL,
        }
    }

    /// The store decides by its own clock.
    #[must_use]
    pub const fn by_its_own_clock(mut self) -> Self {
        self.timekeeper = Timekeeper::Store;
        self
    }

    /// Requests are atomic only within an entity.
    #[must_use]
    pub const fn atomic_within_entity(mut self) -> Self {
        self.atomicity = Atomicity::WithinEntity;
        self
    }

    /// Decisions are the pure function's only for these algorithms.
    #[must_use]
    pub const fn exact_for(mut self, kinds: Kinds) -> Self {
        self.exact = kinds;
        self
    }

    /// Operation ids are recognised that far back.
    #[must_use]
    pub const fn remembering(mut self, memory: OperationMemory) -> Self {
        self.operation_ids = memory;
        self
    }

    /// Calls may end with an unknown effect.
    #[must_use]
    pub const fn may_lose_answers(mut self) -> Self {
        self.may_lose_answers = true;
        self
    }

    /// States can be exported only for these algorithms.
    #[must_use]
    pub const fn exporting(mut self, kinds: Kinds) -> Self {
        self.snapshots = kinds;
        self
    }
}
