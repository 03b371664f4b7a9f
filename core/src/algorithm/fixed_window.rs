//! Fixed window: a counter per window, aligned to the epoch or anchored at the first hit.
//!
//! Its known flaw: a full window's worth may pass at the end of one window and another at the begin of
//! the next.

use alloc::vec;
use alloc::vec::Vec;

use super::{Count, Rules, ahead};
use crate::charge::{Action, Ask};
use crate::decision::{Decision, Outcome};
use crate::time::Time;

/// A counter per window.
#[derive(Clone, Debug)]
pub(crate) struct FixedWindow {
    count: u32,
    period: u64,
    anchored: bool,
}

/// What was used of the window that began at `start`. Nothing used is a fresh window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    start: u64,
    used: u64,
}

impl FixedWindow {
    pub(crate) fn new(count: u32, period: u64, anchored: bool) -> Self {
        Self { count, period, anchored }
    }

    /// The window of now. A clock that was set back does not reopen an earlier one.
    #[inline]
    fn current(&self, state: &Window, now: Time) -> Window {
        let now = now.nanos();
        let start = if self.anchored { now } else { now - now % self.period };
        let holds =
            if self.anchored { now < state.start.saturating_add(self.period) } else { state.start >= start };
        if state.used == 0 || !holds {
            Window { start, used: 0 }
        } else if self.anchored {
            state.clone()
        } else {
            // A longer period than before begins earlier; the count is kept.
            Window { start: if state.start > now { state.start } else { start }, used: state.used }
        }
    }

    #[inline]
    fn answer(&self, window: &Window, now: Time, outcome: Outcome, granted: u32) -> Decision {
        let end = ahead(window.start.saturating_add(self.period), now);
        let left = i64::from(self.count).saturating_sub_unsigned(window.used);
        let wait = if outcome == Outcome::Denied { end } else { 0 };
        let reset = if window.used == 0 { 0 } else { end };
        Count { limit: self.count, left, reset }.answer(outcome, granted, wait)
    }

    #[inline]
    fn take(&self, window: &mut Window, now: Time, cost: u32) -> Decision {
        let asked = cost.max(1);
        if asked > self.count {
            return self.answer(window, now, Outcome::NeverFits, 0);
        }
        if window.used.saturating_add(asked.into()) > u64::from(self.count) {
            return self.answer(window, now, Outcome::Denied, 0);
        }
        window.used += u64::from(cost);
        self.answer(window, now, Outcome::Allowed, cost)
    }
}

impl Rules for FixedWindow {
    type State = Window;

    fn capacity(&self) -> u32 {
        self.count
    }

    #[inline]
    fn decide(&self, state: &mut Window, now: Time, ask: &Ask) -> Decision {
        let mut window = self.current(state, now);
        // An instant before this window belongs to one that is over, and so is what happened there.
        let over = |at: Option<Time>| at.is_some_and(|at| at.nanos() < window.start);
        let decision = match ask.action {
            Action::Take { .. } => self.take(&mut window, now, ask.cost),
            Action::TakeUpTo => {
                let there = u64::from(self.count).saturating_sub(window.used);
                let part = ask.cost.min(u32::try_from(there).unwrap_or(u32::MAX));
                self.take(&mut window, now, part.max(ask.cost.min(1)))
            }
            Action::Debit { at } => {
                window.used = window.used.saturating_add(if over(at) { 0 } else { ask.cost.into() });
                self.answer(&window, now, Outcome::Allowed, ask.cost)
            }
            Action::Refund { at } => {
                let given = if over(at) { 0 } else { u64::from(ask.cost).min(window.used) };
                window.used -= given;
                self.answer(&window, now, Outcome::Allowed, u32::try_from(given).unwrap_or(u32::MAX))
            }
            Action::Reset => {
                window.used = 0;
                self.answer(&window, now, Outcome::Allowed, 0)
            }
            Action::Renew | Action::Release => self.take(&mut window, now, 0),
        };
        *state = if window.used == 0 { Window::default() } else { window };
        decision
    }

    fn fresh_at(&self, state: &Window) -> Time {
        if state.used == 0 { Time::EPOCH } else { Time::from_nanos(state.start.saturating_add(self.period)) }
    }

    fn words(state: &Window) -> Vec<u64> {
        vec![state.start, state.used]
    }

    fn from_words(words: &[u64]) -> Option<Window> {
        match *words {
            [start, used] if start <= Time::MAX.nanos() => Some(Window { start, used }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, hours_and_minutes, millis};

    #[test]
    fn worked_example_with_the_known_flaw() {
        let mut hourly = Example::new(Limit::per_hour(10).fixed_window());
        hourly.set(hours_and_minutes(1, 30));
        assert!((0..7).all(|_| hourly.take(1).is_allowed()));
        hourly.set(hours_and_minutes(2, 0));
        assert!((0..8).all(|_| hourly.take(1).is_allowed()), "15 in an hour: the flaw");
        assert!(hourly.take(3).is_denied());
        assert_eq!(hourly.take(3).retry_after(), Some(Duration::from_secs(3600)));
    }

    #[test]
    fn anchored_windows_begin_with_the_first_hit() {
        let mut window = Example::new(Limit::per_second(2).fixed_window().anchored());
        window.advance(millis(700));
        assert!(window.take(2).is_allowed());
        window.advance(millis(999));
        assert_eq!(window.take(1).retry_after(), Some(millis(1)));
        window.advance(millis(1));
        assert!(window.take(2).is_allowed());
    }

    #[test]
    fn debt_ends_with_its_window() {
        let mut window = Example::new(Limit::per_second(4).fixed_window());
        assert_eq!(window.debit(12).debt(), 8);
        window.advance(Duration::from_secs(1));
        assert_eq!(window.take(1).remaining(), 3);
    }

    #[test]
    fn a_refund_goes_to_its_window() {
        let mut window = Example::new(Limit::per_second(4).fixed_window());
        assert!(window.take(4).is_allowed());
        let then = window.now();
        window.advance(Duration::from_secs(1));
        assert!(window.take(4).is_allowed());
        assert_eq!(window.refund_at(4, then).remaining(), 0, "that window is over");
        assert_eq!(window.refund(1).remaining(), 1);
    }

    #[test]
    fn a_change_keeps_the_count() {
        let mut window = Example::new(Limit::per_second(10).fixed_window());
        assert!(window.take(6).is_allowed());
        window.change(Limit::per_minute(8).fixed_window());
        assert_eq!(window.take(2).remaining(), 0);
        assert!(window.take(1).is_denied());
    }

    #[test]
    fn a_refund_for_the_first_hit_goes_to_the_window_it_began() {
        let mut window = Example::new(Limit::per_second(2).fixed_window().anchored());
        let then = window.now();
        assert!(window.take(2).is_allowed());
        assert_eq!(window.refund_at(1, then).remaining(), 1);
    }

    #[test]
    fn a_clock_that_was_set_back_and_on_again_does_not_reopen_the_window() {
        let mut window = Example::new(Limit::per_hour(2).fixed_window());
        window.set(hours_and_minutes(10, 0));
        assert!(window.take(2).is_allowed());
        window.set(hours_and_minutes(9, 59));
        assert!(window.take(1).is_denied());
        window.set(hours_and_minutes(10, 0));
        assert!(window.take(1).is_denied(), "the same window");
    }

    #[test]
    fn an_anchored_window_ends_at_its_new_end_after_a_change() {
        let mut window = Example::new(Limit::per_minute(1).fixed_window().anchored());
        assert!(window.take(1).is_allowed());
        window.change(Limit::per_second(1).fixed_window().anchored());
        window.advance(Duration::from_secs(1));
        assert!(window.take(1).is_allowed());
    }
}
