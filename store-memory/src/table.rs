//! The lock-free table: one slot per key, as many slots per cache line as fit.
//!
//! A slot has a tag, which identifies the key, and a word, which every update exchanges; slots of windows also have a
//! cold word, which changes only while the slot is locked. What they mean is a [`Form`]: a theoretical arrival time is
//! a word (`tat`), windows are a word and a cold one (`windows`). A slot whose state has expired is equivalent to no
//! slot, so another key may take it over. No sweep is needed, and the number of keys is bounded by construction.
//!
//! # Correctness
//!
//! - **A short update** reads the slot and exchanges the word for its successor. Only some bits may change so
//!   ([`Form::UNLOCKED`]), and each form says why it does not matter if others have changed in between. The exchange
//!   must fail if another key has taken over the slot, which requires that the words differ; each form says why they
//!   do.
//! - **Any other update**, and a takeover, sets the lock bit of the word, compares the slot with what it has read,
//!   changes everything else, and then writes the new word. A thread that reads the new word afterwards sees the rest
//!   as well; a thread that has read the old word fails to exchange it, or finds something else beside it.
//! - **Torn reads**: a thread that reads what was written under a lock also sees that the word was locked, or what the
//!   word is now. So a word that is still the same shows that the slot was like this at some time in between.
//! - **A limit whose parameters change** finds the slot of its key under another tag, because the lowest bits of a
//!   tag are a digest of the parameters. It locks the slot, converts the state to the new parameters, and changes the
//!   tag.
//! - **No key is inserted twice**: inserting requires the lock of the key's shard, which the caller holds, and looks
//!   the key up once more under it. A state that no longer fits its slot moves to the shard under the same lock.
//! - **A request with several charges** holds the locks of its keys' shards and then sets the lock bits of their
//!   words. It waits for a lock bit only on the slots of its own keys, where only a short update or takeover can hold
//!   it, so there is no deadlock.

mod periods;
mod tat;
mod windows;

use tollgate_core::store::State;
use tollgate_core::{Charge, Decision, Time};

use crate::key_hash::{DIGEST_MASK, KeyHash};
use crate::sync::{AtomicU32, AtomicU64, Ordering, spin_loop, yield_now};

pub(crate) use tat::TatForm;
pub(crate) use windows::WindowsForm;

/// The table of theoretical arrival times: 16 bytes per slot.
pub(crate) type TatTable = Table<TatForm, 4, 0>;
/// The table of windows: 20 bytes per slot.
pub(crate) type WindowsTable = Table<WindowsForm, 3, 1>;

/// How many slots are probed for a key, those of its home line included. Beyond that the key spills.
const PROBED_SLOTS: usize = 16;
/// How many attempts an update makes on a contended slot.
const MAX_ATTEMPTS: usize = 64;

/// The lowest bit of every word: the slot is locked.
const LOCKED: u64 = 1;

/// How the states of one kind of limits are kept in slots with `COLD` cold words.
pub(crate) trait Form<const COLD: usize>: Default {
    /// A state, as slots keep it.
    type State: Copy + PartialEq + Default;

    /// The bits of the word that an update changes without the lock.
    const UNLOCKED: u64;

    fn decode(&self, content: &Content<COLD>) -> Self::State;

    /// Returns the next content of a slot that has `before`: for the key of `tag`, whose digest becomes that of the
    /// state. `None` if the state does not fit. `horizon` is that of the table.
    fn encode(
        &self,
        state: Self::State,
        tag: u64,
        before: &Content<COLD>,
        horizon: impl FnOnce() -> Time,
    ) -> Option<Content<COLD>>;

    /// Returns from when on the state equals a fresh one.
    fn fresh_at(state: Self::State) -> Time;

    /// Returns the instant after which another key may take over the slot. Its state equals a fresh one by then.
    fn free_at(&self, owner: &Content<COLD>) -> Time;

    fn to_core(state: Self::State) -> State;

    /// Returns `None` for a state that slots do not keep.
    fn from_core(state: &State) -> Option<Self::State>;

    /// Decides a charge, as [`State::apply`] does. Returns the new state, and `None` if it does not fit a slot.
    fn apply(state: Self::State, charge: &Charge<'_>, now: Time) -> (Decision, Option<Self::State>);

    /// Returns whether a state in a shard is offered a slot again although it has not expired.
    fn may_return(before: &State, after: &State) -> bool;
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content<const COLD: usize> {
    tag: u64,
    word: u64,
    cold: [u32; COLD],
}

/// A cache line: all words of a slot are in the same one.
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[derive(Debug)]
#[repr(C, align(64))]
struct Line<const SLOTS: usize, const COLD: usize> {
    tags: [AtomicU64; SLOTS],
    words: [AtomicU64; SLOTS],
    cold: [[AtomicU32; COLD]; SLOTS],
}

/// Allocates lines of empty slots, zeroed by the allocator: pages that are never touched use no memory.
#[cfg(not(loom))]
fn allocate<const SLOTS: usize, const COLD: usize>(lines: usize) -> Box<[Line<SLOTS, COLD>]> {
    use zerocopy::FromZeros;
    <[Line<SLOTS, COLD>]>::new_box_zeroed_with_elems(lines).expect("memory for the table")
}

#[cfg(loom)]
fn allocate<const SLOTS: usize, const COLD: usize>(lines: usize) -> Box<[Line<SLOTS, COLD>]> {
    use std::array::from_fn;
    let zero = || AtomicU64::new(0);
    (0..lines)
        .map(|_| Line {
            tags: from_fn(|_| zero()),
            words: from_fn(|_| zero()),
            cold: from_fn(|_| from_fn(|_| AtomicU32::new(0))),
        })
        .collect()
}

#[derive(Debug)]
pub(crate) struct Table<F, const SLOTS: usize, const COLD: usize> {
    lines: Box<[Line<SLOTS, COLD>]>,
    /// The time of the latest takeover of a slot.
    horizon: AtomicU64,
    form: F,
}

/// The result of an update.
pub(crate) enum Updated {
    /// The state was replaced, or did not have to be.
    Done(Decision),
    /// The key has no slot, or its next state does not fit one.
    Absent,
    /// The slot is locked or contended: take the shard's lock, and try again.
    Busy,
}

/// The result of probing one line for a key.
enum Probe<'t, const COLD: usize> {
    Found(Slot<'t, COLD>),
    /// The key is neither in this line nor in a later one.
    Absent,
    NextLine,
}

/// References to the words of a slot.
#[derive(Clone, Copy, Debug)]
struct Slot<'t, const COLD: usize> {
    tag: &'t AtomicU64,
    word: &'t AtomicU64,
    cold: &'t [AtomicU32; COLD],
}

impl<const COLD: usize> Slot<'_, COLD> {
    /// Reads the slot. `None` if it is locked, or was while it was read.
    #[inline]
    fn read(self) -> Option<Content<COLD>> {
        let word = self.word.load(Ordering::Acquire);
        // Acquire: a thread that sees what was written under a lock also sees that the word is locked or replaced.
        let cold = self.cold.each_ref().map(|cold| cold.load(Ordering::Acquire));
        let tag = self.tag.load(Ordering::Acquire);
        let is_torn = COLD > 0 && self.word.load(Ordering::Relaxed) != word;
        (word & LOCKED == 0 && !is_torn).then_some(Content { tag, word, cold })
    }

    /// Exchanges the word if it is still `seen`, and returns whether it was.
    #[inline]
    fn exchange(self, seen: u64, next: u64) -> bool {
        self.word.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Locks the slot if it still has this content, and returns whether it has.
    fn lock(self, content: &Content<COLD>) -> bool {
        if !self.exchange(content.word, content.word | LOCKED) {
            return false;
        }
        // The same word may stand beside something else by now.
        let cold = self.cold.each_ref().map(|cold| cold.load(Ordering::Relaxed));
        let is_same = (self.tag.load(Ordering::Relaxed), cold) == (content.tag, content.cold);
        if !is_same {
            self.word.store(content.word, Ordering::Release);
        }
        is_same
    }

    /// Replaces the content of a slot that this thread has locked, and unlocks it.
    fn unlock(self, content: &Content<COLD>) {
        for (cold, value) in self.cold.iter().zip(content.cold) {
            cold.store(value, Ordering::Release);
        }
        self.tag.store(content.tag, Ordering::Release);
        self.word.store(content.word, Ordering::Release);
    }
}

impl<F: Form<COLD>, const SLOTS: usize, const COLD: usize> Table<F, SLOTS, COLD> {
    /// Creates a table with at least `slots` slots.
    pub(crate) fn new(slots: usize) -> Self {
        let lines = allocate(slots.div_ceil(SLOTS).max(1));
        Self { lines, horizon: AtomicU64::new(0), form: F::default() }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// Returns the time of the latest takeover: every state that was dropped had expired by then.
    pub(crate) fn horizon(&self) -> Time {
        Time::from_nanos(self.horizon.load(Ordering::Acquire))
    }

    /// Returns the line where probing starts. The multiplication maps the hash evenly to any number of lines.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of lines")]
    fn home(&self, hash: KeyHash) -> usize {
        ((u128::from(hash.position) * self.lines.len() as u128) >> 64) as usize
    }

    /// Returns the lines that may hold a key, in probing order.
    fn probed_lines(&self, hash: KeyHash) -> impl Iterator<Item = &Line<SLOTS, COLD>> {
        let lines = (PROBED_SLOTS / SLOTS).min(self.lines.len());
        self.lines.iter().cycle().skip(self.home(hash)).take(lines)
    }

    #[inline]
    fn find(&self, hash: KeyHash) -> Option<Slot<'_, COLD>> {
        match Self::probe(&self.lines[self.home(hash)], hash) {
            Probe::Found(slot) => Some(slot),
            Probe::Absent => None,
            Probe::NextLine => self.find_beyond_home(hash),
        }
    }

    #[inline(never)]
    fn find_beyond_home(&self, hash: KeyHash) -> Option<Slot<'_, COLD>> {
        for line in self.probed_lines(hash).skip(1) {
            match Self::probe(line, hash) {
                Probe::Found(slot) => return Some(slot),
                Probe::Absent => return None,
                Probe::NextLine => {}
            }
        }
        None
    }

    #[inline]
    fn slot(line: &Line<SLOTS, COLD>, index: usize) -> Slot<'_, COLD> {
        Slot { tag: &line.tags[index], word: &line.words[index], cold: &line.cold[index] }
    }

    #[inline]
    fn probe(line: &Line<SLOTS, COLD>, hash: KeyHash) -> Probe<'_, COLD> {
        let mut empty = false;
        for index in 0..SLOTS {
            // Acquire: a thread that sees a new owner's tag also sees that the old word is locked or replaced.
            let tag = line.tags[index].load(Ordering::Acquire);
            if tag == hash.tag {
                return Probe::Found(Self::slot(line, index));
            }
            empty |= tag == 0;
        }
        // Slots never become empty again, so no key was ever inserted beyond a line that has an empty slot.
        if empty { Probe::Absent } else { Probe::NextLine }
    }

    /// Decides a charge on the state of its key, and replaces the state if it changes.
    #[inline]
    pub(crate) fn update(&self, hash: KeyHash, charge: &Charge<'_>, now: Time) -> Updated {
        let Some(slot) = self.find(hash) else { return Updated::Absent };
        for _ in 0..MAX_ATTEMPTS {
            let Some(before) = slot.read() else {
                spin_loop();
                continue;
            };
            if before.tag != hash.tag {
                // Another key has taken over the slot, so the state had expired; or it has moved to the shard.
                return Updated::Absent;
            }
            let state = self.form.decode(&before);
            let (decision, next) = F::apply(state, charge, now);
            if next == Some(state) {
                return Updated::Done(decision);
            }
            let next = next.and_then(|next| self.form.encode(next, hash.tag, &before, || self.horizon()));
            let Some(next) = next else { return Updated::Absent };
            if (next.tag, next.cold, next.word & !F::UNLOCKED)
                == (before.tag, before.cold, before.word & !F::UNLOCKED)
            {
                if slot.exchange(before.word, next.word) {
                    return Updated::Done(decision);
                }
            } else if slot.lock(&before) {
                slot.unlock(&next);
                return Updated::Done(decision);
            }
        }
        Updated::Busy
    }

    /// Gives the key a slot: an empty one, or an expired one. The caller holds the lock of the key's shard, and the
    /// key has neither a slot nor an entry there. Returns `false` if every probed slot is in use, or if the state does
    /// not fit one.
    ///
    /// A state that has expired already, as only a debit dated in the past creates, gets an empty slot or none. It
    /// need not be stored, and the next owner of a slot must write larger words than the previous one.
    pub(crate) fn insert(&self, hash: KeyHash, state: F::State, now: Time) -> bool {
        self.claim(hash, state, now, |owner| owner.tag == 0 && owner.word == 0)
            || F::fresh_at(state) <= now
            || self.claim(hash, state, now, |owner| owner.tag != 0 && self.form.free_at(owner) < now)
    }

    fn claim(
        &self,
        hash: KeyHash,
        state: F::State,
        now: Time,
        is_free: impl Fn(&Content<COLD>) -> bool,
    ) -> bool {
        for line in self.probed_lines(hash) {
            for index in 0..SLOTS {
                let slot = Self::slot(line, index);
                let Some(owner) = slot.read().filter(&is_free) else { continue };
                let next = self.form.encode(state, hash.tag, &owner, || self.horizon());
                let Some(next) = next.filter(|_| slot.lock(&owner)) else { continue };
                if owner.tag != 0 {
                    self.horizon.fetch_max(now.nanos(), Ordering::AcqRel);
                }
                slot.unlock(&next);
                return true;
            }
        }
        false
    }

    /// Returns the slot of the key and its tag, whatever the parameters that the state was written under.
    fn find_any_digest(&self, hash: KeyHash) -> Option<(Slot<'_, COLD>, u64)> {
        self.probed_lines(hash).find_map(|line| {
            (0..SLOTS).find_map(|index| {
                let tag = line.tags[index].load(Ordering::Acquire);
                hash.is_same_key(tag).then(|| (Self::slot(line, index), tag))
            })
        })
    }

    /// Locks the slot of the key, whatever the parameters that the state was written under. The caller holds the lock
    /// of the key's shard. Returns `None` if the key has no slot.
    pub(crate) fn lock(&self, hash: KeyHash) -> Option<LockedSlot<'_, F, SLOTS, COLD>> {
        loop {
            let (slot, tag) = self.find_any_digest(hash)?;
            let Some(before) = slot.read() else {
                yield_now();
                continue;
            };
            if before.tag == tag && slot.lock(&before) {
                return Some(LockedSlot { table: self, slot, before, after: before });
            }
        }
    }

    /// Returns the state of the key, if it has a slot.
    pub(crate) fn read(&self, hash: KeyHash) -> Option<F::State> {
        loop {
            let (slot, tag) = self.find_any_digest(hash)?;
            if let Some(content) = slot.read().filter(|content| content.tag == tag) {
                return Some(self.form.decode(&content));
            }
            yield_now();
        }
    }

    /// Returns how many slots hold a state that has not expired.
    pub(crate) fn live(&self, now: Time) -> usize {
        let slots = self.lines.iter().flat_map(|line| (0..SLOTS).map(|index| Self::slot(line, index)));
        slots.filter_map(Slot::read).filter(|content| F::fresh_at(self.form.decode(content)) > now).count()
    }
}

/// A slot that no other thread can change. Dropping it writes the state that was set last, and unlocks the slot.
#[derive(Debug)]
pub(crate) struct LockedSlot<'t, F, const SLOTS: usize, const COLD: usize> {
    table: &'t Table<F, SLOTS, COLD>,
    slot: Slot<'t, COLD>,
    before: Content<COLD>,
    after: Content<COLD>,
}

impl<F: Form<COLD>, const SLOTS: usize, const COLD: usize> LockedSlot<'_, F, SLOTS, COLD> {
    pub(crate) fn state(&self) -> State {
        F::to_core(self.table.form.decode(&self.before))
    }

    /// Sets the next state. Returns `false` if it does not fit: then the key gives up its slot, and the caller puts the
    /// state into the key's shard.
    #[must_use]
    pub(crate) fn set(&mut self, state: &State) -> bool {
        let next = F::from_core(state);
        let (form, before) = (&self.table.form, &self.before);
        if next == Some(form.decode(before)) {
            return true;
        }
        let next = next.and_then(|next| form.encode(next, before.tag, before, || self.table.horizon()));
        let fits = next.is_some();
        self.after = next.unwrap_or_else(|| self.vacated());
        fits
    }

    /// Returns the content of a slot that belongs to no key, because its tag has only a digest.
    fn vacated(&self) -> Content<COLD> {
        let (tag, unused) = (self.before.tag & DIGEST_MASK, F::State::default());
        let vacated = self.table.form.encode(unused, tag, &self.before, || self.table.horizon());
        vacated.unwrap_or(self.before)
    }
}

impl<F, const SLOTS: usize, const COLD: usize> Drop for LockedSlot<'_, F, SLOTS, COLD> {
    fn drop(&mut self) {
        self.slot.unlock(&self.after);
    }
}
