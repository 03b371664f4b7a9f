//! Fixed and sliding windows: the word has the count of the current window and most of its start, the cold word has the
//! rest, and the digest in the tag is the number of the period ([`Periods`]).
//!
//! | | bits |
//! |---|---|
//! | word | lowest bits of the start (33), count of the current window (30), lock (1) |
//! | cold word of a fixed window | highest bits of the start (29) |
//! | cold word of a sliding window | highest bits of the start (4), count of the previous window (28) |
//!
//! The start of a fixed window is in nanoseconds, that of a sliding window in periods. Without the lock, only the count
//! changes. It is the same addition whatever the other bits are, so it does not matter whether they change in between,
//! as long as the slot still belongs to the key:
//!
//! - A slot is taken over once its window has ended, even if nothing of it is used any more.
//! - A takeover changes the lowest bits of the start, or takes another slot. So a word recurs under another key only if
//!   its reader is suspended for several takeovers, or until those bits are the same again.
//!
//! What does not fit goes to the key's shard: counts of more than a billion (debt), previous counts of more than 268
//! million, sliding windows of less than 33 ms or with an unusual start, and periods beyond the first thousand.

use tollgate_core::store::{State, WindowLimit, Windows};
use tollgate_core::{Charge, Decision, Time};

use super::periods::{Kind, Periods};
use super::{Content, Form, LOCKED, MAX_ATTEMPTS, WindowsTable};
use crate::key_hash::{DIGEST_MASK, KeyHash, with_digest};
use crate::sync::Ordering;

/// A count fits that is not above a billion, as no limit's is.
const COUNT_BITS: u32 = 30;
const COUNT: u64 = ((1 << COUNT_BITS) - 1) << 1;
const START_SHIFT: u32 = COUNT_BITS + 1;
/// How many bits of the start are in the word.
const START_BITS: u32 = u64::BITS - START_SHIFT;
const PREVIOUS_BITS: u32 = 28;
const PREVIOUS: u32 = (1 << PREVIOUS_BITS) - 1;

/// The states of fixed and sliding windows. See the [module's documentation](self).
#[derive(Debug, Default)]
pub(crate) struct WindowsForm {
    periods: Periods,
}

impl WindowsForm {
    /// Decodes windows, also unused ones.
    #[inline]
    fn unpack(word: u64, cold: u32, Kind { period, sliding }: Kind) -> Windows {
        let (low, current) = (word >> START_SHIFT, (word & COUNT) >> 1);
        let (start, previous) = if sliding {
            let index = u64::from(cold >> PREVIOUS_BITS) << START_BITS | low;
            (index.wrapping_mul(period), u64::from(cold & PREVIOUS))
        } else {
            (u64::from(cold) << START_BITS | low, 0)
        };
        Windows { sliding, start: Time::from_nanos(start), period, previous, current }
    }

    /// Encodes windows, also unused ones. `None` if they do not fit.
    fn pack(windows: &Windows) -> Option<(u64, u32)> {
        let Windows { sliding, start, period, previous, current } = *windows;
        let (start, previous) = (start.nanos(), u32::try_from(previous).ok()?);
        if current >> COUNT_BITS != 0 || previous > PREVIOUS {
            return None;
        }
        let (start, cold) = if sliding {
            let index = start / period;
            let high = u32::try_from(index >> START_BITS).ok()?;
            if !start.is_multiple_of(period) || high >> (u32::BITS - PREVIOUS_BITS) != 0 {
                return None;
            }
            (index, high << PREVIOUS_BITS | previous)
        } else {
            (start, u32::try_from(start >> START_BITS).ok()?)
        };
        Some((start << START_SHIFT | current << 1, cold))
    }

    /// Decodes the windows of a slot. The default if it never had any.
    #[inline]
    fn windows(&self, content: &Content<1>) -> Windows {
        let [cold] = content.cold;
        let kind = self.periods.get((content.tag & DIGEST_MASK) as u16);
        kind.map_or_else(Windows::default, |kind| Self::unpack(content.word, cold, kind))
    }
}

impl Form<1> for WindowsForm {
    type State = Windows;

    const UNLOCKED: u64 = COUNT;

    #[inline]
    fn decode(&self, content: &Content<1>) -> Windows {
        let windows = self.windows(content);
        if windows.is_unused() { Windows::default() } else { windows }
    }

    #[inline]
    fn encode(
        &self,
        state: Windows,
        tag: u64,
        before: &Content<1>,
        _: impl FnOnce() -> Time,
    ) -> Option<Content<1>> {
        if state.is_unused() {
            // The window remains, and with it its number in the tag.
            let unused = Windows { previous: 0, current: 0, ..self.windows(before) };
            let (word, cold) = Self::pack(&unused)?;
            return Some(Content {
                tag: with_digest(tag, (before.tag & DIGEST_MASK) as u16),
                word,
                cold: [cold],
            });
        }
        let number = self.periods.find(Kind { period: state.period, sliding: state.sliding })?;
        let (word, cold) = Self::pack(&state)?;
        let is_takeover = before.tag != 0 && (tag ^ before.tag) & !DIGEST_MASK != 0;
        if is_takeover && (word ^ before.word) & !COUNT == 0 {
            return None;
        }
        Some(Content { tag: with_digest(tag, number), word, cold: [cold] })
    }

    #[inline]
    fn fresh_at(state: Windows) -> Time {
        state.fresh_at()
    }

    fn free_at(&self, owner: &Content<1>) -> Time {
        // As if it were used.
        let windows = self.windows(owner);
        Windows { current: 1, ..windows }.fresh_at()
    }

    fn to_core(state: Windows) -> State {
        State::from_windows(state)
    }

    fn from_core(state: &State) -> Option<Windows> {
        state.as_windows()
    }

    #[inline]
    fn apply(windows: Windows, charge: &Charge<'_>, now: Time) -> (Decision, Option<Windows>) {
        let mut state = State::from_windows(windows);
        let decision = state.apply(charge, now);
        (decision, state.as_windows())
    }

    /// Once per window: what did not fit may fit again, and there may be a free slot.
    fn may_return(before: &State, after: &State) -> bool {
        let start = |state: &State| state.as_windows().map(|windows| windows.start);
        start(before) != start(after)
    }
}

impl WindowsTable {
    /// Returns the digest that the tags of a limit's states have. Never zero.
    #[inline]
    pub(crate) fn digest(&self, limit: WindowLimit<'_>) -> u16 {
        self.form.periods.number(kind(limit))
    }

    /// Adds `cost` to the count of the key's current window. `take` gets the windows, and returns `None` if that is not
    /// allowed or more has to change.
    ///
    /// Returns `None` then, and if the key has no slot, or if the slot is locked or contended;
    /// [`update`](Self::update) finds out which.
    #[inline]
    pub(crate) fn try_take<T>(
        &self,
        hash: KeyHash,
        limit: WindowLimit<'_>,
        cost: u32,
        take: impl Fn(&Windows) -> Option<T>,
    ) -> Option<T> {
        let slot = self.find(hash)?;
        let mut word = slot.word.load(Ordering::Acquire);
        let cold = slot.cold[0].load(Ordering::Acquire);
        if slot.tag.load(Ordering::Acquire) != hash.tag || word & LOCKED != 0 {
            return None;
        }
        for _ in 0..MAX_ATTEMPTS {
            let taken = take(&WindowsForm::unpack(word, cold, kind(limit)))?;
            // The sum fits: no limit has a count of more bits.
            let next = word + (u64::from(cost) << 1);
            match slot.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(taken),
                // Another thread took from the same window, and this core owns the cache line now.
                Err(changed) if (changed ^ word) & !COUNT == 0 => word = changed,
                Err(_) => return None,
            }
        }
        None
    }
}

#[inline]
fn kind(limit: WindowLimit<'_>) -> Kind {
    Kind { period: limit.period(), sliding: limit.is_sliding() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(sliding: bool, start: u64, period: u64, previous: u64, current: u64) -> Windows {
        Windows { sliding, start: Time::from_nanos(start), period, previous, current }
    }

    #[test]
    fn windows_of_all_usual_parameters_fit() {
        let (latest, largest) = (Time::MAX.nanos(), 1_000_000_000);
        for period in [1, 7, 999_999_937, 86_400_000_000_000] {
            for start in [0, 1_790_000_000_123_456_789, latest] {
                let state = windows(false, start, period, 0, largest);
                let (word, cold) = WindowsForm::pack(&state).expect("fits");
                assert_eq!(WindowsForm::unpack(word, cold, Kind { period, sliding: false }), state);
            }
        }
        for period in [34_000_000, 999_999_937, 86_400_000_000_000, 31_622_400_000_000_000] {
            for start in [0, 1_790_000_000_123_456_789 / period * period, latest / period * period] {
                let state = windows(true, start, period, u64::from(PREVIOUS), largest);
                let (word, cold) = WindowsForm::pack(&state).expect("fits");
                assert_eq!(WindowsForm::unpack(word, cold, Kind { period, sliding: true }), state);
            }
        }
    }

    #[test]
    fn windows_that_would_be_rounded_do_not_fit() {
        let second = 1_000_000_000;
        for (does_not_fit, why) in [
            (windows(false, second, second, 0, 1 << COUNT_BITS), "debt"),
            (windows(true, second, second, 1 << PREVIOUS_BITS, 1), "a large previous count"),
            (windows(true, second + 1, second, 1, 1), "an odd start"),
            (windows(true, 1_790_000_000 * second, second / 100, 1, 1), "a short period"),
        ] {
            assert_eq!(WindowsForm::pack(&does_not_fit), None, "{why}");
        }
    }
}
