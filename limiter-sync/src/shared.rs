//! What callers and the background task of an instance share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::{Clock, Observer, Store, Time, Timekeeper};

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
    /// By how many nanoseconds that clock is ahead of ours, and whether anybody has said so yet.
    offset: AtomicI64,
    clock_known: AtomicBool,
    /// When the centre was asked first of all that it has not answered since; 0 if it has.
    silent_since: AtomicU64,
}

impl<S: Store, C: Clock> Shared<S, C> {
    pub(crate) fn new(
        store: Arc<S>,
        clock: Arc<C>,
        observer: Option<Arc<dyn Observer>>,
        most_keys: usize,
    ) -> Self {
        let own_clock = store.capability().timekeeper == Timekeeper::Store;
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
            clock_known: AtomicBool::new(!own_clock),
            silent_since: AtomicU64::new(0),
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
            let offset = if self.knows_clock() {
                self.offset.load(Ordering::Relaxed).clamp(least, most)
            } else {
                least / 2 + most / 2
            };
            self.offset.store(offset, Ordering::Relaxed);
            self.clock_known.store(true, Ordering::Relaxed);
        }
    }

    /// Whether instants can be told by the clock that decides.
    pub(crate) fn knows_clock(&self) -> bool {
        self.clock_known.load(Ordering::Relaxed)
    }

    /// The centre is not silent, whatever it says.
    pub(crate) fn is_there(&self) {
        self.silent_since.store(0, Ordering::Relaxed);
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

    /// Since when the centre has not answered, if it has not.
    pub(crate) fn silent_since(&self) -> Option<Time> {
        Some(self.silent_since.load(Ordering::Relaxed)).filter(|since| *since != 0).map(Time::from_nanos)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
