//! The windows that a table has seen, numbered: a tag has room for a number, and a slot has none for a period.

// Loom's atomics are not needed: an entry is written once, and nothing else is published by it.
use std::sync::atomic::{AtomicU64, Ordering};

/// How many kinds of windows have a number.
const ENTRIES: usize = 1 << ENTRY_BITS;
const ENTRY_BITS: u32 = 10;
/// How many entries are probed for a kind of windows. If they all belong to others, its states are kept in shards.
const PROBED: usize = 16;

/// The period of windows, and whether they slide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) period: u64,
    pub(super) sliding: bool,
}

impl Kind {
    /// Packs it into a word that is not zero: no period is zero or longer than half of a word.
    fn pack(self) -> u64 {
        self.period << 1 | u64::from(self.sliding)
    }

    fn unpack(entry: u64) -> Self {
        Self { period: entry >> 1, sliding: entry & 1 != 0 }
    }
}

/// The kinds of windows by their number, which counts from one. A number stays what it is.
#[derive(Debug)]
pub(super) struct Periods {
    entries: Box<[AtomicU64]>,
}

impl Default for Periods {
    fn default() -> Self {
        Self { entries: (0..ENTRIES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Periods {
    /// The number of kinds that have none.
    pub(super) const NONE: u16 = u16::MAX;

    /// Returns the number of a kind, which gets one if there is room.
    #[inline]
    pub(super) fn number(&self, kind: Kind) -> u16 {
        let (entry, home) = (kind.pack(), home(kind));
        if self.entries[home].load(Ordering::Relaxed) == entry { number_of(home) } else { self.add(kind) }
    }

    #[cold]
    fn add(&self, kind: Kind) -> u16 {
        let entry = kind.pack();
        let mut indexes = probed(kind);
        let index = indexes.find(|index| {
            match self.entries[*index].compare_exchange(0, entry, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => true,
                Err(other) => other == entry,
            }
        });
        index.map_or(Self::NONE, number_of)
    }

    /// Returns the number of a kind, if it has one.
    pub(super) fn find(&self, kind: Kind) -> Option<u16> {
        let index = probed(kind).find(|index| self.entries[*index].load(Ordering::Relaxed) == kind.pack());
        index.map(number_of)
    }

    /// Returns the kind with this number. `None` if no kind has it.
    #[inline]
    pub(super) fn get(&self, number: u16) -> Option<Kind> {
        let entry = self.entries.get(usize::from(number).wrapping_sub(1))?;
        Some(Kind::unpack(entry.load(Ordering::Relaxed)))
    }
}

#[inline]
fn home(kind: Kind) -> usize {
    /// The bits of the golden ratio: odd, and without a pattern.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (kind.pack().wrapping_mul(FACTOR) >> (u64::BITS - ENTRY_BITS)) as usize
}

fn probed(kind: Kind) -> impl Iterator<Item = usize> {
    (home(kind)..home(kind) + PROBED).map(|index| index % ENTRIES)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than the number of entries")]
fn number_of(index: usize) -> u16 {
    index as u16 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_keep_their_numbers_and_too_many_have_none() {
        let periods = Periods::default();
        let kind = |index: u64| Kind { period: 1_000_000_000 + index / 2, sliding: index % 2 == 1 };
        let numbers: Vec<_> = (0..4_000).map(|index| periods.number(kind(index))).collect();
        for (index, number) in (0..).zip(numbers) {
            assert_eq!(periods.number(kind(index)), number);
            if number == Periods::NONE {
                assert_eq!((periods.find(kind(index)), periods.get(number)), (None, None));
            } else {
                assert_eq!(
                    (periods.find(kind(index)), periods.get(number)),
                    (Some(number), Some(kind(index)))
                );
            }
        }
        let numbered = (0..4_000).filter(|index| periods.find(kind(*index)).is_some()).count();
        assert_eq!(numbered, ENTRIES, "as many as there is room for");
    }
}
