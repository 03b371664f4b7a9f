//! The lock-free table: one slot per key, two words per slot, four slots per cache line.
//!
//! A slot has a tag, which identifies the key, and a word, which holds the theoretical arrival time (TAT) and two
//! bits. A slot whose TAT has passed is equivalent to no slot, so another key may take it over. No sweep is needed, and
//! the number of keys is bounded by construction.
//!
//! # Correctness
//!
//! - **An update** reads the word, then the tag, and then exchanges the word for its successor. It must fail if
//!   another key has taken over the slot in between.
//! - **A takeover** sets the lock bit of the word, changes the tag, and then writes the new word. A thread that reads
//!   the new word afterwards sees the new tag; a thread that has read the old word fails to exchange it.
//! - That failure requires the words to differ. A takeover happens strictly after the old TAT, every new TAT lies
//!   ahead of the takeover, and TATs only move forward, except for refunds and resets. Those never write a TAT before
//!   `horizon`, the time of the latest takeover of any slot. So the next owner of a slot writes larger words than the
//!   previous one. (A word that the previous owner had before a refund can recur, to the nanosecond, if its reader is
//!   suspended during the refund, the takeover, and all of that time.)
//! - **A limit whose parameters change** finds the slot of its key under another tag, because the lowest bits of a
//!   tag are a digest of the parameters. It locks the slot, converts the state to the new parameters, and changes the
//!   tag.
//! - **No key is inserted twice**: inserting requires the lock of the key's shard, which the caller holds, and looks
//!   the key up once more under it.
//! - **A request with several charges** holds the locks of its keys' shards and then sets the lock bits of their
//!   words. It waits for a lock bit only on the slots of its own keys, where only a short takeover can hold it, so
//!   there is no deadlock.

use tollgate_core::store::Tat;
use tollgate_core::{Clock, Time};

use crate::key_hash::{DIGEST_MASK, KeyHash};
use crate::sync::{AtomicU64, Ordering, yield_now};

/// How many slots share a cache line.
const SLOTS_PER_LINE: usize = 4;
/// How many lines are probed for a key, its home line included. Beyond that the key spills.
const PROBED_LINES: usize = 4;
/// How many attempts an update makes on a contended slot.
const MAX_ATTEMPTS: usize = 64;

/// A cache line: the tag and the word of a slot are in the same one.
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[derive(Debug)]
#[repr(C, align(64))]
struct Line {
    tags: [AtomicU64; SLOTS_PER_LINE],
    words: [AtomicU64; SLOTS_PER_LINE],
}

/// Allocates lines of empty slots, zeroed by the allocator: pages that are never touched use no memory.
#[cfg(not(loom))]
fn allocate(lines: usize) -> Box<[Line]> {
    use zerocopy::FromZeros;
    <[Line]>::new_box_zeroed_with_elems(lines).expect("memory for the table")
}

#[cfg(loom)]
fn allocate(lines: usize) -> Box<[Line]> {
    let words = || std::array::from_fn(|_| AtomicU64::new(0));
    (0..lines).map(|_| Line { tags: words(), words: words() }).collect()
}

/// The bits below the TAT in a word.
const LOCKED: u64 = 1;
const OVERDRAWN: u64 = 2;

#[inline]
fn pack(state: Tat) -> u64 {
    state.at.nanos() << 2 | if state.overdrawn { OVERDRAWN } else { 0 }
}

#[inline]
fn unpack(tag: u64, word: u64) -> Tat {
    Tat { at: at(word), overdrawn: word & OVERDRAWN != 0, digest: (tag & DIGEST_MASK) as u16 }
}

#[inline]
fn at(word: u64) -> Time {
    Time::from_nanos(word >> 2)
}

#[derive(Debug)]
pub(crate) struct Table {
    lines: Box<[Line]>,
    /// The time of the latest takeover of a slot.
    horizon: AtomicU64,
}

/// The result of an update.
pub(crate) enum Updated<R> {
    /// The state was replaced, or did not have to be.
    Done(R),
    /// The key has no slot.
    Absent,
    /// The slot is locked or contended: take the shard's lock, and try again.
    Busy,
}

/// The result of probing one line for a key.
enum Probe<'t> {
    Found(Slot<'t>),
    /// The key is neither in this line nor in a later one.
    Absent,
    NextLine,
}

/// References to the words of a slot.
#[derive(Clone, Copy, Debug)]
struct Slot<'t> {
    tag: &'t AtomicU64,
    word: &'t AtomicU64,
}

impl Table {
    /// Creates a table with at least `slots` slots.
    pub(crate) fn new(slots: usize) -> Self {
        Self { lines: allocate(slots.div_ceil(SLOTS_PER_LINE).max(1)), horizon: AtomicU64::new(0) }
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
    fn probed_lines(&self, hash: KeyHash) -> impl Iterator<Item = &Line> {
        self.lines.iter().cycle().skip(self.home(hash)).take(PROBED_LINES.min(self.lines.len()))
    }

    #[inline]
    fn find(&self, hash: KeyHash) -> Option<Slot<'_>> {
        match Self::probe(&self.lines[self.home(hash)], hash) {
            Probe::Found(slot) => Some(slot),
            Probe::Absent => None,
            Probe::NextLine => self.find_beyond_home(hash),
        }
    }

    #[inline(never)]
    fn find_beyond_home(&self, hash: KeyHash) -> Option<Slot<'_>> {
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
    fn probe(line: &Line, hash: KeyHash) -> Probe<'_> {
        let mut empty = false;
        for index in 0..SLOTS_PER_LINE {
            // Acquire: a thread that sees a new owner's tag also sees that the old word is locked or replaced.
            let tag = line.tags[index].load(Ordering::Acquire);
            if tag == hash.tag {
                return Probe::Found(Slot { tag: &line.tags[index], word: &line.words[index] });
            }
            empty |= tag == 0;
        }
        // Slots never become empty again, so no key was ever inserted beyond a line that has an empty slot.
        if empty { Probe::Absent } else { Probe::NextLine }
    }

    /// Replaces the TAT of the key by what `step` returns for the TAT and the current time. `None` leaves it
    /// unchanged and writes nothing. Only for steps that move the TAT forward and do not overdraw.
    ///
    /// Returns `None` if the key has no slot, or if the slot is locked or contended; [`update`](Self::update) finds
    /// out which.
    #[inline]
    pub(crate) fn try_advance<R>(
        &self,
        hash: KeyHash,
        clock: &impl Clock,
        step: impl Fn(Time, Time) -> (R, Option<Time>),
    ) -> Option<R> {
        // The clock is read before the word: all time between reading a word and exchanging it lets other threads
        // win, and a cache line that moves between cores costs more than a slightly older time.
        let now = clock.now();
        let slot = self.find(hash)?;
        let mut word = slot.word.load(Ordering::Acquire);
        if slot.tag.load(Ordering::Relaxed) != hash.tag || word & LOCKED != 0 {
            return None;
        }
        for _ in 0..MAX_ATTEMPTS {
            let (answer, next) = step(at(word), now);
            let Some(next) = next else { return Some(answer) };
            let next = next.nanos() << 2;
            match slot.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(answer),
                // Another thread won. This core owns the cache line now: retry before another core takes it.
                Err(changed) => word = changed,
            }
            if slot.tag.load(Ordering::Relaxed) != hash.tag || word & LOCKED != 0 {
                return None;
            }
        }
        None
    }

    /// Replaces the state of the key by what `step` returns for it. `None` leaves it unchanged and writes nothing.
    pub(crate) fn update<R>(
        &self,
        hash: KeyHash,
        mut step: impl FnMut(Tat) -> (R, Option<Tat>),
    ) -> Updated<R> {
        let Some(slot) = self.find(hash) else { return Updated::Absent };
        for _ in 0..MAX_ATTEMPTS {
            let word = slot.word.load(Ordering::Acquire);
            if slot.tag.load(Ordering::Relaxed) != hash.tag {
                // Another key has taken over the slot, so the state had expired.
                return Updated::Absent;
            }
            if word & LOCKED != 0 {
                std::hint::spin_loop();
                continue;
            }
            let (answer, next) = step(unpack(hash.tag, word));
            let Some(next) = next else { return Updated::Done(answer) };
            let next = self.successor(word, next);
            if slot.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Updated::Done(answer);
            }
        }
        Updated::Busy
    }

    /// Returns the word for a state that follows `word`. A TAT that moves back stays at or after the horizon.
    #[inline]
    fn successor(&self, word: u64, next: Tat) -> u64 {
        let next = pack(next);
        if next >= word { next } else { self.clamp_to_horizon(next) }
    }

    #[cold]
    fn clamp_to_horizon(&self, next: u64) -> u64 {
        self.horizon().max(at(next)).nanos() << 2 | next & OVERDRAWN
    }

    /// Gives the key a slot: an empty one, or an expired one. The caller holds the lock of the key's shard, and the
    /// key has neither a slot nor an entry there. Returns `false` if every probed slot is in use.
    ///
    /// A state that has expired already, as only a debit dated in the past creates, gets an empty slot or none. It
    /// need not be stored, and the next owner of a slot must write larger words than the previous one.
    pub(crate) fn insert(&self, hash: KeyHash, state: Tat, now: Time) -> bool {
        self.claim(hash, state, now, |tag, word| tag == 0 && word == 0)
            || state.at <= now
            || self.claim(hash, state, now, |tag, word| tag != 0 && at(word) < now)
    }

    fn claim(&self, hash: KeyHash, state: Tat, now: Time, is_free: impl Fn(u64, u64) -> bool) -> bool {
        for line in self.probed_lines(hash) {
            for index in 0..SLOTS_PER_LINE {
                let (tag, word) = (&line.tags[index], &line.words[index]);
                let seen = word.load(Ordering::Acquire);
                let owner = tag.load(Ordering::Relaxed);
                if seen & LOCKED != 0 || !is_free(owner, seen) {
                    continue;
                }
                if word.compare_exchange(seen, seen | LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    continue;
                }
                if owner != 0 {
                    self.horizon.fetch_max(now.nanos(), Ordering::AcqRel);
                }
                tag.store(hash.tag_with(state.digest), Ordering::Release);
                word.store(pack(state), Ordering::Release);
                return true;
            }
        }
        false
    }

    /// Returns the slot of the key and its tag, whatever the parameters that the state was written under.
    fn find_any_digest(&self, hash: KeyHash) -> Option<(Slot<'_>, u64)> {
        self.probed_lines(hash).find_map(|line| {
            (0..SLOTS_PER_LINE).find_map(|index| {
                let tag = line.tags[index].load(Ordering::Acquire);
                hash.is_same_key(tag)
                    .then(|| (Slot { tag: &line.tags[index], word: &line.words[index] }, tag))
            })
        })
    }

    /// Locks the slot of the key, whatever the parameters that the state was written under. The caller holds the lock
    /// of the key's shard. Returns `None` if the key has no slot.
    pub(crate) fn lock(&self, hash: KeyHash) -> Option<LockedSlot<'_>> {
        loop {
            let (slot, tag) = self.find_any_digest(hash)?;
            let word = slot.word.load(Ordering::Acquire);
            if slot.tag.load(Ordering::Relaxed) != tag {
                continue;
            }
            if word & LOCKED != 0 {
                yield_now();
                continue;
            }
            if slot.word.compare_exchange(word, word | LOCKED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(LockedSlot { table: self, slot, before: (tag, word), after: (tag, word) });
            }
        }
    }

    /// Returns the state of the key, if it has a slot.
    pub(crate) fn read(&self, hash: KeyHash) -> Option<Tat> {
        loop {
            let (slot, tag) = self.find_any_digest(hash)?;
            let word = slot.word.load(Ordering::Acquire);
            if word & LOCKED == 0 && slot.tag.load(Ordering::Relaxed) == tag {
                return Some(unpack(tag, word));
            }
            yield_now();
        }
    }

    /// Returns how many slots hold a state that has not expired.
    pub(crate) fn live(&self, now: Time) -> usize {
        let words = self.lines.iter().flat_map(|line| &line.words);
        words.filter(|word| at(word.load(Ordering::Relaxed)) > now).count()
    }
}

/// A slot that no other thread can change. Dropping it writes the state that was set last, and unlocks the slot.
#[derive(Debug)]
pub(crate) struct LockedSlot<'t> {
    table: &'t Table,
    slot: Slot<'t>,
    /// Tag and word.
    before: (u64, u64),
    after: (u64, u64),
}

impl LockedSlot<'_> {
    pub(crate) fn state(&self) -> Tat {
        unpack(self.before.0, self.before.1)
    }

    pub(crate) fn set(&mut self, state: Tat) {
        if state != self.state() {
            let (tag, word) = self.before;
            // A fresh state has no digest; the slot keeps the one it has.
            let digest = if state.digest == 0 { tag & DIGEST_MASK } else { state.digest.into() };
            self.after = (tag & !DIGEST_MASK | digest, self.table.successor(word, state));
        }
    }
}

impl Drop for LockedSlot<'_> {
    fn drop(&mut self) {
        let (tag, word) = self.after;
        self.slot.tag.store(tag, Ordering::Release);
        self.slot.word.store(word, Ordering::Release);
    }
}
