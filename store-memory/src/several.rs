//! A request with several charges: locks all of its states, decides, and writes what has changed.

use smallvec::SmallVec;
use tollgate_core::store::{State, settle, state_indexes};
use tollgate_core::{Charge, Limit, Time, Verdict};

use crate::key_hash::KeyHash;
use crate::shard::{Entry, Shard, Usage};
use crate::store::{Change, Kept, MemoryStore};
use crate::sync::{MutexGuard, lock};
use crate::table::{LockedSlot, TatForm, WindowsForm};

impl MemoryStore {
    /// Decides a request with several charges: locks all of their states first.
    pub(crate) fn decide_several(&self, charges: &[Charge<'_>], now: Time) -> Verdict {
        let (indexes, count) = state_indexes(charges);
        let mut locked = self.lock_states(charges, &indexes, count);
        let now = now.max(self.horizon_of_new(&locked));
        let mut states: SmallVec<[State; 4]> =
            locked.states.iter().map(|locked| locked.before.clone()).collect();
        let verdict = settle(charges, &indexes, &mut states, now);
        // States that have not changed are written, too: comparing them would take longer, if one is a long log.
        for (index, state) in states.into_iter().enumerate() {
            // The last charge of several on one state tells what is left of it.
            let last = indexes.iter().rposition(|state| *state == index).unwrap_or(index);
            let usage = Usage::of(&verdict.decisions()[last]);
            self.write(&mut locked, index, Entry { state, usage }, now);
        }
        verdict
    }

    /// Returns the time at which a request is decided, if the caller's is earlier: the latest horizon of its new keys.
    fn horizon_of_new(&self, locked: &LockedStates<'_>) -> Time {
        let new = locked.states.iter().filter(|state| state.is_new);
        let horizons = new.filter_map(|state| {
            let shard = &locked.shards.iter().find(|(index, _)| *index == self.shard_of(state.hash))?.1;
            let table = match Kept::of(state.limit) {
                Kept::Tat => self.tats().horizon(),
                Kept::Windows => self.windows().horizon(),
                Kept::Shard => Time::EPOCH,
            };
            Some(shard.horizon().max(table))
        });
        horizons.max().unwrap_or(Time::EPOCH)
    }

    /// Locks the shards of all keys, in ascending order, and then the slots of the keys that have one.
    fn lock_states<'s>(
        &'s self,
        charges: &[Charge<'s>],
        indexes: &[usize],
        count: usize,
    ) -> LockedStates<'s> {
        let mut hashes: SmallVec<[(KeyHash, &Limit); 4]> = SmallVec::new();
        for (charge, index) in charges.iter().zip(indexes) {
            if *index == hashes.len() {
                hashes.push((self.hasher.hash(charge, self.digest(charge.limit())), charge.limit()));
            }
        }
        debug_assert_eq!(hashes.len(), count, "one hash per state");
        let mut order: SmallVec<[usize; 4]> = hashes.iter().map(|(hash, _)| self.shard_of(*hash)).collect();
        order.sort_unstable();
        order.dedup();
        let shards: SmallVec<[_; 4]> =
            order.into_iter().map(|index| (index, lock(&self.shards[index]))).collect();
        let states = hashes
            .into_iter()
            .map(|(hash, limit)| {
                let slot = match Kept::of(limit) {
                    Kept::Tat => self.tats().lock(hash).map(AnySlot::Tat),
                    Kept::Windows => self.windows().lock(hash).map(AnySlot::Windows),
                    Kept::Shard => None,
                };
                let stored = || {
                    let index = self.shard_of(hash);
                    let shard = &shards.iter().find(|(shard, _)| *shard == index)?.1;
                    shard.get(limit.kind(), hash.map_key()).cloned()
                };
                let found = slot.as_ref().map(AnySlot::state).or_else(stored);
                let is_new = found.is_none();
                LockedState { hash, limit, slot, is_new, before: found.unwrap_or_default() }
            })
            .collect();
        LockedStates { states, shards }
    }

    fn write(&self, locked: &mut LockedStates<'_>, index: usize, entry: Entry, now: Time) {
        let LockedState { hash, limit, ref mut slot, is_new, ref before } = locked.states[index];
        if slot.as_mut().is_some_and(|slot| slot.set(&entry.state)) {
            return;
        }
        let home = self.shard_of(hash);
        let Some((_, shard)) = locked.shards.iter_mut().find(|(shard, _)| *shard == home) else { return };
        let kind = limit.kind();
        if slot.is_some() {
            return self.spill(shard, hash, kind, entry, now);
        }
        let change = Change { stored: (!is_new).then_some(before), entry };
        match Kept::of(limit) {
            Kept::Tat => self.store(self.tats(), shard, hash, kind, change, now),
            Kept::Windows => self.store(self.windows(), shard, hash, kind, change, now),
            Kept::Shard => self.put(shard, hash, kind, change.entry, now),
        }
    }
}

/// All states of a request, locked.
struct LockedStates<'s> {
    // Declared first, so that slots are unlocked before shards.
    states: SmallVec<[LockedState<'s>; 4]>,
    shards: SmallVec<[(usize, MutexGuard<'s, Shard>); 4]>,
}

struct LockedState<'s> {
    hash: KeyHash,
    limit: &'s Limit,
    slot: Option<AnySlot<'s>>,
    /// The key has neither a slot nor an entry in its shard.
    is_new: bool,
    before: State,
}

/// A locked slot of either table.
enum AnySlot<'s> {
    Tat(LockedSlot<'s, TatForm, 4, 0>),
    Windows(LockedSlot<'s, WindowsForm, 3, 1>),
}

impl AnySlot<'_> {
    fn state(&self) -> State {
        match self {
            Self::Tat(slot) => slot.state(),
            Self::Windows(slot) => slot.state(),
        }
    }

    #[must_use]
    fn set(&mut self, state: &State) -> bool {
        match self {
            Self::Tat(slot) => slot.set(state),
            Self::Windows(slot) => slot.set(state),
        }
    }
}
