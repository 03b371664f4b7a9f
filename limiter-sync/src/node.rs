//! A node: what the callers and the sync task of a [`Synced`](crate::Synced) share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tollgate_core::store::Store;
use tollgate_core::{Clock, Effect, ErrorKind, Observer, Source, StoreError, Time, Verdict};

use crate::config::{LimitConfig, LimitConfigs};
use crate::local::table::EntryTable;
use crate::stats::{Counters, Stats};
use crate::sync::acquire::TokenCall;
use crate::sync::answered::AnsweredCalls;
use crate::sync::batch::Batch;
use crate::sync::clock::ClockOffset;
use crate::sync::staleness::Staleness;

pub(crate) struct Node<S, C> {
    /// The central store. Behind a pointer, because its counters must not share a cache line with what every decision
    /// reads.
    pub(crate) store: Arc<S>,
    pub(crate) clock: C,
    pub(crate) observer: OnceLock<Arc<dyn Observer>>,
    pub(crate) limits: LimitConfigs,
    pub(crate) table: EntryTable,
    /// Batches to send: those of this sync round, and those without an answer.
    pub(crate) batches: Mutex<VecDeque<Batch>>,
    pub(crate) answered_calls: Mutex<AnsweredCalls>,
    /// Calls for tokens that may have taken some, and whose answers were lost.
    pub(crate) token_calls: Mutex<Vec<TokenCall>>,
    pub(crate) counters: Counters,
    pub(crate) offset: ClockOffset,
    pub(crate) staleness: Staleness,
    /// Everything is decided by the central store.
    closed: AtomicBool,
}

impl<S: Store, C: Clock> Node<S, C> {
    /// `manual`: there is no sync task.
    pub(crate) fn new(store: S, clock: C, limits: LimitConfigs, max_keys: usize, manual: bool) -> Self {
        let offset = ClockOffset::new(store.capability().clock_source);
        let shortest = limits.intervals().first().copied().unwrap_or_default();
        Self {
            store: Arc::new(store),
            clock,
            observer: OnceLock::new(),
            limits,
            table: EntryTable::new(max_keys),
            batches: Mutex::default(),
            answered_calls: Mutex::default(),
            token_calls: Mutex::default(),
            counters: Counters::default(),
            offset,
            staleness: Staleness::new(shortest, manual),
            closed: AtomicBool::new(false),
        }
    }

    /// Converts a caller's time to the deciding clock.
    #[inline]
    pub(crate) fn to_central(&self, time: Time) -> Time {
        self.offset.to_central(time)
    }

    /// Converts a caller's time to the one that is passed to the central store.
    pub(crate) fn to_store(&self, time: Time) -> Time {
        self.offset.to_store(time)
    }

    /// Returns the time of the deciding clock.
    pub(crate) fn now(&self) -> Time {
        self.to_central(self.clock.now())
    }

    /// Records an answer to a call that was sent at `sent_at`. `at` is the time of the central clock in that answer.
    pub(crate) fn answered(&self, at: Time, sent_at: Time) {
        let now = self.clock.now();
        self.staleness.answered();
        self.counters.answered(now);
        self.offset.update(at, sent_at, now);
    }

    /// Records that a call failed that was sent at `sent_at`. Returns whether the central store rejected it because of
    /// one of its keys, which is an answer, too.
    pub(crate) fn failed(&self, error: &StoreError, sent_at: Time) -> bool {
        let about_a_key =
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::Internal);
        if about_a_key && error.effect() == Effect::None {
            self.staleness.answered();
            return true;
        }
        self.staleness.called(sent_at);
        false
    }

    /// Returns whether the central store has not answered for longer than the limit's policy allows. `now` is by the
    /// local clock.
    pub(crate) fn is_stale(&self, config: &LimitConfig, now: Time) -> bool {
        self.staleness.exceeds(config.stale_after, now)
    }

    /// Returns whether the caller has to start a sync task: there is none at work, none was started just now, and the
    /// caller runs on a runtime. `now` is by the local clock.
    pub(crate) fn needs_task(&self, now: Time) -> bool {
        !self.staleness.is_task_alive(now)
            && Handle::try_current().is_ok()
            // The task has a clock of its own, and not every caller has the same.
            && self.staleness.claim_start(self.clock.now())
    }

    /// Returns how long the central store has not answered; zero if it did, or if there is nothing to send.
    pub(crate) fn stale_for(&self) -> Duration {
        self.staleness.since().map_or(Duration::ZERO, |since| self.clock.now().since(since))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// From now on, everything is decided by the central store.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Returns whether no key has pending deltas or leased tokens.
    pub(crate) fn is_synchronized(&self) -> bool {
        self.table.shards().all(|shard| self.table.lock(shard).iter().all(|entry| !entry.has_pending()))
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.counters.read(self.clock.now());
        stats.stale_for = self.stale_for();
        for number in self.table.shards() {
            let shard = self.table.lock(number);
            stats.keys += shard.len();
            stats.evicted += shard.evicted();
            stats.pending += shard.iter().filter(|entry| entry.has_pending()).count();
        }
        stats
    }
}

/// Returns whether the central store made this decision itself. A fallback of a wrapper around it debits nothing there.
pub(crate) fn is_central(verdict: &Verdict) -> bool {
    verdict.decisions().iter().all(|decision| decision.source() == Source::Store)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
