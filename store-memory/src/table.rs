//! The lock-free table: one slot per key, two words per slot, four slots per cache line.
//!
//! A slot is a tag (which key) and a word (when its flow is full again, and two marks). A slot whose
//! instant is past says nothing that a missing slot does not say, so it is free to be taken over: there
//! is nothing to expire, and the number of keys is bounded by construction.
//!
//! # How it stays right
//!
//! - **An update** reads the word, then the tag, and then exchanges the word for its successor. It must not
//!   succeed if the slot has become another key's in between.
//! - **A takeover** locks the word by a mark, changes the tag, and then writes the new word. Whoever reads
//!   the new word afterwards sees the new tag; whoever read the old word fails to exchange it.
//! - That failure needs the word to differ. A takeover happens strictly after the old instant, every new
//!   state lies ahead of the takeover's own time, and states only move ahead, except for refunds and the like.
//!   Those never write an instant before `horizon`, the latest time at which any slot was taken over. So the
//!   words of a slot's next owner are all larger than those of the last.
//! - **Nobody inserts one key twice**, because inserting needs the lock of the key's shard, which the caller
//!   holds, and looks for the key once more under it.
//! - **A request with several charges** holds the locks of its keys' shards and then locks their words by
//!   the mark. It waits for a mark only on its own keys' slots, where nobody but a short takeover can hold
//!   it, so it cannot be part of a cycle.

use tollgate_core::{FullAt, Time};

use crate::fingerprint::Fingerprint;
use crate::sync::{AtomicU64, Ordering, give_way, zeroed};

/// Tags first, then words: four of each make one cache line.
const SLOTS: usize = 4;
const LINE: usize = 2 * SLOTS;
const LINE_BYTES: usize = LINE * size_of::<u64>();
/// How many lines a key may lie behind its own. Beyond that it spills.
const REACH: usize = 4;
/// How often to look again for a mark to go before giving way.
const SPINS: usize = 64;

const LOCKED: u64 = 1;
const OVERDRAWN: u64 = 2;

fn pack(state: FullAt) -> u64 {
    state.at.nanos() << 2 | if state.overdrawn { OVERDRAWN } else { 0 }
}

fn unpack(word: u64) -> FullAt {
    FullAt { at: Time::from_nanos(word >> 2), overdrawn: word & OVERDRAWN != 0 }
}

#[derive(Debug)]
pub(crate) struct Table {
    words: Box<[AtomicU64]>,
    /// Where the first whole cache line begins.
    first: usize,
    lines: usize,
    /// The latest time at which a slot was taken over.
    horizon: AtomicU64,
}

/// The answer to an update.
pub(crate) enum Updated<R> {
    /// Done.
    Done(R),
    /// The key has no slot.
    Absent,
    /// Its slot is locked: wait for the shard's lock, and try again.
    Busy,
}

/// Where a slot's words are.
#[derive(Clone, Copy, Debug)]
struct Slot<'t> {
    tag: &'t AtomicU64,
    word: &'t AtomicU64,
}

impl Table {
    /// A table with room for at least `slots` slots.
    pub(crate) fn new(slots: usize) -> Self {
        let lines = slots.div_ceil(SLOTS).max(1);
        // A line more than needed, so that the lines can begin where cache lines do.
        let words = zeroed((lines + 1) * LINE);
        let first = words.as_ptr().addr().wrapping_neg() % LINE_BYTES / size_of::<u64>();
        Self { words, first: first.min(LINE), lines, horizon: AtomicU64::new(0) }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// No key was given a later time than this by a state that is gone.
    pub(crate) fn horizon(&self) -> Time {
        Time::from_nanos(self.horizon.load(Ordering::Acquire))
    }

    #[inline]
    fn line(&self, index: usize) -> &[AtomicU64; LINE] {
        let (lines, _) = self.words[self.first..].as_chunks::<LINE>();
        &lines[index]
    }

    /// The lines where a key may be, the likeliest first.
    #[inline]
    fn reach(&self, print: Fingerprint) -> impl Iterator<Item = &[AtomicU64; LINE]> {
        // Multiplying maps the hash evenly onto any number of lines.
        let home = usize::try_from((u128::from(print.place) * self.lines as u128) >> 64).unwrap_or(0);
        (0..REACH.min(self.lines)).map(move |step| {
            let index = home + step;
            self.line(if index < self.lines { index } else { index - self.lines })
        })
    }

    #[inline]
    fn find(&self, print: Fingerprint) -> Option<Slot<'_>> {
        for line in self.reach(print) {
            let mut empty = false;
            for index in 0..SLOTS {
                // Acquire: whoever sees a new owner also sees that the old word is locked or gone.
                let tag = line[index].load(Ordering::Acquire);
                if tag == print.tag {
                    return Some(Slot { tag: &line[index], word: &line[SLOTS + index] });
                }
                empty |= tag == 0;
            }
            // Slots never become empty again, so nothing was ever put behind a line with an empty one.
            if empty {
                return None;
            }
        }
        None
    }

    /// Replaces the key's state by what `step` makes of it; `None` leaves it as it is, and writes nothing.
    #[inline]
    pub(crate) fn update<R>(
        &self,
        print: Fingerprint,
        mut step: impl FnMut(FullAt) -> (R, Option<FullAt>),
    ) -> Updated<R> {
        let Some(slot) = self.find(print) else { return Updated::Absent };
        for _ in 0..SPINS {
            let word = slot.word.load(Ordering::Acquire);
            if slot.tag.load(Ordering::Relaxed) != print.tag {
                // Taken over meanwhile, so the key had nothing to remember.
                return Updated::Absent;
            }
            if word & LOCKED != 0 {
                std::hint::spin_loop();
                continue;
            }
            let (answer, next) = step(unpack(word));
            let Some(next) = next else { return Updated::Done(answer) };
            let next = self.successor(word, next);
            if slot.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Updated::Done(answer);
            }
        }
        Updated::Busy
    }

    /// The word for a state that follows `word`: one that moves back stays ahead of the horizon.
    #[inline]
    fn successor(&self, word: u64, next: FullAt) -> u64 {
        let next = pack(next);
        if next >= word { next } else { self.receding(next) }
    }

    #[cold]
    fn receding(&self, next: u64) -> u64 {
        let next = unpack(next);
        pack(FullAt { at: next.at.max(self.horizon()), ..next })
    }

    /// Gives the key a slot: an empty one, or one whose state is past. The caller holds the lock of the
    /// key's shard and has found the key nowhere. `false` if every slot in reach is in use.
    pub(crate) fn insert(&self, print: Fingerprint, state: FullAt, now: Time) -> bool {
        debug_assert!(state.at > now, "a state that is past need not be stored");
        self.claim(print, state, now, |tag, word| tag == 0 && word == 0)
            || self.claim(print, state, now, |tag, word| tag != 0 && unpack(word).at < now)
    }

    fn claim(&self, print: Fingerprint, state: FullAt, now: Time, free: impl Fn(u64, u64) -> bool) -> bool {
        for line in self.reach(print) {
            for index in 0..SLOTS {
                let (tag, word) = (&line[index], &line[SLOTS + index]);
                let seen = word.load(Ordering::Acquire);
                let owner = tag.load(Ordering::Relaxed);
                if seen & LOCKED != 0 || !free(owner, seen) {
                    continue;
                }
                if word.compare_exchange(seen, seen | LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    continue;
                }
                if owner != 0 {
                    self.horizon.fetch_max(now.nanos(), Ordering::AcqRel);
                }
                tag.store(print.tag, Ordering::Release);
                word.store(pack(state), Ordering::Release);
                return true;
            }
        }
        false
    }

    /// Locks the key's slot. The caller holds the lock of the key's shard. `None` if it has none.
    pub(crate) fn lock(&self, print: Fingerprint) -> Option<Locked<'_>> {
        loop {
            let slot = self.find(print)?;
            let word = slot.word.load(Ordering::Acquire);
            if slot.tag.load(Ordering::Relaxed) != print.tag {
                continue;
            }
            if word & LOCKED != 0 {
                give_way();
                continue;
            }
            if slot.word.compare_exchange(word, word | LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(Locked { table: self, word: slot.word, before: word, after: word });
            }
        }
    }

    /// The key's state, if it has a slot.
    pub(crate) fn read(&self, print: Fingerprint) -> Option<FullAt> {
        loop {
            match self.update(print, |state| (state, None)) {
                Updated::Done(state) => return Some(state),
                Updated::Absent => return None,
                Updated::Busy => give_way(),
            }
        }
    }

    /// How many slots hold a state that is not past.
    pub(crate) fn live(&self, now: Time) -> usize {
        let line = |index| &self.line(index)[SLOTS..];
        (0..self.lines).flat_map(line).filter(|word| unpack(word.load(Ordering::Relaxed)).at > now).count()
    }
}

/// A slot that nobody else can change. Dropping it unlocks it, with the state that was set last.
#[derive(Debug)]
pub(crate) struct Locked<'t> {
    table: &'t Table,
    word: &'t AtomicU64,
    before: u64,
    after: u64,
}

impl Locked<'_> {
    pub(crate) fn state(&self) -> FullAt {
        unpack(self.before)
    }

    pub(crate) fn set(&mut self, state: FullAt) {
        if state != self.state() {
            self.after = self.table.successor(self.before, state);
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.word.store(self.after, Ordering::Release);
    }
}
