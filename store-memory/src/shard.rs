//! States that do not fit a word, and keys that found no slot in the table: a bounded map behind a lock.

use std::hash::{BuildHasherDefault, Hasher};

use indexmap::IndexMap;
use tollgate_core::Time;
use tollgate_core::store::State;

/// How many entries an insertion looks at for ones that are past. With two, the hand comes round before more have
/// come than were in use, so at most half of the entries are past.
const SWEEP: usize = 2;
/// How many entries a full shard looks at for the one nearest to idle.
const SAMPLE: usize = 16;

/// Passes the fingerprint's own bits on: it is a keyed hash already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed here");
    }

    #[expect(clippy::cast_possible_truncation, reason = "the half that is not the place")]
    fn write_u128(&mut self, print: u128) {
        self.0 = print as u64;
    }
}

/// A part of the states, behind one lock.
#[derive(Debug)]
pub(crate) struct Shard {
    entries: IndexMap<u128, State, BuildHasherDefault<Hashed>>,
    most: usize,
    /// Where the sweep goes on.
    hand: usize,
}

impl Shard {
    pub(crate) fn new(most: usize) -> Self {
        Self { entries: IndexMap::default(), most: most.max(1), hand: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn live(&self, now: Time) -> usize {
        self.entries.values().filter(|state| !state.is_fresh(now)).count()
    }

    pub(crate) fn get(&self, print: u128) -> Option<&State> {
        self.entries.get(&print)
    }

    /// A state, to change it where it is.
    #[inline]
    pub(crate) fn get_mut(&mut self, print: u128) -> Option<&mut State> {
        self.entries.get_mut(&print)
    }

    pub(crate) fn remove(&mut self, print: u128) {
        self.entries.swap_remove(&print);
    }

    /// Stores a state, or drops it if it is past. Says whether another one that was in use had to go.
    pub(crate) fn put(&mut self, print: u128, state: State, now: Time) -> bool {
        if state.is_fresh(now) {
            self.entries.swap_remove(&print);
            return false;
        }
        if let Some(old) = self.entries.get_mut(&print) {
            *old = state;
            return false;
        }
        let evicted = self.make_room(now);
        self.entries.insert(print, state);
        evicted
    }

    /// Drops some entries that are past. If the shard is full of others, the one nearest to idle goes.
    fn make_room(&mut self, now: Time) -> bool {
        let full = self.entries.len() >= self.most;
        let mut nearest: Option<(usize, Time)> = None;
        for _ in 0..if full { SAMPLE } else { SWEEP } {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let Some((_, state)) = self.entries.get_index(self.hand) else { break };
            if state.is_fresh(now) {
                self.entries.swap_remove_index(self.hand);
                // The last entry has moved to where the hand is.
                nearest = None;
            } else {
                if nearest.is_none_or(|(_, time)| state.fresh_at() < time) {
                    nearest = Some((self.hand, state.fresh_at()));
                }
                self.hand += 1;
            }
        }
        match nearest {
            Some((index, _)) if self.entries.len() >= self.most => {
                self.entries.swap_remove_index(index);
                true
            }
            _ => false,
        }
    }
}
