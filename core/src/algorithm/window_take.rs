//! The fast path of fixed and sliding windows: an allowed take in the window that is under way.

use super::Balance;
use super::fixed_window::FixedWindow;
use super::sliding_window::SlidingWindow;
use super::windows::Windows;
use crate::charge::Charge;
use crate::decision::{Decision, Outcome};
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

/// An allowed take, before it becomes a [`Decision`].
#[derive(Clone, Copy, Debug)]
pub struct WindowTake {
    /// What counts against the limit, with this take.
    used: u64,
    /// When the state equals a fresh one.
    fresh_at: u64,
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

    /// Returns whether windows slide.
    #[inline]
    pub fn is_sliding(&self) -> bool {
        matches!(self.0, Kind::Sliding(_))
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

    /// Takes `cost` in the window that is under way, whose count grows by it. `None` if that is denied, or if the window
    /// has ended, has not started, is unused, or is of a limit with another period: then
    /// [`State::apply`](crate::store::State::apply) decides.
    ///
    /// For a [plain](Self::is_plain) take, the [answer](Self::answer) is the same decision as that of `apply`.
    #[inline]
    pub fn take(&self, windows: &Windows, now: Time, cost: u32) -> Option<WindowTake> {
        let (used, fresh_at) = match self.0 {
            Kind::Fixed(window) if !windows.sliding => window.used_now(windows, now)?,
            Kind::Sliding(window) if windows.sliding => window.used_now(windows, now)?,
            Kind::Fixed(_) | Kind::Sliding(_) => return None,
        };
        let used = used.saturating_add(cost.into());
        // At the last instant every window has ended.
        let is_under_way = !windows.is_unused() && now < Time::MAX;
        (is_under_way && used <= self.count().into()).then_some(WindowTake { used, fresh_at })
    }

    /// Returns the decision on an allowed take. `now` and `cost` are those of the take.
    #[inline]
    pub fn answer(&self, take: &WindowTake, now: Time, cost: u32) -> Decision {
        let reset = Time::from_nanos(take.fresh_at).nanos() - now.nanos();
        Balance::used(self.count(), take.used, reset).decision(Outcome::Allowed, cost, 0)
    }
}
