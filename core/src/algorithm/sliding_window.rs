//! Sliding window: the count of the previous window, weighted by the part of it that still overlaps the sliding window,
//! plus the count of the current one.
//!
//! The arithmetic is exact. The weighted count is rounded up, so nothing passes early.

use alloc::vec;
use alloc::vec::Vec;

use super::windows::Windows;
use super::{AlgorithmKind, Balance, Decide, nanos_until, saturate, take_up_to_cost};
use crate::charge::{Action, Operation};
use crate::decision::{Decision, Outcome};
use crate::rate::{scale_down, scale_up};
use crate::time::Time;

/// The parameters of a sliding window.
#[derive(Clone, Debug)]
pub(crate) struct SlidingWindow {
    count: u32,
    period: u64,
}

/// How much is used of the window that started at `start`, and of the one before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TwoWindows {
    /// The length of both windows.
    pub(super) period: u64,
    pub(super) start: u64,
    pub(super) previous: u64,
    pub(super) current: u64,
}

impl SlidingWindow {
    pub(crate) fn new(count: u32, period: u64) -> Self {
        Self { count, period }
    }

    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(super) fn period(&self) -> u64 {
        self.period
    }

    /// Returns how much counts against the limit, and until when a take counts, if the window is under way and has this
    /// limit's period. `None` otherwise.
    #[inline]
    pub(super) fn used_now(&self, windows: &Windows, now: Time) -> Option<(u64, u64)> {
        let start = windows.start.nanos();
        let elapsed = now.nanos().checked_sub(start)?;
        let used = || windows.current.saturating_add(self.weighted(windows.previous, elapsed));
        (elapsed < self.period && windows.period == self.period).then(|| (used(), start + 2 * self.period))
    }

    /// Returns the windows at `now`. A clock that is set back stays in the later window.
    #[inline]
    fn rolled(&self, state: &TwoWindows, now: Time) -> TwoWindows {
        let now = now.nanos();
        if state.period == self.period && now < state.start.saturating_add(self.period) {
            return state.clone();
        }
        let (start, period) = (now - now % self.period, self.period);
        if state.start > now {
            TwoWindows { period, ..*state }
        } else if state.start >= start {
            TwoWindows { period, start, ..*state }
        } else if state.start.saturating_add(period) >= start {
            // Debt expires with its window, so at most the count is carried over.
            TwoWindows { period, start, previous: state.current.min(self.count.into()), current: 0 }
        } else {
            TwoWindows { period, start, previous: 0, current: 0 }
        }
    }

    /// Returns the weighted count of the previous window.
    #[inline]
    fn carried(&self, windows: &TwoWindows, now: Time) -> u64 {
        self.weighted(windows.previous, now.nanos().saturating_sub(windows.start).min(self.period))
    }

    /// Returns how much of the previous window counts when so much of the current one has elapsed.
    #[inline]
    fn weighted(&self, previous: u64, elapsed: u64) -> u64 {
        if previous == 0 { 0 } else { scale_up(previous, self.period - elapsed, self.period) }
    }

    /// Returns how much counts against the limit.
    #[inline]
    fn used(&self, windows: &TwoWindows, now: Time) -> u64 {
        windows.current.saturating_add(self.carried(windows, now))
    }

    /// Returns when a take of `cost` can pass, if no other charge comes first.
    #[cold]
    fn passes_at(&self, windows: &TwoWindows, cost: u32) -> u64 {
        // The offset into a window at which the weighted count of the window before it, `previous`, drops to `room`.
        let offset = |room: u64, previous: u64| {
            if previous == 0 {
                0
            } else {
                self.period.saturating_sub(scale_down(room, self.period, previous))
            }
        };
        let room = u64::from(self.count - cost);
        if let Some(room) = room.checked_sub(windows.current) {
            return windows.start.saturating_add(offset(room, windows.previous));
        }
        let carried = windows.current.min(self.count.into());
        windows.start.saturating_add(self.period).saturating_add(offset(room, carried))
    }

    fn decision(&self, windows: &TwoWindows, now: Time, outcome: Outcome, granted: u32) -> Decision {
        self.decision_with(windows, self.used(windows, now), now, outcome, granted, 0)
    }

    #[inline]
    fn decision_with(
        &self,
        windows: &TwoWindows,
        used: u64,
        now: Time,
        outcome: Outcome,
        granted: u32,
        wait: u64,
    ) -> Decision {
        let reset = nanos_until(self.fresh_at(windows).nanos(), now);
        Balance::used(self.count, used, reset).decision(outcome, granted, wait)
    }

    #[inline]
    fn take(&self, windows: &mut TwoWindows, now: Time, cost: u32) -> Decision {
        let (needed, used) = (cost.max(1), self.used(windows, now));
        if needed > self.count {
            return self.decision_with(windows, used, now, Outcome::NeverFits, 0, 0);
        }
        if used.saturating_add(needed.into()) > self.count.into() {
            let wait = nanos_until(self.passes_at(windows, needed), now);
            return self.decision_with(windows, used, now, Outcome::Denied, 0, wait);
        }
        windows.current += u64::from(cost);
        self.decision_with(windows, used + u64::from(cost), now, Outcome::Allowed, cost, 0)
    }

    /// Returns the counter of the window that contains an instant. `None` if that window no longer counts.
    fn counter<'w>(&self, windows: &'w mut TwoWindows, at: Option<Time>) -> Option<&'w mut u64> {
        match at {
            Some(at) if at.nanos().saturating_add(self.period) < windows.start => None,
            Some(at) if at.nanos() < windows.start => Some(&mut windows.previous),
            Some(_) | None => Some(&mut windows.current),
        }
    }
}

impl Decide for SlidingWindow {
    type State = TwoWindows;

    fn kind(&self) -> AlgorithmKind {
        AlgorithmKind::SlidingWindow
    }

    fn capacity(&self) -> u32 {
        self.count
    }

    #[inline]
    fn decide(&self, state: &mut TwoWindows, now: Time, operation: &Operation) -> Decision {
        let cost = operation.cost;
        let mut windows = self.rolled(state, now);
        let decision = match operation.action {
            Action::Take { .. } => self.take(&mut windows, now, cost),
            Action::TakeUpTo => {
                let available = u64::from(self.count).saturating_sub(self.used(&windows, now));
                self.take(&mut windows, now, take_up_to_cost(cost, available))
            }
            Action::Debit { at } => {
                if let Some(counter) = self.counter(&mut windows, at) {
                    *counter = counter.saturating_add(cost.into());
                }
                self.decision(&windows, now, Outcome::Allowed, cost)
            }
            Action::Refund { at } => {
                let refunded = self.counter(&mut windows, at).map_or(0, |counter| {
                    let refunded = (*counter).min(cost.into());
                    *counter -= refunded;
                    refunded
                });
                self.decision(&windows, now, Outcome::Allowed, saturate(refunded))
            }
            Action::Reset => {
                windows = TwoWindows { previous: 0, current: 0, ..windows };
                self.decision(&windows, now, Outcome::Allowed, 0)
            }
            Action::Renew | Action::Release => self.take(&mut windows, now, 0),
        };
        *state = if windows.previous == 0 && windows.current == 0 { TwoWindows::default() } else { windows };
        decision
    }

    fn fresh_at(&self, state: &TwoWindows) -> Time {
        let windows = if state.current > 0 { 2 } else { u64::from(state.previous > 0) };
        if windows == 0 {
            return Time::EPOCH;
        }
        Time::from_nanos(state.start.saturating_add(windows * self.period))
    }

    fn to_words(state: &TwoWindows) -> Vec<u64> {
        vec![state.period, state.start, state.previous, state.current]
    }

    fn from_words(words: &[u64]) -> Option<TwoWindows> {
        match *words {
            [period, start, previous, current] if start <= Time::MAX.nanos() => {
                Some(TwoWindows { period, start, previous, current })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, millis};

    #[test]
    fn worked_example_of_the_weighted_windows() {
        let mut window = Example::new(Limit::per_second(100).sliding_window());
        assert!(window.take(80).is_allowed());
        window.advance(Duration::from_millis(1300));
        assert!(window.take(43).is_allowed());
        let last = window.take(1);
        assert_eq!((last.is_allowed(), last.remaining()), (true, 0), "56 + 43 = 99 passes");
        assert!(window.take(1).is_denied(), "the next one does not");
    }

    #[test]
    fn retry_after_is_exact_within_and_across_windows() {
        let mut window = Example::new(Limit::per_second(10).sliding_window());
        assert!(window.take(10).is_allowed());
        for cost in [1, 7] {
            let denied = window.take(cost);
            let wait = denied.retry_after().expect("a retry can succeed");
            window.advance(wait.saturating_sub(Duration::from_nanos(1)));
            assert!(window.take(cost).is_denied(), "cost {cost} a nanosecond early");
            window.advance(Duration::from_nanos(1));
            assert!(window.take(cost).is_allowed(), "cost {cost} after {wait:?}");
        }
    }

    #[test]
    fn a_debit_dated_in_the_previous_window_is_weighted() {
        let mut window = Example::new(Limit::per_second(10).sliding_window());
        let then = window.now();
        window.advance(Duration::from_millis(1500));
        assert_eq!(window.debit_at(8, then).remaining(), 6, "half of 8 still counts");
        window.advance(millis(500));
        assert_eq!(window.peek().remaining(), 10);
    }
}
