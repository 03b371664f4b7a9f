//! A bounded map behind a lock: states that do not fit one word, and keys without a slot in the table.

use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;
use tollgate_core::Time;
use tollgate_core::store::State;

/// How many entries an insertion examines for expired ones. With two, the sweep passes over all entries before as
/// many new ones arrive as are in use, so at most half of the entries are expired.
const SWEEP: usize = 2;
/// How many entries a full shard examines for the one that expires first.
const SAMPLE: usize = 16;

/// Returns the bits it is given: map keys are keyed hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the map's keys are u128 values");
    }

    #[expect(clippy::cast_possible_truncation, reason = "the upper half selects the shard")]
    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

/// The states of one shard, by [`KeyHash::map_key`](crate::key_hash::KeyHash::map_key).
#[derive(Debug)]
pub(crate) struct Shard {
    entries: IndexMap<u128, State, BuildHasherDefault<IdentityHasher>>,
    max_entries: usize,
    /// The index where the next sweep continues.
    cursor: usize,
}

impl Shard {
    pub(crate) fn new(max_entries: usize) -> Self {
        Self { entries: IndexMap::default(), max_entries: max_entries.max(1), cursor: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns how many states differ from a fresh one.
    pub(crate) fn live(&self, now: Time) -> usize {
        self.entries.values().filter(|state| !state.is_fresh(now)).count()
    }

    pub(crate) fn get(&self, key: u128) -> Option<&State> {
        self.entries.get(&key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: u128) -> Option<&mut State> {
        self.entries.get_mut(&key)
    }

    pub(crate) fn remove(&mut self, key: u128) {
        self.entries.swap_remove(&key);
    }

    /// Stores a state, or removes it if it equals a fresh one. Returns whether a live state was evicted.
    pub(crate) fn put(&mut self, key: u128, state: State, now: Time) -> bool {
        if state.is_fresh(now) {
            self.entries.swap_remove(&key);
            return false;
        }
        if let Some(old) = self.entries.get_mut(&key) {
            *old = state;
            return false;
        }
        let evicted = self.make_room(now);
        self.entries.insert(key, state);
        evicted
    }

    /// Removes some expired entries. If the shard is full of live ones, evicts the one that expires first of a
    /// sample.
    fn make_room(&mut self, now: Time) -> bool {
        let full = self.entries.len() >= self.max_entries;
        let mut first_to_expire: Option<(usize, Time)> = None;
        for _ in 0..if full { SAMPLE } else { SWEEP } {
            if self.cursor >= self.entries.len() {
                self.cursor = 0;
            }
            let Some((_, state)) = self.entries.get_index(self.cursor) else { break };
            if state.is_fresh(now) {
                self.entries.swap_remove_index(self.cursor);
                // The last entry is now at the cursor, so the recorded index may be wrong.
                first_to_expire = None;
            } else {
                if first_to_expire.is_none_or(|(_, time)| state.fresh_at() < time) {
                    first_to_expire = Some((self.cursor, state.fresh_at()));
                }
                self.cursor += 1;
            }
        }
        match first_to_expire {
            Some((index, _)) if self.entries.len() >= self.max_entries => {
                self.entries.swap_remove_index(index);
                true
            }
            Some(_) | None => false,
        }
    }
}
