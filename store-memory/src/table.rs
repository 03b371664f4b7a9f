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
//!   Those never write an instant before `horizon`, the latest time at which any slot was taken over. So a slot's next
//!   owner writes larger words than the last one left. (A word that the last owner had before a refund could come
//!   back, to the nanosecond, if its reader slept through the refund, the takeover, and all of that time.)
//! - **A limit that changes** finds its key's slot under another tag, because a tag's lowest bits are a digest of the
//!   limit's numbers. It locks the slot, makes of the state what the new numbers make of it, and changes the tag.
//! - **Nobody inserts one key twice**, because inserting needs the lock of the key's shard, which the caller
//!   holds, and looks for the key once more under it.
//! - **A request with several charges** holds the locks of its keys' shards and then locks their words by
//!   the mark. It waits for a mark only on its own keys' slots, where nobody but a short takeover can hold
//!   it, so it cannot be part of a cycle.

use tollgate_core::store::Tat;
use tollgate_core::{Clock, Time};

use crate::fingerprint::{Fingerprint, NUMBERS};
use crate::sync::{AtomicU64, Ordering, give_way};

/// How many slots share a cache line.
const SLOTS: usize = 4;
/// How many lines a key may lie behind its own. Beyond that it spills.
const REACH: usize = 4;
/// How often to try before giving way.
const SPINS: usize = 64;

/// A cache line: a slot's tag and word are in the same one.
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[derive(Debug)]
#[repr(C, align(64))]
struct Line {
    tags: [AtomicU64; SLOTS],
    words: [AtomicU64; SLOTS],
}

/// Lines of empty slots. Straight from the allocator, so that pages nobody touches cost nothing.
#[cfg(not(loom))]
fn empty(lines: usize) -> Box<[Line]> {
    use zerocopy::FromZeros;
    <[Line]>::new_box_zeroed_with_elems(lines).expect("memory for the table")
}

#[cfg(loom)]
fn empty(lines: usize) -> Box<[Line]> {
    let words = || std::array::from_fn(|_| AtomicU64::new(0));
    (0..lines).map(|_| Line { tags: words(), words: words() }).collect()
}

const LOCKED: u64 = 1;
const OVERDRAWN: u64 = 2;

#[inline]
fn pack(state: Tat) -> u64 {
    state.at.nanos() << 2 | if state.overdrawn { OVERDRAWN } else { 0 }
}

#[inline]
fn unpack(tag: u64, word: u64) -> Tat {
    Tat { at: at(word), overdrawn: word & OVERDRAWN != 0, digest: (tag & NUMBERS) as u16 }
}

#[inline]
fn at(word: u64) -> Time {
    Time::from_nanos(word >> 2)
}

#[derive(Debug)]
pub(crate) struct Table {
    lines: Box<[Line]>,
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

/// What a line says of a key.
enum Look<'t> {
    Found(Slot<'t>),
    /// It is neither here nor further on.
    Ends,
    GoesOn,
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
        Self { lines: empty(slots.div_ceil(SLOTS).max(1)), horizon: AtomicU64::new(0) }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// No key was given a later time than this by a state that is gone.
    pub(crate) fn horizon(&self) -> Time {
        Time::from_nanos(self.horizon.load(Ordering::Acquire))
    }

    /// Which line a key belongs into. Multiplying maps the hash evenly onto any number of lines.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of lines")]
    fn home(&self, print: Fingerprint) -> usize {
        ((u128::from(print.place) * self.lines.len() as u128) >> 64) as usize
    }

    /// The lines where a key may be, the likeliest first.
    fn reach(&self, print: Fingerprint) -> impl Iterator<Item = &Line> {
        self.lines.iter().cycle().skip(self.home(print)).take(REACH.min(self.lines.len()))
    }

    #[inline]
    fn find(&self, print: Fingerprint) -> Option<Slot<'_>> {
        match Self::look(&self.lines[self.home(print)], print) {
            Look::Found(slot) => Some(slot),
            Look::Ends => None,
            Look::GoesOn => self.find_behind(print),
        }
    }

    #[inline(never)]
    fn find_behind(&self, print: Fingerprint) -> Option<Slot<'_>> {
        for line in self.reach(print).skip(1) {
            match Self::look(line, print) {
                Look::Found(slot) => return Some(slot),
                Look::Ends => return None,
                Look::GoesOn => {}
            }
        }
        None
    }

    #[inline]
    fn look(line: &Line, print: Fingerprint) -> Look<'_> {
        let mut empty = false;
        for index in 0..SLOTS {
            // Acquire: whoever sees a new owner also sees that the old word is locked or gone.
            let tag = line.tags[index].load(Ordering::Acquire);
            if tag == print.tag {
                return Look::Found(Slot { tag: &line.tags[index], word: &line.words[index] });
            }
            empty |= tag == 0;
        }
        // Slots never become empty again, so nothing was ever put behind a line with an empty one.
        if empty { Look::Ends } else { Look::GoesOn }
    }

    /// Exchanges the instant that the key's state is full at for the one that `step` says; `None` leaves it as it is,
    /// and writes nothing. Only for steps that move ahead and overdraw nothing.
    ///
    /// If it returns nothing, because the key has no slot, or it is locked, or others were always faster, then
    /// [`update`](Self::update) says which.
    #[inline]
    pub(crate) fn try_advance<R>(
        &self,
        print: Fingerprint,
        clock: &impl Clock,
        step: impl Fn(Time, Time) -> (R, Option<Time>),
    ) -> Option<R> {
        // The clock first: whatever lies between finding a word and exchanging it is time in which somebody else can
        // be faster, and a cache line that changes hands costs more than a clock that is read early.
        let now = clock.now();
        let slot = self.find(print)?;
        let mut word = slot.word.load(Ordering::Acquire);
        if slot.tag.load(Ordering::Relaxed) != print.tag || word & LOCKED != 0 {
            return None;
        }
        for _ in 0..SPINS {
            let (answer, next) = step(at(word), now);
            let Some(next) = next else { return Some(answer) };
            let next = next.nanos() << 2;
            match slot.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(answer),
                // Somebody else was faster. The line is ours now: try again before they have it back.
                Err(changed) => word = changed,
            }
            if slot.tag.load(Ordering::Relaxed) != print.tag || word & LOCKED != 0 {
                return None;
            }
        }
        None
    }

    /// Replaces the key's state by what `step` makes of it; `None` leaves it as it is, and writes nothing.
    pub(crate) fn update<R>(
        &self,
        print: Fingerprint,
        mut step: impl FnMut(Tat) -> (R, Option<Tat>),
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
            let (answer, next) = step(unpack(print.tag, word));
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
    fn successor(&self, word: u64, next: Tat) -> u64 {
        let next = pack(next);
        if next >= word { next } else { self.receding(next) }
    }

    #[cold]
    fn receding(&self, next: u64) -> u64 {
        self.horizon().max(at(next)).nanos() << 2 | next & OVERDRAWN
    }

    /// Gives the key a slot: an empty one, or one whose state is past. The caller holds the lock of the
    /// key's shard and has found the key nowhere. `false` if every slot in reach is in use.
    ///
    /// A state that is past itself, which only a debit of the past makes, takes an empty slot at most: it need not be
    /// remembered, and a slot's next owner must write larger words than the last one left.
    pub(crate) fn insert(&self, print: Fingerprint, state: Tat, now: Time) -> bool {
        self.claim(print, state, now, |tag, word| tag == 0 && word == 0)
            || state.at <= now
            || self.claim(print, state, now, |tag, word| tag != 0 && at(word) < now)
    }

    fn claim(&self, print: Fingerprint, state: Tat, now: Time, free: impl Fn(u64, u64) -> bool) -> bool {
        for line in self.reach(print) {
            for index in 0..SLOTS {
                let (tag, word) = (&line.tags[index], &line.words[index]);
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

    /// The key's slot, whatever numbers its state was written under.
    fn find_under_any_numbers(&self, print: Fingerprint) -> Option<(Slot<'_>, u64)> {
        self.reach(print).find_map(|line| {
            (0..SLOTS).find_map(|index| {
                let tag = line.tags[index].load(Ordering::Acquire);
                print.owns(tag).then(|| (Slot { tag: &line.tags[index], word: &line.words[index] }, tag))
            })
        })
    }

    /// Locks the key's slot, whatever numbers its state was written under. The caller holds the lock of the key's
    /// shard. `None` if it has none.
    pub(crate) fn lock(&self, print: Fingerprint) -> Option<Locked<'_>> {
        loop {
            let (slot, tag) = self.find_under_any_numbers(print)?;
            let word = slot.word.load(Ordering::Acquire);
            if slot.tag.load(Ordering::Relaxed) != tag {
                continue;
            }
            if word & LOCKED != 0 {
                give_way();
                continue;
            }
            if slot.word.compare_exchange(word, word | LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(Locked { table: self, slot, before: (tag, word), after: (tag, word) });
            }
        }
    }

    /// The key's state, if it has a slot.
    pub(crate) fn read(&self, print: Fingerprint) -> Option<Tat> {
        loop {
            let (slot, tag) = self.find_under_any_numbers(print)?;
            let word = slot.word.load(Ordering::Acquire);
            if word & LOCKED == 0 && slot.tag.load(Ordering::Relaxed) == tag {
                return Some(unpack(tag, word));
            }
            give_way();
        }
    }

    /// How many slots hold a state that is not past.
    pub(crate) fn live(&self, now: Time) -> usize {
        let words = self.lines.iter().flat_map(|line| &line.words);
        words.filter(|word| at(word.load(Ordering::Relaxed)) > now).count()
    }
}

/// A slot that nobody else can change. Dropping it unlocks it, with the state that was set last.
#[derive(Debug)]
pub(crate) struct Locked<'t> {
    table: &'t Table,
    slot: Slot<'t>,
    /// Tag and word.
    before: (u64, u64),
    after: (u64, u64),
}

impl Locked<'_> {
    pub(crate) fn state(&self) -> Tat {
        unpack(self.before.0, self.before.1)
    }

    pub(crate) fn set(&mut self, state: Tat) {
        if state != self.state() {
            let (tag, word) = self.before;
            // A state that says nothing was written under no numbers; the slot keeps those it has.
            let numbers = if state.digest == 0 { tag & NUMBERS } else { state.digest.into() };
            self.after = (tag & !NUMBERS | numbers, self.table.successor(word, state));
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let (tag, word) = self.after;
        self.slot.tag.store(tag, Ordering::Release);
        self.slot.word.store(word, Ordering::Release);
    }
}
