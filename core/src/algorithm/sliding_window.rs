//! Sliding window: the previous window's count, weighted by the part of it that is still in sight, plus
//! the current one's. Exact integers: the weighted count is rounded up, so nothing passes early.

use alloc::vec;
use alloc::vec::Vec;

use super::{Count, Rules, ahead};
use crate::charge::{Action, Ask};
use crate::decision::{Decision, Outcome};
use crate::rate::{scale_down, scale_up};
use crate::time::Time;

/// The previous window, weighted, plus the current one.
#[derive(Clone, Debug)]
pub(crate) struct SlidingWindow {
    count: u32,
    period: u64,
}

/// What was used of the window that began at `start`, and of the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TwoWindows {
    /// How long the windows are.
    period: u64,
    start: u64,
    previous: u64,
    current: u64,
}

impl SlidingWindow {
    pub(crate) fn new(count: u32, period: u64) -> Self {
        Self { count, period }
    }

    /// The windows as of now. A clock that was set back stays in the later window.
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
            // A debt ends with its window, so no more than the limit is carried over.
            TwoWindows { period, start, previous: state.current.min(self.count.into()), current: 0 }
        } else {
            TwoWindows { period, start, previous: 0, current: 0 }
        }
    }

    /// What is still in sight of the previous window.
    #[inline]
    fn carried(&self, windows: &TwoWindows, now: Time) -> u64 {
        if windows.previous == 0 {
            return 0;
        }
        let elapsed = ahead(now.nanos(), Time::from_nanos(windows.start)).min(self.period);
        scale_up(windows.previous, self.period - elapsed, self.period)
    }

    /// What counts against the limit.
    #[inline]
    fn used(&self, windows: &TwoWindows, now: Time) -> u64 {
        windows.current.saturating_add(self.carried(windows, now))
    }

    /// When `cost` passes if nobody else comes.
    fn passes_at(&self, windows: &TwoWindows, cost: u32) -> u64 {
        // Into a window: when the part of `before` that is still in sight leaves `room`.
        let offset = |room: u64, before: u64| {
            if before == 0 { 0 } else { self.period.saturating_sub(scale_down(room, self.period, before)) }
        };
        let room = u64::from(self.count - cost);
        if let Some(room) = room.checked_sub(windows.current) {
            return windows.start.saturating_add(offset(room, windows.previous));
        }
        let carried = windows.current.min(self.count.into());
        windows.start.saturating_add(self.period).saturating_add(offset(room, carried))
    }

    fn answer(&self, windows: &TwoWindows, now: Time, outcome: Outcome, granted: u32) -> Decision {
        self.answer_with(windows, self.used(windows, now), now, outcome, granted, 0)
    }

    #[inline]
    fn answer_with(
        &self,
        windows: &TwoWindows,
        used: u64,
        now: Time,
        outcome: Outcome,
        granted: u32,
        wait: u64,
    ) -> Decision {
        let left = i64::from(self.count).saturating_sub_unsigned(used);
        let reset = ahead(self.fresh_at(windows).nanos(), now);
        Count { limit: self.count, left, reset }.answer(outcome, granted, wait)
    }

    #[inline]
    fn take(&self, windows: &mut TwoWindows, now: Time, cost: u32) -> Decision {
        let (asked, used) = (cost.max(1), self.used(windows, now));
        if asked > self.count {
            return self.answer_with(windows, used, now, Outcome::NeverFits, 0, 0);
        }
        if used.saturating_add(asked.into()) > self.count.into() {
            let wait = ahead(self.passes_at(windows, asked), now);
            return self.answer_with(windows, used, now, Outcome::Denied, 0, wait);
        }
        windows.current += u64::from(cost);
        self.answer_with(windows, used + u64::from(cost), now, Outcome::Allowed, cost, 0)
    }

    /// The counter that an instant belongs to, if it is still in sight.
    fn counter<'w>(&self, windows: &'w mut TwoWindows, at: Option<Time>) -> Option<&'w mut u64> {
        match at {
            Some(at) if at.nanos().saturating_add(self.period) < windows.start => None,
            Some(at) if at.nanos() < windows.start => Some(&mut windows.previous),
            _ => Some(&mut windows.current),
        }
    }
}

impl Rules for SlidingWindow {
    type State = TwoWindows;

    fn capacity(&self) -> u32 {
        self.count
    }

    #[inline]
    fn decide(&self, state: &mut TwoWindows, now: Time, ask: &Ask) -> Decision {
        let mut windows = self.rolled(state, now);
        let decision = match ask.action {
            Action::Take { .. } => self.take(&mut windows, now, ask.cost),
            Action::TakeUpTo => {
                let there = u64::from(self.count).saturating_sub(self.used(&windows, now));
                let part = ask.cost.min(u32::try_from(there).unwrap_or(u32::MAX));
                self.take(&mut windows, now, part.max(ask.cost.min(1)))
            }
            Action::Debit { at } => {
                if let Some(counter) = self.counter(&mut windows, at) {
                    *counter = counter.saturating_add(ask.cost.into());
                }
                self.answer(&windows, now, Outcome::Allowed, ask.cost)
            }
            Action::Refund { at } => {
                let given = self.counter(&mut windows, at).map_or(0, |counter| {
                    let given = (*counter).min(ask.cost.into());
                    *counter -= given;
                    given
                });
                self.answer(&windows, now, Outcome::Allowed, u32::try_from(given).unwrap_or(u32::MAX))
            }
            Action::Reset => {
                windows = TwoWindows { previous: 0, current: 0, ..windows };
                self.answer(&windows, now, Outcome::Allowed, 0)
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

    fn words(state: &TwoWindows) -> Vec<u64> {
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
        assert!(window.take(1).is_denied(), "the next does not");
    }

    #[test]
    fn retry_after_is_exact_within_and_across_windows() {
        let mut window = Example::new(Limit::per_second(10).sliding_window());
        assert!(window.take(10).is_allowed());
        for cost in [1, 7] {
            let denied = window.take(cost);
            let wait = denied.retry_after().expect("a wait cures it");
            window.advance(wait.saturating_sub(Duration::from_nanos(1)));
            assert!(window.take(cost).is_denied(), "cost {cost} a nanosecond early");
            window.advance(Duration::from_nanos(1));
            assert!(window.take(cost).is_allowed(), "cost {cost} after {wait:?}");
        }
    }

    #[test]
    fn an_old_debit_is_weighted_like_what_happened_then() {
        let mut window = Example::new(Limit::per_second(10).sliding_window());
        let then = window.now();
        window.advance(Duration::from_millis(1500));
        assert_eq!(window.debit_at(8, then).remaining(), 6, "half of 8 is still in sight");
        window.advance(millis(500));
        assert_eq!(window.peek().remaining(), 10);
    }
}
