//! Fixed and sliding windows: the word has the count of the current window, the cold words have the rest.
//!
//! | | bits |
//! |---|---|
//! | word | version (32), count of the current window (31), lock (1) |
//! | first cold word | start (62), unused (1), whether it slides (1) |
//! | second cold word | digits (29) and exponent (5) of the period, count of the previous window (30) |
//!
//! Within a window, only the word changes. Everything else changes under the lock, and increments the version. So a
//! word recurs only together with the state that it stood for, unless the slot was locked four billion times in
//! between.
//!
//! What does not fit goes to the key's shard: counts of more than a billion (debt), and periods of more than nine
//! decimal digits without trailing zeros.

use tollgate_core::store::{State, Windows};
use tollgate_core::{Charge, Decision, Time};

use super::{Content, Form, LOCKED, MAX_ATTEMPTS, WindowsTable};
use crate::key_hash::{KeyHash, with_digest};
use crate::sync::Ordering;

const CURRENT_BITS: u32 = 31;
const CURRENT: u64 = ((1 << CURRENT_BITS) - 1) << 1;
const VERSION_SHIFT: u32 = CURRENT_BITS + 1;
const PREVIOUS_BITS: u32 = 30;
const PREVIOUS: u64 = (1 << PREVIOUS_BITS) - 1;
const EXPONENT_BITS: u32 = 5;
const DIGITS_SHIFT: u32 = PREVIOUS_BITS + EXPONENT_BITS;
const SLIDING: u64 = 1;

/// Packs a period above the bits of the previous count. `None` if it has too many digits.
fn pack_period(period: u64) -> Option<u64> {
    let (mut digits, mut exponent) = (period, 0);
    while digits >= 1 << (u64::BITS - DIGITS_SHIFT) {
        if digits % 10 != 0 {
            return None;
        }
        digits /= 10;
        exponent += 1;
    }
    Some(digits << DIGITS_SHIFT | exponent << PREVIOUS_BITS)
}

#[inline]
fn unpack_period(cold: u64) -> u64 {
    /// All that a period of 64 bits can need.
    const POWERS: [u64; 1 << EXPONENT_BITS] = {
        let mut powers = [1; 1 << EXPONENT_BITS];
        let mut exponent = 1;
        while exponent < 20 {
            powers[exponent] = powers[exponent - 1] * 10;
            exponent += 1;
        }
        powers
    };
    let exponent = (cold >> PREVIOUS_BITS) as usize % POWERS.len();
    (cold >> DIGITS_SHIFT).wrapping_mul(POWERS[exponent])
}

/// Returns the digest of a limit's parameters: all that a state depends on is the period. Never zero.
#[inline]
pub(crate) fn digest_of_period(period: u64) -> u16 {
    ((period.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16).max(1)
}

/// The state of a fixed or sliding window. See the [module's documentation](self).
#[derive(Debug)]
pub(crate) struct WindowsForm;

impl WindowsForm {
    /// Decodes the windows, also unused ones.
    #[inline]
    fn windows(word: u64, [start, rest]: [u64; 2]) -> Windows {
        Windows {
            sliding: start & SLIDING != 0,
            start: Time::from_nanos(start >> 2),
            period: unpack_period(rest),
            previous: rest & PREVIOUS,
            current: (word & CURRENT) >> 1,
        }
    }
}

impl Form<2> for WindowsForm {
    type State = Windows;

    #[inline]
    fn decode(content: &Content<2>) -> Windows {
        let windows = Self::windows(content.word, content.cold);
        if windows.is_unused() { Windows::default() } else { windows }
    }

    #[inline]
    fn encode(state: Windows, tag: u64, before: &Content<2>, _: impl FnOnce() -> Time) -> Option<Content<2>> {
        let Windows { sliding, start, period, previous, current } = state;
        if current >> CURRENT_BITS != 0 || previous > PREVIOUS {
            return None;
        }
        let [old_start, old_rest] = before.cold;
        let (tag, cold) = if state.is_unused() {
            (tag, [old_start, old_rest & !PREVIOUS])
        } else {
            let packed =
                if period == unpack_period(old_rest) { old_rest & !PREVIOUS } else { pack_period(period)? };
            let start = start.nanos() << 2 | u64::from(sliding);
            (with_digest(tag, digest_of_period(period)), [start, packed | previous])
        };
        let version = before.word >> VERSION_SHIFT;
        let version = if (tag, cold) == (before.tag, before.cold) { version } else { version + 1 };
        // The version wraps: the highest bit is shifted out.
        Some(Content { tag, word: version << VERSION_SHIFT | current << 1, cold })
    }

    #[inline]
    fn fresh_at(state: Windows) -> Time {
        state.fresh_at()
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
    /// Adds `cost` to the count of the key's current window. `take` gets the windows, and returns `None` if that is not
    /// allowed or more has to change.
    ///
    /// Returns `None` then, and if the key has no slot, or if the slot is locked or contended;
    /// [`update`](Self::update) finds out which.
    #[inline]
    pub(crate) fn try_take<T>(
        &self,
        hash: KeyHash,
        cost: u32,
        take: impl Fn(&Windows) -> Option<T>,
    ) -> Option<T> {
        let slot = self.find(hash)?;
        let mut word = slot.word.load(Ordering::Acquire);
        let cold = slot.cold.each_ref().map(|cold| cold.load(Ordering::Acquire));
        if slot.tag.load(Ordering::Acquire) != hash.tag || word & LOCKED != 0 {
            return None;
        }
        // The windows may be torn if the slot was locked meanwhile. Then the word has another version now, and is not
        // exchanged.
        for _ in 0..MAX_ATTEMPTS {
            let taken = take(&WindowsForm::windows(word, cold))?;
            // The sum fits: no limit has a count of more bits.
            let next = word + (u64::from(cost) << 1);
            match slot.word.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(taken),
                // Another thread took from the same window, and this core owns the cache line now.
                Err(changed) if (changed ^ word) & !CURRENT == 0 => word = changed,
                Err(_) => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_of_nine_digits_fit() {
        let second = 1_000_000_000;
        for period in [1, 7, 333_333_333, second, 60 * second, 86_400 * second, 366 * 86_400 * second] {
            assert_eq!(pack_period(period).map(unpack_period), Some(period));
        }
        for period in [1_000_000_007, 600_000_001, u64::MAX] {
            assert_eq!(pack_period(period), None, "{period}");
        }
    }
}
