//! A bounded map: which states are removed when there is no room for another one.
//!
//! Eviction must not be a way to get a quota back. An attacker who has used up a key could otherwise flood the store
//! with other keys until that one is evicted. So the state that is evicted is the least used of a sample, and an
//! exhausted one only if a much larger sample has nothing else.

use std::cmp::Ordering;
use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;
use tollgate_core::store::State;
use tollgate_core::{Decision, Time};

/// How many entries an insertion examines for expired ones. With two, the sweep passes over all entries before as
/// many new ones arrive as are in use, so at most half of the entries are expired.
const SWEEP: usize = 2;
/// How many entries an insertion into a full room examines for the least used one.
const SAMPLE: usize = 16;
/// How many it examines if all of them are exhausted.
const MAX_SAMPLE: usize = 128;

/// Hashes a map key to bits of its own: map keys are keyed hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct KeyBits(u64);

impl Hasher for KeyBits {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the map's keys are u128 values");
    }

    /// A map places entries by the lowest bits, and tells neighbours apart by the highest ones. The lowest bits of a
    /// map key are zero, and all keys of a shard share the lowest bits of the upper half. The rotation moves those to
    /// where the map uses neither.
    fn write_u128(&mut self, key: u128) {
        self.0 = ((key >> 64) as u64).rotate_right(16);
    }
}

/// How much of its capacity a state had left at its last decision. It may have more by now, never less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    remaining: u32,
    capacity: u32,
}

impl Usage {
    #[inline]
    pub(crate) fn of(decision: &Decision) -> Self {
        Self { remaining: decision.remaining(), capacity: decision.limit() }
    }

    /// Returns whether nothing is left, as while a key is blocked.
    pub(crate) fn is_exhausted(self) -> bool {
        self.remaining == 0
    }

    /// Compares which part of the capacity is used.
    fn cmp(self, other: Self) -> Ordering {
        let used = |usage: Self| u64::from(usage.capacity.saturating_sub(usage.remaining));
        (used(self) * u64::from(other.capacity)).cmp(&(used(other) * u64::from(self.capacity)))
    }
}

/// A state, and how much of its limit is used.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) state: State,
    pub(crate) usage: Usage,
}

impl Entry {
    /// Returns whether evicting this entry loses less than evicting the other one: less of its capacity is used, or as
    /// much but for less than half of the time. Of entries that are alike, any is evicted: if it were the oldest, its
    /// owner could flood the store to be rid of it, and if it were the newest, a new key would never be limited.
    fn is_worth_less(&self, other: &Self, now: Time) -> bool {
        let lifetime = |entry: &Self| entry.state.fresh_at().nanos().saturating_sub(now.nanos());
        match self.usage.cmp(other.usage) {
            Ordering::Less => true,
            Ordering::Equal => lifetime(self) < lifetime(other) / 2,
            Ordering::Greater => false,
        }
    }
}

/// What [`Room::make_room`] has removed.
pub(crate) struct Removed {
    /// The time by which every expired state that was removed had expired; the epoch if there was none.
    pub(crate) expired_at: Time,
    /// How much was used of the live state that was evicted.
    pub(crate) evicted: Option<Usage>,
}

/// A bounded map of states.
pub(crate) struct Room {
    entries: IndexMap<u128, Entry, BuildHasherDefault<KeyBits>>,
    max_entries: usize,
    /// The index where the next sweep continues.
    cursor: usize,
}

impl Room {
    pub(crate) fn new(max_entries: usize) -> Self {
        Self { entries: IndexMap::default(), max_entries: max_entries.max(1), cursor: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn live(&self, now: Time) -> usize {
        self.entries.values().filter(|entry| !entry.state.is_fresh(now)).count()
    }

    pub(crate) fn get(&self, key: u128) -> Option<&Entry> {
        self.entries.get(&key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: u128) -> Option<&mut Entry> {
        self.entries.get_mut(&key)
    }

    /// Removes an entry, and returns when its state has expired.
    pub(crate) fn remove(&mut self, key: u128) -> Option<Time> {
        self.entries.swap_remove(&key).map(|entry| entry.state.fresh_at())
    }

    pub(crate) fn insert(&mut self, key: u128, entry: Entry) {
        self.entries.insert(key, entry);
    }

    /// Makes room for the entry of `key`: removes some expired entries. If the room is full of live ones, evicts the
    /// least used of a sample.
    pub(crate) fn make_room(&mut self, key: u128, now: Time) -> Removed {
        if self.entries.len() >= self.max_entries {
            self.cursor = self.random_index(key);
        }
        let mut expired_at = Time::EPOCH;
        let mut least_used: Option<usize> = None;
        let mut examined = 0;
        while examined < self.sample(least_used) {
            examined += 1;
            if self.cursor >= self.entries.len() {
                self.cursor = 0;
            }
            let Some((_, entry)) = self.entries.get_index(self.cursor) else { break };
            if entry.state.is_fresh(now) {
                expired_at = expired_at.max(entry.state.fresh_at());
                // The last entry moves to the cursor, so nothing recorded is valid; there is room now.
                self.entries.swap_remove_index(self.cursor);
                least_used = None;
                continue;
            }
            if least_used.is_none_or(|least| entry.is_worth_less(&self.entries[least], now)) {
                least_used = Some(self.cursor);
            }
            self.cursor += 1;
        }
        let evicted = match least_used {
            Some(index) if self.entries.len() >= self.max_entries => {
                self.entries.swap_remove_index(index).map(|(_, entry)| entry.usage)
            }
            Some(_) | None => None,
        };
        Removed { expired_at, evicted }
    }

    /// Returns where the sample starts: nobody can predict a keyed hash, so of entries that are alike any may be
    /// evicted.
    fn random_index(&self, key: u128) -> usize {
        (key >> 96) as usize % self.entries.len()
    }

    /// Returns how many entries to examine, by the least used one so far.
    fn sample(&self, least_used: Option<usize>) -> usize {
        if self.entries.len() < self.max_entries {
            return SWEEP;
        }
        match least_used {
            Some(index) if self.entries[index].usage.is_exhausted() => MAX_SAMPLE.min(self.entries.len()),
            Some(_) | None => SAMPLE,
        }
    }
}

/// Returns the hash by which the map of a room finds a key.
#[cfg(all(test, not(loom)))]
pub(crate) fn map_hash(key: u128) -> u64 {
    use std::hash::BuildHasher;
    BuildHasherDefault::<KeyBits>::default().hash_one(key)
}
