//! The fast path of fixed and sliding windows: a take in the window that is under way.

use super::fixed_window::{FixedWindow, Window};
use super::sliding_window::{SlidingWindow, TwoWindows};
use super::windows::Windows;
use crate::charge::Charge;
use crate::decision::Decision;
use crate::time::Time;

/// A limit by fixed or sliding windows.
///
/// Stores can keep the state of such a limit ([`Limit::as_window`](crate::Limit::as_window)) as [`Windows`].
#[derive(Clone, Copy, Debug)]
pub struct WindowLimit<'l>(Kind<'l>);

#[derive(Clone, Copy, Debug)]
enum Kind<'l> {
    Fixed(&'l FixedWindow),
    Sliding(&'l SlidingWindow),
}

/// The result of [`WindowLimit::take`], before it becomes a [`Decision`].
#[derive(Clone, Copy, Debug)]
pub struct WindowTake {
    /// The windows before the take.
    windows: Windows,
    now: Time,
    /// What counts against the limit, without this take.
    used: u64,
    is_allowed: bool,
}

impl WindowTake {
    /// Returns how much of the window is used after the take if it is allowed. Nothing else of the state changes. A
    /// denied take does not change the state.
    #[inline]
    pub fn next(&self, cost: u32) -> Option<u64> {
        self.is_allowed.then_some(self.windows.current + u64::from(cost))
    }
}

impl<'l> From<&'l FixedWindow> for WindowLimit<'l> {
    #[inline]
    fn from(window: &'l FixedWindow) -> Self {
        Self(Kind::Fixed(window))
    }
}

impl<'l> From<&'l SlidingWindow> for WindowLimit<'l> {
    #[inline]
    fn from(window: &'l SlidingWindow) -> Self {
        Self(Kind::Sliding(window))
    }
}

impl WindowLimit<'_> {
    /// Returns the period in nanoseconds.
    #[inline]
    pub fn period(&self) -> u64 {
        match self.0 {
            Kind::Fixed(window) => window.period(),
            Kind::Sliding(window) => window.period(),
        }
    }

    #[inline]
    fn count(&self) -> u32 {
        match self.0 {
            Kind::Fixed(window) => window.count(),
            Kind::Sliding(window) => window.count(),
        }
    }

    /// Returns whether a charge is a plain take: a take without a wait, of a cost that fits. Nearly all charges are.
    #[inline]
    pub fn is_plain(&self, charge: &Charge<'_>) -> bool {
        charge.operation.action.is_plain_take() && charge.operation.cost.wrapping_sub(1) < self.count()
    }

    /// Takes `cost` in the window that is under way. `None` if it has ended, has not started, or is of a limit with
    /// another period: then [`State::apply`](crate::store::State::apply) decides.
    ///
    /// For a [plain](Self::is_plain) take, this followed by [`answer`](Self::answer) returns the same decision.
    #[inline]
    pub fn take(&self, windows: &Windows, now: Time, cost: u32) -> Option<WindowTake> {
        // At the last instant every window has ended.
        if windows.is_unused() || now == Time::MAX {
            return None;
        }
        let used = match self.0 {
            Kind::Fixed(window) if !windows.sliding => window.used_now(windows, now)?,
            Kind::Sliding(window) if windows.sliding => window.used_now(windows, now)?,
            Kind::Fixed(_) | Kind::Sliding(_) => return None,
        };
        let is_allowed = used.saturating_add(cost.into()) <= self.count().into();
        Some(WindowTake { windows: *windows, now, used, is_allowed })
    }

    /// Returns the decision. `cost` is that of the take.
    #[inline]
    pub fn answer(&self, take: &WindowTake, cost: u32) -> Decision {
        let WindowTake { windows, now, used, .. } = *take;
        match self.0 {
            Kind::Fixed(window) => {
                let mut state = Window { start: windows.start.nanos(), used };
                window.take(&mut state, now, cost)
            }
            Kind::Sliding(window) => {
                let mut state = TwoWindows {
                    period: windows.period,
                    start: windows.start.nanos(),
                    previous: windows.previous,
                    current: windows.current,
                };
                window.take_used(&mut state, used, now, cost)
            }
        }
    }
}
