//! Fixed window: a counter per window. Windows are aligned to the Unix epoch, or anchored at the first hit.
//!
//! Its known flaw: up to twice the count can pass around the boundary between two windows.

use alloc::vec;
use alloc::vec::Vec;

use super::windows::Windows;
use super::{AlgorithmKind, Balance, Decide, nanos_until, saturate, take_up_to_cost};
use crate::charge::{Action, Operation};
use crate::decision::{Decision, Outcome};
use crate::time::Time;

/// The parameters of a fixed window.
#[derive(Clone, Debug)]
pub(crate) struct FixedWindow {
    count: u32,
    period: u64,
    anchored: bool,
}

/// How much of the window that started at `start` is used. If nothing is, the state equals a fresh one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(super) start: u64,
    pub(super) used: u64,
}

impl FixedWindow {
    pub(crate) fn new(count: u32, period: u64, anchored: bool) -> Self {
        Self { count, period, anchored }
    }

    #[inline]
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    #[inline]
    pub(super) fn period(&self) -> u64 {
        self.period
    }

    /// Returns how much is used, and when the window ends, if it is under way and has this limit's period. `None`
    /// otherwise.
    #[inline]
    pub(super) fn used_now(&self, windows: &Windows, now: Time) -> Option<(u64, u64)> {
        let (start, now) = (windows.start.nanos(), now.nanos());
        let is_current = if self.anchored {
            start <= now && now - start < self.period
        } else {
            // A start may be unaligned if the clock was set back and the period changed since.
            now.checked_sub(start) == Some(now % self.period)
        };
        (is_current && windows.period == self.period).then(|| (windows.current, start + self.period))
    }

    /// Returns the window at `now`. A clock that is set back does not reopen an earlier window.
    #[inline]
    fn current(&self, state: &Window, now: Time) -> Window {
        let now = now.nanos();
        let start = if self.anchored { now } else { now - now % self.period };
        let is_current =
            if self.anchored { now < state.start.saturating_add(self.period) } else { state.start >= start };
        if state.used == 0 || !is_current {
            Window { start, used: 0 }
        } else if self.anchored {
            state.clone()
        } else {
            // After a change to a longer period the window starts earlier; the count remains.
            Window { start: if state.start > now { state.start } else { start }, used: state.used }
        }
    }

    #[inline]
    fn decision(&self, window: &Window, now: Time, outcome: Outcome, granted: u32) -> Decision {
        let end = nanos_until(window.start.saturating_add(self.period), now);
        let wait = if outcome == Outcome::Denied { end } else { 0 };
        let reset = if window.used == 0 { 0 } else { end };
        Balance::used(self.count, window.used, reset).decision(outcome, granted, wait)
    }

    #[inline]
    fn take(&self, window: &mut Window, now: Time, cost: u32) -> Decision {
        let needed = cost.max(1);
        if needed > self.count {
            return self.decision(window, now, Outcome::NeverFits, 0);
        }
        if window.used.saturating_add(needed.into()) > u64::from(self.count) {
            return self.decision(window, now, Outcome::Denied, 0);
        }
        window.used += u64::from(cost);
        self.decision(window, now, Outcome::Allowed, cost)
    }

    /// Debits unconditionally. A debit dated before the window belongs to one that no longer counts, unless windows are
    /// anchored: then it may have been the first hit. It starts an unused window, and counts in a used one, which
    /// over-counts at most.
    fn debit(&self, window: &mut Window, now: Time, cost: u32, at: Option<Time>) {
        if let Some(at) = at.map(Time::nanos).filter(|at| *at < window.start) {
            let end = at.saturating_add(self.period);
            let counts =
                self.anchored && if window.used == 0 { end > now.nanos() } else { end > window.start };
            if !counts {
                return;
            }
            if window.used == 0 {
                window.start = at;
            }
        }
        window.used = window.used.saturating_add(cost.into());
    }
}

impl Decide for FixedWindow {
    type State = Window;

    fn kind(&self) -> AlgorithmKind {
        AlgorithmKind::FixedWindow
    }

    fn capacity(&self) -> u32 {
        self.count
    }

    #[inline]
    fn decide(&self, state: &mut Window, now: Time, operation: &Operation) -> Decision {
        let cost = operation.cost;
        let mut window = self.current(state, now);
        let decision = match operation.action {
            Action::Take { .. } => self.take(&mut window, now, cost),
            Action::TakeUpTo => {
                let available = u64::from(self.count).saturating_sub(window.used);
                self.take(&mut window, now, take_up_to_cost(cost, available))
            }
            Action::Debit { at } => {
                self.debit(&mut window, now, cost, at);
                self.decision(&window, now, Outcome::Allowed, cost)
            }
            Action::Refund { at } => {
                let is_over = at.is_some_and(|at| at.nanos() < window.start);
                let refunded = if is_over { 0 } else { u64::from(cost).min(window.used) };
                window.used -= refunded;
                self.decision(&window, now, Outcome::Allowed, saturate(refunded))
            }
            Action::Reset => {
                window.used = 0;
                self.decision(&window, now, Outcome::Allowed, 0)
            }
            Action::Renew | Action::Release => self.take(&mut window, now, 0),
        };
        *state = if window.used == 0 { Window::default() } else { window };
        decision
    }

    fn fresh_at(&self, state: &Window) -> Time {
        if state.used == 0 { Time::EPOCH } else { Time::from_nanos(state.start.saturating_add(self.period)) }
    }

    fn to_words(state: &Window) -> Vec<u64> {
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
        assert!((0..8).all(|_| hourly.take(1).is_allowed()), "15 within an hour: the known flaw");
        assert!(hourly.take(3).is_denied());
        assert_eq!(hourly.take(3).retry_after(), Some(Duration::from_secs(3600)));
    }

    #[test]
    fn anchored_windows_start_at_the_first_hit() {
        let mut window = Example::new(Limit::per_second(2).fixed_window().anchored());
        window.advance(millis(700));
        assert!(window.take(2).is_allowed());
        window.advance(millis(999));
        assert_eq!(window.take(1).retry_after(), Some(millis(1)));
        window.advance(millis(1));
        assert!(window.take(2).is_allowed());
    }

    #[test]
    fn debt_expires_with_its_window() {
        let mut window = Example::new(Limit::per_second(4).fixed_window());
        assert_eq!(window.debit(12).debt(), 8);
        window.advance(Duration::from_secs(1));
        assert_eq!(window.take(1).remaining(), 3);
    }

    #[test]
    fn a_refund_applies_to_its_own_window() {
        let mut window = Example::new(Limit::per_second(4).fixed_window());
        assert!(window.take(4).is_allowed());
        let then = window.now();
        window.advance(Duration::from_secs(1));
        assert!(window.take(4).is_allowed());
        assert_eq!(window.refund_at(4, then).remaining(), 0, "that window has ended");
        assert_eq!(window.refund(1).remaining(), 1);
    }

    #[test]
    fn a_parameter_change_keeps_the_count() {
        let mut window = Example::new(Limit::per_second(10).fixed_window());
        assert!(window.take(6).is_allowed());
        window.change(Limit::per_minute(8).fixed_window());
        assert_eq!(window.take(2).remaining(), 0);
        assert!(window.take(1).is_denied());
    }

    #[test]
    fn a_refund_of_the_first_hit_applies_to_the_window_that_it_started() {
        let mut window = Example::new(Limit::per_second(2).fixed_window().anchored());
        let then = window.now();
        assert!(window.take(2).is_allowed());
        assert_eq!(window.refund_at(1, then).remaining(), 1);
    }

    #[test]
    fn a_debit_dated_in_the_past_starts_an_anchored_window() {
        let mut window = Example::new(Limit::per_hour(100).fixed_window().anchored());
        let then = window.now();
        window.set(hours_and_minutes(0, 10));
        let dated = window.debit_at(50, then);
        assert_eq!((dated.remaining(), dated.reset_after()), (50, Duration::from_secs(50 * 60)));
        assert!(window.take(51).is_denied(), "50 of this hour have passed already");
        window.set(hours_and_minutes(1, 0));
        assert_eq!(window.debit_at(50, then).remaining(), 100, "that window has ended");
    }

    #[test]
    fn a_debit_without_an_instant_counts_for_a_clock_that_is_behind() {
        for anchored in [false, true] {
            let limit = Limit::per_second(10).fixed_window();
            let mut window = Example::new(if anchored { limit.anchored() } else { limit });
            assert!(window.take(1).is_allowed());
            window.set(window.now() - millis(2));
            assert_eq!(window.debit(5).remaining(), 4);
        }
    }

    #[test]
    fn a_debit_from_before_the_first_hit_counts_in_an_anchored_window() {
        let mut window = Example::new(Limit::per_hour(100).fixed_window().anchored());
        let then = window.now();
        window.set(hours_and_minutes(0, 10));
        assert!(window.take(1).is_allowed());
        let dated = window.debit_at(50, then);
        assert_eq!((dated.remaining(), dated.reset_after()), (49, Duration::from_secs(3600)), "over-counts");
    }

    #[test]
    fn a_clock_set_back_and_forward_again_does_not_reopen_the_window() {
        let mut window = Example::new(Limit::per_hour(2).fixed_window());
        window.set(hours_and_minutes(10, 0));
        assert!(window.take(2).is_allowed());
        window.set(hours_and_minutes(9, 59));
        assert!(window.take(1).is_denied());
        window.set(hours_and_minutes(10, 0));
        assert!(window.take(1).is_denied(), "the same window");
    }

    #[test]
    fn an_anchored_window_ends_at_its_new_end_after_a_parameter_change() {
        let mut window = Example::new(Limit::per_minute(1).fixed_window().anchored());
        assert!(window.take(1).is_allowed());
        window.change(Limit::per_second(1).fixed_window().anchored());
        window.advance(Duration::from_secs(1));
        assert!(window.take(1).is_allowed());
    }
}
