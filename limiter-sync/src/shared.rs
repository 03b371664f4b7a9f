//! What callers and the background task of an instance share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_core::store::{ClockSource, Store};
use tollgate_core::{Clock, Effect, ErrorKind, Observer, Source, StoreError, Time, Verdict};

use crate::exchange::Shipment;
use crate::insight::Counters;
use crate::table::Table;
use crate::terms::{Limits, Tracked};

pub(crate) struct Shared<S, C> {
    pub(crate) store: Arc<S>,
    pub(crate) clock: Arc<C>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) table: Table,
    pub(crate) limits: Limits,
    /// Shipments without an answer.
    pub(crate) waiting: Mutex<VecDeque<Shipment>>,
    pub(crate) counters: Counters,
    /// Everything is decided at the centre.
    pub(crate) closed: AtomicBool,
    /// The centre decides by a clock of its own.
    own_clock: bool,
    /// By how many nanoseconds that clock is ahead of ours, and since when that is known; 0 if nobody has said so yet.
    offset: AtomicI64,
    clock_known_since: AtomicU64,
    /// When the centre was asked first of all that it has not answered since; 0 if it has.
    silent_since: AtomicU64,
    /// When the task ended that exchanges, although nobody had said so; 0 if it did not.
    task_gone_since: AtomicU64,
}

/// How long a task that is gone stays so: whatever ended it may end the next one, too.
const REST: Duration = Duration::from_secs(1);

impl<S: Store, C: Clock> Shared<S, C> {
    pub(crate) fn new(
        store: Arc<S>,
        clock: Arc<C>,
        observer: Option<Arc<dyn Observer>>,
        most_keys: usize,
    ) -> Self {
        let own_clock = store.capability().clock_source == ClockSource::Store;
        Self {
            store,
            clock,
            observer,
            table: Table::new(most_keys),
            limits: Limits::default(),
            waiting: Mutex::default(),
            counters: Counters::default(),
            closed: AtomicBool::new(false),
            own_clock,
            offset: AtomicI64::new(0),
            clock_known_since: AtomicU64::new(0),
            silent_since: AtomicU64::new(0),
            task_gone_since: AtomicU64::new(0),
        }
    }

    /// A caller's time, by the clock that decides.
    #[inline]
    pub(crate) fn to_centre(&self, time: Time) -> Time {
        match self.offset.load(Ordering::Relaxed) {
            0 => time,
            offset => Time::from_nanos(time.nanos().saturating_add_signed(offset)),
        }
    }

    /// The time by the clock that decides.
    pub(crate) fn now(&self) -> Time {
        self.to_centre(self.clock.now())
    }

    /// The centre is about to be asked.
    pub(crate) fn asks(&self, now: Time) {
        let _ =
            self.silent_since.compare_exchange(0, now.nanos().max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The centre has answered what was sent at `sent_at`, and its clock showed `at`.
    pub(crate) fn heard(&self, at: Time, sent_at: Time) {
        let now = self.clock.now();
        self.is_there();
        self.counters.heard(now);
        if self.own_clock {
            // Somewhere between leaving and coming back. What is known stays, as long as it may be so.
            let ahead_of = |ours: Time| at.nanos().cast_signed().saturating_sub(ours.nanos().cast_signed());
            let (least, most) = (ahead_of(now), ahead_of(sent_at).max(ahead_of(now)));
            let offset = if self.clock_known_since.load(Ordering::Relaxed) > 0 {
                self.offset.load(Ordering::Relaxed).clamp(least, most)
            } else {
                least / 2 + most / 2
            };
            self.offset.store(offset, Ordering::Relaxed);
            let since = now.nanos().max(1);
            let _ = self.clock_known_since.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether what a limit's keys owe was noted by the clock that decides. At first nobody knows that clock, and what was noted then
    /// has been told two intervals after somebody does.
    pub(crate) fn goes_by_centre(&self, tracked: &Tracked) -> bool {
        let since = self.clock_known_since.load(Ordering::Relaxed);
        let known_for = self.clock.now().nanos().saturating_sub(since);
        !self.own_clock || (since > 0 && known_for > tracked.interval.saturating_mul(2))
    }

    /// The centre is not silent, whatever it says.
    fn is_there(&self) {
        self.silent_since.store(0, Ordering::Relaxed);
    }

    /// The centre did not answer what was sent at `sent_at`, or refused it, which is an answer as well. Whether it is the latter, and
    /// has to do with a key.
    pub(crate) fn refused(&self, error: &StoreError, sent_at: Time) -> bool {
        let about_a_key =
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::Internal);
        if about_a_key && error.effect() == Effect::None {
            self.is_there();
            return true;
        }
        self.asks(sent_at);
        false
    }

    /// Whether the centre has been silent for longer than a limit allows.
    #[inline]
    pub(crate) fn is_stale(&self, tracked: &Tracked, now: Time) -> bool {
        let since = self.silent_since.load(Ordering::Relaxed);
        since != 0 && self.is_silent(since, tracked, now)
    }

    #[cold]
    fn is_silent(&self, since: u64, tracked: &Tracked, now: Time) -> bool {
        let since = self.to_centre(Time::from_nanos(since));
        now.nanos().saturating_sub(since.nanos()) > tracked.stale_after
    }

    /// The task that exchanges has ended by itself: as long as there is none, the centre is as good as silent.
    pub(crate) fn task_is_gone(&self) {
        let now = self.clock.now().nanos().max(1);
        self.task_gone_since.store(now, Ordering::Relaxed);
        let _ = self.silent_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Somebody looks for a task: whether it is there now, or there is no runtime for it.
    pub(crate) fn task_is_back(&self, runs: bool) {
        let gone_since = self.task_gone_since.swap(0, Ordering::Relaxed);
        if runs {
            let _ = self.silent_since.compare_exchange(gone_since, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether the task has been gone for long enough to start another.
    #[inline]
    pub(crate) fn lacks_task(&self) -> bool {
        self.silent_since.load(Ordering::Relaxed) != 0 && self.needs_task()
    }

    #[cold]
    fn needs_task(&self) -> bool {
        let since = self.task_gone_since.load(Ordering::Relaxed);
        since != 0 && self.clock.now().since(Time::from_nanos(since)) >= REST
    }

    /// Since when the centre has not answered, if it has not.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        Some(self.silent_since.load(Ordering::Relaxed)).filter(|since| *since != 0).map(Time::from_nanos)
    }
}

/// Whether the centre itself has decided this. A store around it may have stood in for it, and then nothing was debited there.
pub(crate) fn is_centres_own(verdict: &Verdict) -> bool {
    verdict.decisions().iter().all(|decision| decision.source() == Source::Store)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
