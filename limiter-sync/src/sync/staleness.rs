//! How long the central store has not answered, and whether the sync task is at work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::Time;

use crate::config::{LimitConfig, Mode};
use crate::nanos;

/// How long after its last sign of life a sync task counts as stopped.
const ALIVE_FOR: Duration = Duration::from_secs(1);
/// The least time between two starts of a sync task: what ended one may end the next, too.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// An instant that never comes.
const NEVER: u64 = u64::MAX;

/// Instants by the local clock.
#[derive(Debug)]
pub(crate) struct Staleness {
    /// The first instant since the last answer at which the central store was called, or at which a sync round was
    /// missing: one that had something to send.
    unanswered_since: AtomicU64,
    /// Until when the sync task counts as being at work; 0 if there is none. A manual node needs none, ever.
    task_alive_until: AtomicU64,
    /// When a sync task was last started; 0 if none ever was.
    task_started_at: AtomicU64,
    /// How many sync tasks were started.
    tasks: AtomicU64,
    /// If no sync round is expected for longer than this, one of a longer interval is, or none at all.
    longest_wait: u64,
}

impl Staleness {
    /// `shortest` is the shortest sync interval of the node.
    pub(crate) fn new(shortest: Duration, manual: bool) -> Self {
        Self {
            unanswered_since: AtomicU64::new(NEVER),
            task_alive_until: AtomicU64::new(if manual { NEVER } else { 0 }),
            task_started_at: AtomicU64::default(),
            tasks: AtomicU64::default(),
            longest_wait: nanos(shortest).saturating_mul(3),
        }
    }

    // Answers.

    /// Records that the central store is called.
    pub(crate) fn called(&self, now: Time) {
        self.unanswered_since.fetch_min(now.nanos(), Ordering::Relaxed);
    }

    /// Records that the central store answered.
    pub(crate) fn answered(&self) {
        self.unanswered_since.store(NEVER, Ordering::Relaxed);
    }

    /// Records that a decision has made a key of a limit due for the next sync round.
    #[inline]
    pub(crate) fn made_due(&self, config: &LimitConfig, now: Time) {
        let soon = now.nanos().saturating_add(self.longest_wait);
        if self.unanswered_since.load(Ordering::Relaxed) > soon {
            self.expect_round(config, now);
        }
    }

    /// A sync round is missing two intervals from now: one to wait, which may be a tenth longer, and the rest for the
    /// round before it. Without a task, it is missing at once.
    #[cold]
    fn expect_round(&self, config: &LimitConfig, now: Time) {
        if config.mode == Mode::Lease {
            // The next round may have nothing to send, and leases do not become stale.
            return;
        }
        let wait = if self.is_task_alive(now) { config.interval.saturating_mul(2) } else { 0 };
        self.unanswered_since.fetch_min(now.nanos().saturating_add(wait), Ordering::Relaxed);
    }

    /// Returns since when the central store has not answered, or from when on it will not have answered.
    pub(crate) fn since(&self) -> Option<Time> {
        Some(self.unanswered_since.load(Ordering::Relaxed))
            .filter(|since| *since != NEVER)
            .map(Time::from_nanos)
    }

    /// Returns whether something may be wrong: the central store has not answered, or there may be no sync task.
    /// Otherwise nothing is stale, and no task is missing.
    #[inline]
    pub(crate) fn is_suspect(&self, now: Time) -> bool {
        let unanswered_since = self.unanswered_since.load(Ordering::Relaxed);
        unanswered_since.min(self.task_alive_until.load(Ordering::Relaxed)) <= now.nanos()
    }

    /// Returns whether the central store has not answered for longer than `bound` nanoseconds.
    pub(crate) fn exceeds(&self, bound: u64, now: Time) -> bool {
        now.nanos().saturating_sub(self.unanswered_since.load(Ordering::Relaxed)) > bound
    }

    // The sync task.

    pub(crate) fn is_task_alive(&self, now: Time) -> bool {
        now.nanos() < self.task_alive_until.load(Ordering::Relaxed)
    }

    /// Returns whether the caller has to start a sync task, which is so for one caller at a time.
    pub(crate) fn claim_start(&self, now: Time) -> bool {
        let started_at = self.task_started_at.load(Ordering::Relaxed);
        let paused = started_at == 0 || now.since(Time::from_nanos(started_at)) >= RESTART_AFTER;
        let claim = |now: u64| {
            self.task_started_at.compare_exchange(started_at, now, Ordering::Relaxed, Ordering::Relaxed)
        };
        !self.is_task_alive(now) && paused && claim(now.nanos().max(1)).is_ok()
    }

    /// Records that a sync task starts, and returns its number.
    pub(super) fn task_started(&self, now: Time) -> u64 {
        let number = self.tasks.fetch_add(1, Ordering::Relaxed) + 1;
        self.task_lives(now);
        number
    }

    /// Records a sign of life of the sync task.
    pub(super) fn task_lives(&self, now: Time) {
        let until = now.nanos().saturating_add(nanos(ALIVE_FOR));
        self.task_alive_until.store(until, Ordering::Relaxed);
    }

    /// Records that the sync task of this number ended unexpectedly: the sync round that is expected will be missing.
    pub(super) fn task_stopped(&self, number: u64, now: Time) {
        if number != self.tasks.load(Ordering::Relaxed) {
            return;
        }
        self.task_alive_until.store(0, Ordering::Relaxed);
        if self.since().is_some() {
            self.unanswered_since.fetch_min(now.nanos(), Ordering::Relaxed);
        }
    }
}
