//! The circuit breaker: closed, open, half-open.
//!
//! - **Closed**: calls are permitted. The outcomes of the last calls are kept as bits; enough failures among them open
//!   the breaker.
//! - **Open**: calls are not permitted for a while. A random part of that time is left out, so that the processes of a
//!   fleet do not probe together.
//! - **Half-open**: one call at a time is permitted as a probe. Enough successes in a row close the breaker; a failure
//!   opens it again, for twice as long.
//!
//! Time is the callers' time, so that tests control it. While the breaker is closed and no call fails, a call reads
//! one word and writes none.

mod failing;
mod probe;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_core::{BreakerState, Time};

use failing::FailingSince;
pub(super) use probe::{Probe, Recovered};

/// The most calls whose outcomes are kept: one bit each.
pub(super) const MAX_OF_LAST: u32 = 64;

/// When the breaker opens, for how long, and what closes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BreakerConfig {
    /// How many failures open it.
    pub(super) failures: u32,
    /// How many of the last calls these failures are counted in. At most [`MAX_OF_LAST`].
    pub(super) of_last: u32,
    /// How long it stays open the first time.
    pub(super) open_for: Duration,
    /// How long it stays open at most, after repeated failures.
    pub(super) open_for_at_most: Duration,
    /// How many probes in a row must succeed to close it.
    pub(super) probes: u32,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failures: 5,
            of_last: 10,
            open_for: Duration::from_millis(500),
            open_for_at_most: Duration::from_secs(8),
            probes: 2,
        }
    }
}

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
const HALF_OPEN: u8 = 2;

#[derive(Debug)]
pub(super) struct CircuitBreaker {
    config: BreakerConfig,
    state: AtomicU8,
    /// The outcomes of the last 64 calls while closed, the newest in the lowest bit. A failure is a one.
    outcomes: AtomicU64,
    /// Set before an outcome is a failure, so that the success which sees that outcome ends it.
    failing_since: FailingSince,
    /// When the open state ends.
    open_until: AtomicU64,
    /// [`BreakerConfig::open_for_at_most`] in nanoseconds: it is read while callers wait for a decision.
    open_for_at_most: u64,
    recovery: Mutex<RecoveryState>,
    random: RandomState,
}

/// How far the recovery of the store has come.
#[derive(Debug, Default)]
struct RecoveryState {
    /// How often the breaker opened since it was last closed.
    opened: u32,
    /// Probes that succeeded in a row.
    succeeded: u32,
    /// The probe in flight, and when it started.
    in_flight: Option<(u64, Time)>,
    /// The number of the next probe.
    next: u64,
}

impl RecoveryState {
    fn start_probe(&mut self, breaker: &Arc<CircuitBreaker>, now: Time) -> Permission {
        let number = self.next;
        (self.next, self.in_flight) = (number + 1, Some((number, now)));
        Permission::Probe(Probe::new(Arc::clone(breaker), number))
    }
}

/// Whether a call is permitted.
#[derive(Debug)]
pub(super) enum Permission {
    /// The breaker is closed.
    Call,
    /// The breaker is half-open, and this call is the probe.
    Probe(Probe),
    /// The call is not permitted. A retry may be, after this long.
    NotPermitted(Duration),
}

impl CircuitBreaker {
    pub(super) fn new(config: BreakerConfig) -> Self {
        Self {
            config,
            state: AtomicU8::new(CLOSED),
            outcomes: AtomicU64::new(0),
            failing_since: FailingSince::never(),
            open_until: AtomicU64::new(0),
            open_for_at_most: u64::try_from(config.open_for_at_most.as_nanos()).unwrap_or(u64::MAX),
            recovery: Mutex::default(),
            random: RandomState::new(),
        }
    }

    pub(super) fn config(&self) -> BreakerConfig {
        self.config
    }

    pub(super) fn state(&self) -> BreakerState {
        match self.state.load(Ordering::Acquire) {
            CLOSED => BreakerState::Closed,
            OPEN => BreakerState::Open,
            _ => BreakerState::HalfOpen,
        }
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Returns whether a call is permitted at `now`, and the new state of the breaker if that changed it.
    pub(super) fn permission(self: &Arc<Self>, now: Time) -> (Permission, Option<BreakerState>) {
        if self.is_closed() {
            return (Permission::Call, None);
        }
        let open_until = self.open_until.load(Ordering::Acquire);
        let left = open_until.saturating_sub(now.nanos());
        // More than the maximum is left only if the clock has been set back.
        let still_open = left > 0 && left <= self.open_for_at_most;
        if self.state.load(Ordering::Acquire) == OPEN && still_open {
            return (Permission::NotPermitted(Duration::from_nanos(left)), None);
        }
        let mut recovery = self.lock();
        // Another caller may have changed the state meanwhile.
        match self.state.load(Ordering::Acquire) {
            CLOSED => (Permission::Call, None),
            _ if recovery.in_flight.is_some_and(|(_, since)| !self.is_abandoned(since, now)) => {
                (Permission::NotPermitted(self.config.open_for), None)
            }
            OPEN => {
                if open_until != self.open_until.load(Ordering::Acquire) {
                    return (Permission::NotPermitted(self.config.open_for), None);
                }
                recovery.succeeded = 0;
                self.state.store(HALF_OPEN, Ordering::Release);
                (recovery.start_probe(self, now), Some(BreakerState::HalfOpen))
            }
            _ => (recovery.start_probe(self, now), None),
        }
    }

    /// Returns whether a probe that started at `since` has taken so long that it will have no outcome: its task may
    /// belong to a runtime that is no longer driven.
    fn is_abandoned(&self, since: Time, now: Time) -> bool {
        now.since(since).max(since.since(now)) > self.config.open_for_at_most
    }

    /// Records the success of a call that was not a probe.
    #[inline]
    pub(super) fn record_success(&self) {
        if self.outcomes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let _ =
            self.outcomes.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |outcomes| Some(outcomes << 1));
        self.failing_since.succeeded();
    }

    /// Returns how long the store has failed without a success. While the breaker is not closed, that begins at `now`
    /// at the latest.
    pub(super) fn failing_for(&self, now: Time) -> Duration {
        if let Some(elapsed) = self.failing_since.elapsed(now) {
            return elapsed;
        }
        // Behind the lock, because a breaker that is closed meanwhile must not be failing.
        let _recovery = self.lock();
        if !self.is_closed() {
            self.failing_since.failed(now);
        }
        Duration::ZERO
    }

    /// Records the failure of a call that was not a probe. Returns the new state if that opened the breaker.
    pub(super) fn record_failure(&self, now: Time) -> Option<BreakerState> {
        // While calls succeed, the lock is not taken.
        let mut recovery = self.lock();
        if !self.is_closed() {
            // The call was in flight when the breaker opened.
            return None;
        }
        self.failing_since.failed(now);
        let outcomes = self.outcomes.load(Ordering::Relaxed) << 1 | 1;
        self.outcomes.store(outcomes, Ordering::Release);
        let failures = (outcomes & u64::MAX >> (MAX_OF_LAST - self.config.of_last)).count_ones();
        if failures < self.config.failures {
            return None;
        }
        Some(self.open(&mut recovery, now))
    }

    fn open(&self, recovery: &mut RecoveryState, now: Time) -> BreakerState {
        self.failing_since.failed(now);
        let open_for = self.config.open_for.saturating_mul(1 << recovery.opened.min(16));
        let open_for = open_for.min(self.config.open_for_at_most);
        recovery.opened = recovery.opened.saturating_add(1);
        (recovery.succeeded, recovery.in_flight) = (0, None);
        let open_until = now + open_for - open_for.mul_f64(self.random_fraction() / 2.0);
        self.open_until.store(open_until.nanos(), Ordering::Release);
        self.state.store(OPEN, Ordering::Release);
        BreakerState::Open
    }

    fn close(&self) {
        let mut recovery = self.lock();
        *recovery = RecoveryState { next: recovery.next, ..RecoveryState::default() };
        self.outcomes.store(0, Ordering::Relaxed);
        self.failing_since.succeeded();
        self.state.store(CLOSED, Ordering::Release);
    }

    /// Returns a random number from 0 to 1.
    fn random_fraction(&self) -> f64 {
        // The keyed hash of a word that changes with every use.
        let bits = self.random.hash_one(self.open_until.load(Ordering::Relaxed));
        f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, RecoveryState> {
        self.recovery.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
