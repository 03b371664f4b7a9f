//! How long the central store has not answered, and whether the sync task still runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::{Clock, Time};

use super::clock::ClockOffset;

/// How long after the end of a sync task another one is started: the same cause may end that one, too.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Instants by the local clock; 0 means never.
#[derive(Debug, Default)]
pub(crate) struct Staleness {
    /// The first call since the last answer.
    unanswered_since: AtomicU64,
    /// When the sync task ended unexpectedly.
    task_stopped_at: AtomicU64,
}

impl Staleness {
    /// Records that the central store is called.
    pub(crate) fn called(&self, now: Time) {
        self.set_if_answered(now.nanos().max(1));
    }

    fn set_if_answered(&self, now: u64) {
        let _ = self.unanswered_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Records that the central store answered.
    pub(crate) fn answered(&self) {
        self.unanswered_since.store(0, Ordering::Relaxed);
    }

    /// Returns the time of the first call since the last answer, if there is one.
    pub(crate) fn since(&self) -> Option<Time> {
        Some(self.unanswered_since.load(Ordering::Relaxed)).filter(|since| *since != 0).map(Time::from_nanos)
    }

    /// Returns whether the central store has not answered for longer than `bound` nanoseconds. `now` is by the deciding
    /// clock.
    #[inline]
    pub(crate) fn exceeds(&self, bound: u64, now: Time, offset: &ClockOffset) -> bool {
        let since = self.unanswered_since.load(Ordering::Relaxed);
        since != 0 && is_longer_than(bound, since, now, offset)
    }

    /// Records that the sync task ended unexpectedly: without one, the central store counts as not answering.
    pub(super) fn task_stopped(&self, now: Time) {
        let now = now.nanos().max(1);
        self.task_stopped_at.store(now, Ordering::Relaxed);
        self.set_if_answered(now);
    }

    /// Records an attempt to start the sync task, and whether it runs now.
    pub(super) fn task_started(&self, runs: bool) {
        let stopped_at = self.task_stopped_at.swap(0, Ordering::Relaxed);
        if runs {
            let unanswered = &self.unanswered_since;
            let _ = unanswered.compare_exchange(stopped_at, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns whether the sync task ended long enough ago to start another one.
    #[inline]
    pub(crate) fn needs_task(&self, clock: &impl Clock) -> bool {
        self.unanswered_since.load(Ordering::Relaxed) != 0 && self.can_restart_task(clock)
    }

    #[cold]
    fn can_restart_task(&self, clock: &impl Clock) -> bool {
        let stopped_at = self.task_stopped_at.load(Ordering::Relaxed);
        stopped_at != 0 && clock.now().since(Time::from_nanos(stopped_at)) >= RESTART_AFTER
    }
}

#[cold]
fn is_longer_than(bound: u64, since: u64, now: Time, offset: &ClockOffset) -> bool {
    let since = offset.to_central(Time::from_nanos(since));
    now.nanos().saturating_sub(since.nanos()) > bound
}
