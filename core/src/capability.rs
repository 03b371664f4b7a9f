//! What a store can do, as data.

use crate::time::Time;

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

/// What a store can do. What it cannot do is data that a caller and a test suite can read, not a
/// surprise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capability {
    /// Whose clock decides.
    pub timekeeper: Timekeeper,
    /// How requests across entities stay all or nothing.
    pub atomicity: Atomicity,
    /// Decisions are those of the pure function, for any number of concurrent callers. Otherwise the
    /// store trades exactness for something else, and says what.
    pub exact: bool,
    /// A repeated operation id is answered and not executed again.
    pub operation_ids: bool,
    /// Calls may end with an unknown effect, so a limiter should name every mutating one.
    pub may_lose_answers: bool,
    /// States can be exported and merged.
    pub snapshots: bool,
}

impl Capability {
    /// A store that decides exactly, atomically everywhere, by its caller's clock.
    pub const fn exact() -> Self {
        Self {
            timekeeper: Timekeeper::Caller,
            atomicity: Atomicity::Everywhere,
            exact: true,
            operation_ids: true,
            may_lose_answers: false,
            snapshots: true,
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

    /// Decisions may differ from the pure function's.
    #[must_use]
    pub const fn approximate(mut self) -> Self {
        self.exact = false;
        self
    }

    /// Operation ids are not remembered.
    #[must_use]
    pub const fn without_operation_ids(mut self) -> Self {
        self.operation_ids = false;
        self
    }

    /// Calls may end with an unknown effect.
    #[must_use]
    pub const fn may_lose_answers(mut self) -> Self {
        self.may_lose_answers = true;
        self
    }

    /// States cannot be exported.
    #[must_use]
    pub const fn without_snapshots(mut self) -> Self {
        self.snapshots = false;
        self
    }
}

/// For how long a store that remembers operation ids does so, at least.
pub const OPERATION_MEMORY: core::time::Duration = core::time::Duration::from_secs(60);

/// Until when an operation executed at `now` is remembered.
pub fn remembered_until(now: Time) -> Time {
    now + OPERATION_MEMORY
}
