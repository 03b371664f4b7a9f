//! The states of fixed and sliding windows as plain numbers, for stores that keep them in words of their own.

use super::AlgorithmState;
use super::fixed_window::Window;
use super::sliding_window::TwoWindows;
use crate::time::Time;

/// The state of a fixed or sliding window: how much is used of a window, and of the one before it.
///
/// A state of which nothing is used equals a fresh one; it is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores keep exactly this in their words")]
pub struct Windows {
    /// Whether the window slides: then it counts until the end of the next one.
    pub sliding: bool,
    /// When the window started.
    pub start: Time,
    /// The length of both windows in nanoseconds, under the parameters with which the state was written.
    pub period: u64,
    /// How much is used of the window before it; zero if the window is fixed.
    pub previous: u64,
    /// How much is used of the window.
    pub current: u64,
}

impl Windows {
    /// Returns whether nothing is used, so that the state equals a fresh one at any time.
    #[inline]
    pub fn is_unused(&self) -> bool {
        self.previous == 0 && self.current == 0
    }

    /// Returns the instant from which on the state equals a fresh one, if no other charge comes.
    #[inline]
    pub fn fresh_at(&self) -> Time {
        if self.is_unused() {
            return Time::EPOCH;
        }
        let windows = if self.sliding && self.current > 0 { 2 } else { 1 };
        Time::from_nanos(self.start.nanos().saturating_add(self.period.saturating_mul(windows)))
    }

    #[inline]
    pub(crate) fn to_state(self) -> AlgorithmState {
        let Self { sliding, start, period, previous, current } = self;
        let start = start.nanos();
        if self.is_unused() {
            AlgorithmState::Fresh
        } else if sliding {
            AlgorithmState::SlidingWindow(TwoWindows { period, start, previous, current })
        } else {
            AlgorithmState::FixedWindow(Window { start, used: current })
        }
    }

    /// Returns the windows of a state that equals a fresh one from `fresh_at` on. `None` if it has none, or if they do
    /// not lead back to it.
    #[inline]
    pub(crate) fn of_state(state: &AlgorithmState, fresh_at: Time) -> Option<Self> {
        let windows = match *state {
            AlgorithmState::Fresh => Self::default(),
            AlgorithmState::FixedWindow(Window { start, used }) => Self {
                sliding: false,
                start: Time::from_nanos(start),
                // The state itself does not know it.
                period: fresh_at.nanos().saturating_sub(start),
                previous: 0,
                current: used,
            },
            AlgorithmState::SlidingWindow(TwoWindows { period, start, previous, current }) => {
                Self { sliding: true, start: Time::from_nanos(start), period, previous, current }
            }
            AlgorithmState::Flow(_)
            | AlgorithmState::IntervalBucket(_)
            | AlgorithmState::SlidingLog(_)
            | AlgorithmState::SlidingCounter(_)
            | AlgorithmState::SmoothWarmingUp(_)
            | AlgorithmState::Concurrency(_) => return None,
        };
        if windows.is_unused() {
            return Some(Self::default());
        }
        // A request that is denied after a change of the period keeps its windows, but until the end of new ones.
        (windows.fresh_at() == fresh_at).then_some(windows)
    }
}
