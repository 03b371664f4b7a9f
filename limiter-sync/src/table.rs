//! What is known here of each key: a bounded table in parts, each behind a lock.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;
use tollgate_core::{Charge, Key, Time};

use crate::copy::Copy;
use crate::pool::Pool;
use crate::terms::{Mode, Tracked};

/// Locks that the keys are spread over.
const SHARDS: usize = 64;
/// How many replicas an insertion looks at for ones that nobody needs any more.
const SWEEP: usize = 2;
/// How many a full shard looks at for the one that is needed least.
const SAMPLE: usize = 16;

/// A key and a limit's id.
#[derive(Clone, Debug)]
pub(crate) struct Whom {
    limit: u64,
    /// Where the entity begins.
    entity: u32,
    /// The namespace and the entity. Most are short enough to need no memory of their own.
    bytes: SmallVec<[u8; 28]>,
}

impl Whom {
    fn new(limit: u64, key: Key<'_>) -> Self {
        let mut bytes = SmallVec::from_slice(key.namespace());
        bytes.extend_from_slice(key.entity());
        // A namespace that long would not fit into memory twice.
        Self { limit, entity: u32::try_from(key.namespace().len()).unwrap_or(u32::MAX), bytes }
    }

    #[inline]
    fn is(&self, limit: u64, key: Key<'_>) -> bool {
        let (namespace, entity) = (key.namespace(), key.entity());
        self.limit == limit
            && self.entity as usize == namespace.len()
            && self.bytes.len() == namespace.len() + entity.len()
            && &self.bytes[..namespace.len()] == namespace
            && &self.bytes[namespace.len()..] == entity
    }

    pub(crate) fn key(&self) -> Key<'_> {
        let (namespace, entity) = self.bytes.split_at(self.entity as usize);
        Key::new(namespace, entity)
    }
}

/// By what a key is decided here.
#[derive(Debug)]
pub(crate) enum Ledger {
    /// A copy of the state.
    Copy(Copy),
    /// Tokens in hand.
    Pool(Pool),
}

/// What is known here of a key.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) ledger: Ledger,
    pub(crate) tracked: Arc<Tracked>,
    /// The next exchange will look at it.
    due: bool,
    /// Something of it is under way to the centre.
    pub(crate) busy: bool,
    /// It was exchanged, and what others told meanwhile is worth another look.
    pub(crate) look_again: bool,
    hash: u64,
    pub(crate) whom: Whom,
}

impl Replica {
    /// Whether it says nothing that a new one would not say, and nobody waits for anything of it.
    fn is_idle(&self, now: Time) -> bool {
        !self.due
            && !self.busy
            && match &self.ledger {
                Ledger::Copy(copy) => copy.state().is_fresh(now),
                Ledger::Pool(pool) => pool.is_idle(now),
            }
    }

    /// Whether the centre does not know all of it, or has lent something.
    pub(crate) fn owes(&self) -> bool {
        self.busy
            || match &self.ledger {
                Ledger::Copy(copy) => copy.owes(),
                Ledger::Pool(pool) => pool.tokens() > 0,
            }
    }

    /// Whether it may go when there is no room: the centre knows all of it.
    fn can_go(&self) -> bool {
        let waits = matches!(&self.ledger, Ledger::Pool(pool) if pool.filling().is_some());
        !self.due && !waits && !self.owes()
    }

    fn ends(&self) -> Time {
        match &self.ledger {
            Ledger::Copy(copy) => copy.state().fresh_at(),
            Ledger::Pool(_) => Time::EPOCH,
        }
    }
}

/// Where a replica is. Valid while it is due or busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shard: usize,
    pub(crate) index: usize,
}

/// A part of the table.
#[derive(Debug)]
pub(crate) struct Shard {
    places: HashTable<usize>,
    replicas: Slab<Replica>,
    most: usize,
    /// Where the sweep goes on.
    hand: usize,
    /// By beat, what the next exchange looks at.
    due: Vec<Vec<usize>>,
}

impl Shard {
    fn new(most: usize) -> Self {
        Self { places: HashTable::new(), replicas: Slab::new(), most, hand: 0, due: Vec::new() }
    }

    #[inline]
    pub(crate) fn find(&self, hash: u64, limit: u64, key: Key<'_>) -> Option<usize> {
        let found = self
            .places
            .find(hash, |index| self.replicas.get(*index).is_some_and(|replica| replica.whom.is(limit, key)));
        found.copied()
    }

    #[inline]
    pub(crate) fn get(&mut self, index: usize) -> Option<&mut Replica> {
        self.replicas.get_mut(index)
    }

    /// Sees to it that the next exchange looks at a replica.
    #[inline]
    pub(crate) fn make_due(&mut self, index: usize) {
        if let Some(replica) = self.replicas.get_mut(index)
            && !replica.due
        {
            replica.due = true;
            let beat = replica.tracked.beat;
            if self.due.len() <= beat {
                self.due.resize_with(beat + 1, Vec::new);
            }
            self.due[beat].push(index);
        }
    }

    /// What is due of a beat. Each stays where it is until [`begin`](Self::begin) is called for it.
    pub(crate) fn due(&mut self, beat: usize) -> Vec<usize> {
        self.due.get_mut(beat).map(std::mem::take).unwrap_or_default()
    }

    /// A replica that was due, and is no longer.
    pub(crate) fn begin(&mut self, index: usize) -> Option<&mut Replica> {
        let replica = self.replicas.get_mut(index)?;
        replica.due = false;
        Some(replica)
    }

    /// A replica for a key that has none; `None` if there is no room for it.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        charge: &Charge<'_>,
        tracked: Arc<Tracked>,
        ledger: Ledger,
        now: Time,
    ) -> Option<usize> {
        if !self.make_room(now) {
            return None;
        }
        let whom = Whom::new(charge.limit().id(), charge.key());
        let replica = Replica { ledger, tracked, due: false, busy: false, look_again: false, hash, whom };
        let index = self.replicas.insert(replica);
        let replicas = &self.replicas;
        self.places.insert_unique(hash, index, |index| replicas.get(*index).map_or(0, |known| known.hash));
        Some(index)
    }

    fn remove(&mut self, index: usize) {
        if let Some(replica) = self.replicas.try_remove(index)
            && let Ok(place) = self.places.find_entry(replica.hash, |known| *known == index)
        {
            place.remove();
        }
    }

    /// Drops some replicas that nobody needs. If the shard is full of others, the one nearest to idle goes, unless the
    /// centre does not know all of it.
    fn make_room(&mut self, now: Time) -> bool {
        let full = self.replicas.len() >= self.most;
        let mut nearest: Option<(usize, Time)> = None;
        // Slots that are empty cost a look, too.
        for _ in 0..if full { SAMPLE } else { SWEEP } {
            if self.hand >= self.replicas.capacity() {
                self.hand = 0;
            }
            if let Some(replica) = self.replicas.get(self.hand) {
                if replica.is_idle(now) {
                    self.remove(self.hand);
                } else if replica.can_go() && nearest.is_none_or(|(_, ends)| replica.ends() < ends) {
                    nearest = Some((self.hand, replica.ends()));
                }
            }
            self.hand += 1;
        }
        if self.replicas.len() < self.most {
            return true;
        }
        match nearest {
            Some((index, _)) => {
                self.remove(index);
                true
            }
            None => false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.replicas.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Replica)> {
        self.replicas.iter()
    }
}

/// All keys.
#[derive(Debug)]
pub(crate) struct Table {
    shards: Box<[Padded]>,
    hashes: foldhash::quality::RandomState,
}

/// A cache line of its own, so that one lock's callers do not slow down another's.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl Table {
    /// Room for so many keys.
    pub(crate) fn new(most: usize) -> Self {
        let shards = SHARDS.min(most.max(1));
        let per_shard = most.max(1).div_ceil(shards);
        Self {
            shards: (0..shards).map(|_| Padded(Mutex::new(Shard::new(per_shard)))).collect(),
            hashes: foldhash::quality::RandomState::default(),
        }
    }

    #[inline]
    pub(crate) fn hash(&self, charge: &Charge<'_>) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        charge.limit().id().hash(&mut hasher);
        let key = charge.key();
        if !key.namespace().is_empty() {
            hasher.write_usize(key.namespace().len());
            hasher.write(key.namespace());
        }
        hasher.write(key.entity());
        hasher.finish()
    }

    /// Which shard a hash belongs to. The table within takes the other bits.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        (hash >> 40) as usize % self.shards.len()
    }

    #[inline]
    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shards(&self) -> std::ops::Range<usize> {
        0..self.shards.len()
    }

    /// Does something with a replica that is due or busy, and therefore still there.
    pub(crate) fn with<T>(&self, place: Place, act: impl FnOnce(&mut Replica) -> T) -> Option<T> {
        self.lock(place.shard).get(place.index).map(act)
    }
}

/// A ledger for a limit's mode.
pub(crate) fn empty_ledger(tracked: &Tracked) -> Ledger {
    match tracked.mode {
        Mode::Deltas => Ledger::Copy(Copy::default()),
        Mode::Lease => Ledger::Pool(Pool::default()),
    }
}
