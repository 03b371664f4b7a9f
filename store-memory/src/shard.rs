//! The states behind one lock: those that tables do not keep, and those of keys without a slot in their table.
//!
//! They are in two rooms, each with a bound of its own: leases, and everything else. Neither evicts the other.

mod room;

use tollgate_core::store::State;
use tollgate_core::{AlgorithmKind, Time};

use room::Room;
#[cfg(all(test, not(loom)))]
pub(crate) use room::map_hash;
pub(crate) use room::{Entry, Usage};

/// A live state that was evicted because its room was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted {
    /// Whether nothing was left of its limit, or its key was blocked.
    pub(crate) exhausted: bool,
    /// Whether it consisted of leases.
    pub(crate) leases: bool,
}

/// The states of one shard, by [`KeyHash::map_key`](crate::key_hash::KeyHash::map_key).
pub(crate) struct Shard {
    states: Room,
    leases: Room,
    /// Every state that was removed had expired by then. A key without a state is decided at this time if the caller's
    /// is earlier: callers read the clock before they take the lock, so an earlier time can come later.
    horizon: Time,
}

impl Shard {
    pub(crate) fn new(max_entries: usize) -> Self {
        Self { states: Room::new(max_entries), leases: Room::new(max_entries), horizon: Time::EPOCH }
    }

    fn room(&self, kind: AlgorithmKind) -> &Room {
        if kind == AlgorithmKind::Concurrency { &self.leases } else { &self.states }
    }

    #[inline]
    fn room_mut(&mut self, kind: AlgorithmKind) -> &mut Room {
        if kind == AlgorithmKind::Concurrency { &mut self.leases } else { &mut self.states }
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len() + self.leases.len()
    }

    /// Returns how many states differ from a fresh one.
    pub(crate) fn live(&self, now: Time) -> usize {
        self.states.live(now) + self.leases.live(now)
    }

    /// Returns the time by which every state that was removed had expired.
    pub(crate) fn horizon(&self) -> Time {
        self.horizon
    }

    pub(crate) fn get(&self, kind: AlgorithmKind, key: u128) -> Option<&State> {
        self.room(kind).get(key).map(|entry| &entry.state)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, kind: AlgorithmKind, key: u128) -> Option<&mut Entry> {
        self.room_mut(kind).get_mut(key)
    }

    /// Removes a state that is kept elsewhere from now on, or has expired.
    pub(crate) fn remove(&mut self, kind: AlgorithmKind, key: u128, now: Time) {
        if let Some(expired_at) = self.room_mut(kind).remove(key).filter(|expired_at| *expired_at <= now) {
            self.horizon = self.horizon.max(expired_at);
        }
    }

    /// Stores a state. Returns what was evicted for it.
    ///
    /// A new state that equals a fresh one is not stored. An existing one is replaced even then, and removed by a later
    /// sweep: what a call at an earlier time finds is what the pure function would find.
    pub(crate) fn put(&mut self, kind: AlgorithmKind, key: u128, entry: Entry, now: Time) -> Option<Evicted> {
        let room = self.room_mut(kind);
        if let Some(old) = room.get_mut(key) {
            *old = entry;
            return None;
        }
        if entry.state.is_fresh(now) {
            return None;
        }
        let made = room.make_room(key, now);
        room.insert(key, entry);
        self.horizon = self.horizon.max(made.expired_at);
        let leases = kind == AlgorithmKind::Concurrency;
        made.evicted.map(|usage| Evicted { exhausted: usage.is_exhausted(), leases })
    }
}
