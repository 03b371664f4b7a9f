//! The keys with a local entry: a bounded hash table in shards, each behind a lock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use hashbrown::HashTable;
use slab::Slab;
use tollgate_core::{Charge, Key, Time};

use super::entry::{Entry, StoredKey};
pub(crate) use super::key_hash::KeyHash;
use super::key_hash::KeyHasher;
use super::state::LocalState;
use crate::config::LimitConfig;

/// How many shards there are.
const SHARDS: usize = 64;
/// How long a caller spins after each failed attempt to take a lock, before it sleeps.
const SPINS: [u32; 8] = [4, 8, 16, 32, 32, 32, 32, 32];
/// How many entries an insertion checks for idle ones.
const SWEEP: usize = 2;
/// How many entries an insertion into a full shard checks for the one to evict.
const SAMPLE: usize = 16;

/// The position of an entry. Valid while the entry is due or in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) shard: usize,
    pub(crate) index: usize,
}

/// A part of the table.
#[derive(Debug)]
pub(crate) struct Shard {
    indices: HashTable<u32>,
    entries: Slab<Entry>,
    /// The keys of the entries, by the same index.
    keys: Vec<StoredKey>,
    max_entries: usize,
    /// Where the sweep for idle entries continues.
    sweep_at: usize,
    /// How many entries were evicted while in use, and until when the state of one of them differs from a fresh one.
    evicted: u64,
    evicted_until: Time,
    /// The entries that the next sync round includes, by interval.
    due: Vec<Vec<usize>>,
}

impl Shard {
    fn new(max_entries: usize) -> Self {
        Self {
            indices: HashTable::new(),
            entries: Slab::new(),
            keys: Vec::new(),
            max_entries,
            sweep_at: 0,
            evicted: 0,
            evicted_until: Time::EPOCH,
            due: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn find(&self, hash: KeyHash) -> Option<usize> {
        let is = |index: &u32| self.entries.get(*index as usize).is_some_and(|entry| entry.tag == hash.tag);
        self.indices.find(hash.hash, is).map(|index| *index as usize)
    }

    #[inline]
    pub(crate) fn get(&mut self, index: usize) -> Option<&mut Entry> {
        self.entries.get_mut(index)
    }

    /// Returns an entry and its key.
    pub(crate) fn get_with_key(&mut self, index: usize) -> Option<(&mut Entry, &StoredKey)> {
        Some((self.entries.get_mut(index)?, self.keys.get(index)?))
    }

    /// Includes an entry in the next sync round.
    #[inline]
    pub(crate) fn make_due(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index)
            && !entry.is_due()
        {
            entry.set_due(true);
            let interval = entry.config.interval_index;
            if self.due.len() <= interval {
                self.due.resize_with(interval + 1, Vec::new);
            }
            self.due[interval].push(index);
        }
    }

    /// Takes the list of due entries of an interval. Each stays due until [`start_sync`](Self::start_sync) is called.
    pub(crate) fn take_due(&mut self, interval: usize) -> Vec<usize> {
        self.due.get_mut(interval).map(std::mem::take).unwrap_or_default()
    }

    /// Returns an entry that was due, with its key. It is not due any more.
    pub(crate) fn start_sync(&mut self, index: usize) -> Option<(&mut Entry, &StoredKey)> {
        let (entry, key) = self.get_with_key(index)?;
        entry.set_due(false);
        Some((entry, key))
    }

    /// Adds an entry for a key that has none. `None` if there is no room for it.
    pub(crate) fn insert(
        &mut self,
        hash: KeyHash,
        key: Key<'_>,
        config: Arc<LimitConfig>,
        state: LocalState,
        now: Time,
    ) -> Option<usize> {
        if !self.make_room(now) {
            return None;
        }
        let KeyHash { hash, tag } = hash;
        let index = self.entries.insert(Entry::new(state, config, tag));
        if self.keys.len() <= index {
            self.keys.resize_with(index + 1, StoredKey::default);
        }
        self.keys[index] = StoredKey::new(hash, key);
        let keys = &self.keys;
        let hash_of = |index: &u32| keys.get(*index as usize).map_or(0, |key| key.hash);
        self.indices.insert_unique(hash, u32::try_from(index).unwrap_or(u32::MAX), hash_of);
        Some(index)
    }

    fn remove(&mut self, index: usize) {
        if self.entries.try_remove(index).is_some() {
            let StoredKey { hash, .. } = std::mem::take(&mut self.keys[index]);
            if let Ok(found) = self.indices.find_entry(hash, |known| *known as usize == index) {
                found.remove();
            }
        }
    }

    /// Removes some idle entries. If the shard is still full, evicts the entry that is idle soonest, among those that
    /// can be evicted. Returns whether there is room.
    fn make_room(&mut self, now: Time) -> bool {
        let full = self.entries.len() >= self.max_entries;
        let mut soonest: Option<(usize, Time)> = None;
        // Vacant positions count, too: checking one takes time.
        for _ in 0..if full { SAMPLE } else { SWEEP } {
            if self.sweep_at >= self.entries.capacity() {
                self.sweep_at = 0;
            }
            if let Some(entry) = self.entries.get(self.sweep_at) {
                let fresh_at = entry.state.fresh_at();
                if entry.is_idle(now) {
                    self.remove(self.sweep_at);
                } else if entry.is_evictable() && soonest.is_none_or(|(_, known)| fresh_at < known) {
                    soonest = Some((self.sweep_at, fresh_at));
                }
            }
            self.sweep_at += 1;
        }
        if self.entries.len() < self.max_entries {
            return true;
        }
        match soonest {
            Some((index, fresh_at)) => {
                self.remove(index);
                self.evicted += 1;
                self.evicted_until = self.evicted_until.max(fresh_at);
                true
            }
            None => false,
        }
    }

    /// Returns whether a key without an entry may have had one that was evicted while in use.
    pub(crate) fn may_have_evicted(&self, now: Time) -> bool {
        now < self.evicted_until
    }

    /// Returns how many entries were evicted while in use.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|(_, entry)| entry)
    }
}

/// All keys.
pub(crate) struct EntryTable {
    shards: Box<[Padded]>,
    hasher: KeyHasher,
}

/// Cache lines of its own, so that the callers of one lock do not slow down those of another.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl EntryTable {
    pub(crate) fn new(max_keys: usize) -> Self {
        let shards = SHARDS.min(max_keys.max(1));
        let per_shard = max_keys.max(1).div_ceil(shards);
        Self {
            shards: (0..shards).map(|_| Padded(Mutex::new(Shard::new(per_shard)))).collect(),
            hasher: KeyHasher::new(),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, charge: &Charge<'_>) -> KeyHash {
        self.hasher.hash(charge)
    }

    /// Returns the shard of a key. The hash table within uses the lowest bits and the highest ones.
    #[inline]
    pub(crate) fn shard_of(&self, hash: KeyHash) -> usize {
        // A product instead of a remainder: a division takes as long as the rest of the look-up.
        let part = hash.hash.to_be_bytes();
        (usize::from(u16::from_be_bytes([part[1], part[2]])) * self.shards.len()) >> u16::BITS
    }

    #[inline]
    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        let mutex = &self.shards[shard].0;
        match mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => wait_for(mutex),
        }
    }

    pub(crate) fn shards(&self) -> std::ops::Range<usize> {
        0..self.shards.len()
    }

    /// Calls `act` with the shard of a key, and the index of its entry.
    pub(crate) fn with<T>(
        &self,
        hash: KeyHash,
        act: impl FnOnce(&mut Shard, usize) -> Option<T>,
    ) -> Option<T> {
        let mut shard = self.lock(self.shard_of(hash));
        let index = shard.find(hash)?;
        act(&mut shard, index)
    }
}

/// Waits for a lock that another caller holds.
#[cold]
fn wait_for(mutex: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A lock is held for nanoseconds, and waking a thread takes microseconds. A waiting caller backs off: the one that
    // has the memory in its cache finishes sooner than the cache lines could move back and forth.
    for spins in SPINS {
        (0..spins).for_each(|_| std::hint::spin_loop());
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for EntryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryTable").field("shards", &self.shards).finish_non_exhaustive()
    }
}
