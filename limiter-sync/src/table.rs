//! What is known here of each key: a bounded table in parts, each behind a lock.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;
use tollgate_core::{Charge, Key, Time};

use crate::mirror::Mirror;
use crate::pool::Pool;
use crate::terms::{Mode, Stretch, Tracked};

/// Locks that the keys are spread over.
const SHARDS: usize = 64;
/// How long a caller stays away from a lock that is taken, each time it tries, before it sleeps.
const PAUSES: [u32; 8] = [4, 8, 16, 32, 32, 32, 32, 32];
/// How many replicas an insertion looks at for ones that nobody needs any more.
const SWEEP: usize = 2;
/// How many a full shard looks at for the one that is needed least.
const SAMPLE: usize = 16;

/// What a limit and a key are known by: two keyed hashes. One says where to look, the other what to look for. Nobody outside sees
/// them, and a new key meets one that it is compared with by chance with a probability of about one in ten trillion, as in the memory
/// store, so keys themselves are read by exchanges only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Print {
    place: u64,
    tag: Tag,
}

/// 40 bits: what is left of a line of the cache.
type Tag = [u8; 5];

/// A key, and its place in the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whom {
    place: u64,
    /// Where the entity begins.
    entity: u32,
    /// The namespace and the entity. Most are short enough to need no memory of their own.
    bytes: SmallVec<[u8; 28]>,
}

impl Whom {
    fn new(place: u64, key: Key<'_>) -> Self {
        let mut bytes = SmallVec::from_slice(key.namespace());
        bytes.extend_from_slice(key.entity());
        // A namespace that long would not fit into memory twice.
        Self { place, entity: u32::try_from(key.namespace().len()).unwrap_or(u32::MAX), bytes }
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
    Mirror(Mirror),
    /// Tokens in hand.
    Pool(Box<Pool>),
}

/// What is known here of a key, and all that nearly every decision touches: one line of the cache.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Replica {
    pub(crate) ledger: Ledger,
    pub(crate) tracked: Arc<Tracked>,
    tag: Tag,
    standing: Standing,
    /// How many more looks what others tell meanwhile is worth.
    pub(crate) looks: u8,
    /// The stretch of time in which the centre told something of it last, if it has.
    told_in: Option<Stretch>,
}

const _: () = assert!(size_of::<Replica>() == 64, "one line of the cache");

/// Where a replica stands with the exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// They need not look at it.
    Idle,
    /// The next one will look at it.
    Due,
    /// Something of it is under way to the centre.
    Busy,
    /// Both.
    BusyAndDue,
}

impl Replica {
    fn is_due(&self) -> bool {
        matches!(self.standing, Standing::Due | Standing::BusyAndDue)
    }

    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.standing, Standing::Busy | Standing::BusyAndDue)
    }

    fn set_due(&mut self, due: bool) {
        self.stand(due, self.is_busy());
    }

    pub(crate) fn set_busy(&mut self, busy: bool) {
        self.stand(self.is_due(), busy);
    }

    fn stand(&mut self, due: bool, busy: bool) {
        self.standing = match (due, busy) {
            (false, false) => Standing::Idle,
            (true, false) => Standing::Due,
            (false, true) => Standing::Busy,
            (true, true) => Standing::BusyAndDue,
        };
    }

    /// Whether it has denied for so long that it is worth a look whether somebody has given something back meanwhile, or made the
    /// centre forget. What it knows itself, it needs no look for.
    #[inline]
    pub(crate) fn may_have_changed(&self, now: Time) -> bool {
        self.told_in.is_none_or(|told_in| self.tracked.stretch(now).is_long_after(told_in))
    }

    /// The centre has told something of it, so that what it knows goes by the centre's clock.
    pub(crate) fn was_told(&mut self, now: Time) {
        self.told_in = Some(self.tracked.stretch(now));
    }

    pub(crate) fn is_told(&self) -> bool {
        self.told_in.is_some()
    }

    /// Whether it says nothing that a new one would not say, and nobody waits for anything of it.
    fn is_idle(&self, now: Time) -> bool {
        self.standing == Standing::Idle
            && match &self.ledger {
                Ledger::Mirror(mirror) => mirror.fresh_at() <= now,
                Ledger::Pool(pool) => pool.is_idle(now),
            }
    }

    /// Whether the centre does not know all of it, or has lent something.
    pub(crate) fn owes(&self) -> bool {
        self.is_busy()
            || match &self.ledger {
                Ledger::Mirror(mirror) => mirror.owes(),
                Ledger::Pool(pool) => pool.owes(),
            }
    }

    /// Whether the next exchange should look at it. A pool is looked at for as long as it is used.
    pub(crate) fn wants_exchange(&self) -> bool {
        match &self.ledger {
            Ledger::Mirror(mirror) => mirror.wants_exchange(),
            Ledger::Pool(_) => true,
        }
    }

    /// Whether it may go when there is no room: the centre knows all of it.
    fn can_go(&self) -> bool {
        !self.is_due() && !self.owes()
    }

    fn ends(&self) -> Time {
        match &self.ledger {
            Ledger::Mirror(mirror) => mirror.fresh_at(),
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
    places: HashTable<u32>,
    replicas: Slab<Replica>,
    /// Whom each replica is about. Apart from them, because only exchanges ask.
    whom: Vec<Whom>,
    most: usize,
    /// Where the sweep goes on.
    hand: usize,
    /// Replicas that had to go although they were in use, and until when one of them would have known something.
    forgotten: u64,
    forgot_until: Time,
    /// By beat, what the next exchange looks at.
    due: Vec<Vec<usize>>,
}

impl Shard {
    fn new(most: usize) -> Self {
        let (places, replicas, whom, due) = (HashTable::new(), Slab::new(), Vec::new(), Vec::new());
        Self { places, replicas, whom, most, hand: 0, forgotten: 0, forgot_until: Time::EPOCH, due }
    }

    #[inline]
    pub(crate) fn find(&self, print: Print) -> Option<usize> {
        let is = |index: &u32| self.replicas.get(*index as usize).is_some_and(|known| known.tag == print.tag);
        self.places.find(print.place, is).map(|index| *index as usize)
    }

    #[inline]
    pub(crate) fn get(&mut self, index: usize) -> Option<&mut Replica> {
        self.replicas.get_mut(index)
    }

    /// Sees to it that the next exchange looks at a replica.
    #[inline]
    pub(crate) fn make_due(&mut self, index: usize) {
        if let Some(replica) = self.replicas.get_mut(index)
            && !replica.is_due()
        {
            replica.set_due(true);
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
    pub(crate) fn begin(&mut self, index: usize) -> Option<(&mut Replica, &Whom)> {
        let (replica, whom) = self.both(index)?;
        replica.set_due(false);
        Some((replica, whom))
    }

    /// A replica, and whom it is about.
    pub(crate) fn both(&mut self, index: usize) -> Option<(&mut Replica, &Whom)> {
        Some((self.replicas.get_mut(index)?, self.whom.get(index)?))
    }

    /// A replica for a key that has none; `None` if there is no room for it.
    pub(crate) fn insert(
        &mut self,
        print: Print,
        key: Key<'_>,
        tracked: Arc<Tracked>,
        ledger: Ledger,
        now: Time,
    ) -> Option<usize> {
        if !self.make_room(now) {
            return None;
        }
        let (tag, standing) = (print.tag, Standing::Idle);
        let replica = Replica { ledger, tracked, tag, standing, looks: 0, told_in: None };
        let index = self.replicas.insert(replica);
        if self.whom.len() <= index {
            self.whom.resize_with(index + 1, Whom::default);
        }
        self.whom[index] = Whom::new(print.place, key);
        let whom = &self.whom;
        let place = |index: &u32| whom.get(*index as usize).map_or(0, |whom| whom.place);
        self.places.insert_unique(print.place, u32::try_from(index).unwrap_or(u32::MAX), place);
        Some(index)
    }

    fn remove(&mut self, index: usize) {
        if self.replicas.try_remove(index).is_some() {
            let Whom { place, .. } = std::mem::take(&mut self.whom[index]);
            if let Ok(known) = self.places.find_entry(place, |known| *known as usize == index) {
                known.remove();
            }
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
            Some((index, ends)) => {
                self.remove(index);
                self.forgotten += 1;
                self.forgot_until = self.forgot_until.max(ends);
                true
            }
            None => false,
        }
    }

    /// Whether a key that is not here may have been, and had to go before its time.
    pub(crate) fn may_have_forgotten(&self, now: Time) -> bool {
        now < self.forgot_until
    }

    /// How many keys had to go before their time.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
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
    places: foldhash::quality::RandomState,
    tags: foldhash::quality::RandomState,
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
            places: foldhash::quality::RandomState::default(),
            tags: foldhash::quality::RandomState::default(),
        }
    }

    #[inline]
    pub(crate) fn print(&self, charge: &Charge<'_>) -> Print {
        let bytes = hashed(self.tags.build_hasher(), charge).to_be_bytes();
        let tag = bytes.first_chunk().copied().unwrap_or_default();
        Print { place: hashed(self.places.build_hasher(), charge), tag }
    }

    /// Which shard a key belongs to. The table within takes the other bits.
    #[inline]
    pub(crate) fn shard_of(&self, print: Print) -> usize {
        (print.place >> 40) as usize % self.shards.len()
    }

    #[inline]
    pub(crate) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        let mutex = &self.shards[shard].0;
        // It is held for nanoseconds, and to be woken takes microseconds. Who waits stays away for longer and longer: whoever
        // has the key's memory at hand is done sooner than that could change sides each time.
        for pause in PAUSES {
            match mutex.try_lock() {
                Ok(guard) => return guard,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => (0..pause).for_each(|_| std::hint::spin_loop()),
            }
        }
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shards(&self) -> std::ops::Range<usize> {
        0..self.shards.len()
    }

    /// Does something with a replica that is due or busy, and therefore still there.
    pub(crate) fn with<T>(&self, place: Place, act: impl FnOnce(&mut Replica) -> T) -> Option<T> {
        self.lock(place.shard).get(place.index).map(act)
    }
}

#[inline]
fn hashed(mut hasher: impl Hasher, charge: &Charge<'_>) -> u64 {
    charge.limit().id().hash(&mut hasher);
    let key = charge.key();
    if !key.namespace().is_empty() {
        hasher.write_usize(key.namespace().len());
        hasher.write(key.namespace());
    }
    hasher.write(key.entity());
    hasher.finish()
}

/// A ledger for a limit's mode.
pub(crate) fn empty_ledger(tracked: &Tracked) -> Ledger {
    match tracked.mode {
        Mode::Deltas => Ledger::Mirror(Mirror::default()),
        Mode::Lease => Ledger::Pool(Box::default()),
    }
}
