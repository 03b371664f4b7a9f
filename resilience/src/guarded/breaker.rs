//! When a store is asked and when it is left alone: closed, open, half-open.
//!
//! Closed, the outcomes of the last calls are remembered as bits; if enough of them are failures, it opens. Open, the
//! store is left alone for a pause, a random part of which is left out so that the processes of a fleet do not come
//! back together. After it one call at a time goes through to see whether the store is back (half-open); enough in
//! a row that succeed close it, one that fails opens it again for twice the pause.
//!
//! Time is the callers', so that tests move it by hand. While all is well a call reads one word and writes none.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_core::{BreakerState, Time};

/// When it opens, for how long, and what closes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// So many failures…
    pub(crate) failures: u32,
    /// …among the last so many calls open it; at most 64.
    pub(crate) among: u32,
    /// How long it is open the first time.
    pub(crate) pause: Duration,
    /// What repeated pauses grow to.
    pub(crate) longest_pause: Duration,
    /// So many calls in a row must succeed to close it.
    pub(crate) probes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            failures: 5,
            among: 10,
            pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(8),
            probes: 2,
        }
    }
}

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
const HALF_OPEN: u8 = 2;

#[derive(Debug)]
pub(crate) struct Breaker {
    settings: Settings,
    state: AtomicU8,
    /// The outcomes of the last 64 calls while closed, the newest in the lowest bit; failures are ones.
    outcomes: AtomicU64,
    /// Until when the store is left alone while open.
    until: AtomicU64,
    /// In nanoseconds: it is looked at while others wait for an answer.
    longest_pause: u64,
    recovery: Mutex<Recovery>,
    random: RandomState,
}

/// How far the way back has come.
#[derive(Debug, Default)]
struct Recovery {
    /// Pauses since it was last closed.
    pauses: u32,
    /// Probes that succeeded in a row.
    passed: u32,
    /// Who finds out at the moment, and since when.
    probing: Option<(u64, Time)>,
    /// The number of the next who does.
    next: u64,
}

impl Recovery {
    /// Somebody begins to find out.
    fn probe(&mut self, breaker: &Arc<Breaker>, now: Time) -> Leave {
        let number = self.next;
        (self.next, self.probing) = (number + 1, Some((number, now)));
        Leave::Probe(Probe { breaker: Some(Arc::clone(breaker)), number })
    }
}

/// Whether a call may go to the store.
#[derive(Debug)]
pub(crate) enum Leave {
    /// As usual.
    Ask,
    /// To find out whether it is back.
    Probe(Probe),
    /// Not now; perhaps after this long.
    No(Duration),
}

impl Breaker {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: AtomicU8::new(CLOSED),
            outcomes: AtomicU64::new(0),
            until: AtomicU64::new(0),
            longest_pause: u64::try_from(settings.longest_pause.as_nanos()).unwrap_or(u64::MAX),
            recovery: Mutex::default(),
            random: RandomState::new(),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state.load(Ordering::Acquire) {
            CLOSED => BreakerState::Closed,
            OPEN => BreakerState::Open,
            _ => BreakerState::HalfOpen,
        }
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Whether a call may go to the store now, and whether that changed what the breaker does.
    pub(crate) fn leave(self: &Arc<Self>, now: Time) -> (Leave, Option<BreakerState>) {
        if self.is_closed() {
            return (Leave::Ask, None);
        }
        let until = self.until.load(Ordering::Acquire);
        let left = until.saturating_sub(now.nanos());
        // A pause that is longer than there are any is of a clock that has been set back.
        let paused = left > 0 && left <= self.longest_pause;
        if self.state.load(Ordering::Acquire) == OPEN && paused {
            return (Leave::No(Duration::from_nanos(left)), None);
        }
        let mut recovery = self.lock();
        // Somebody else may have been faster.
        match self.state.load(Ordering::Acquire) {
            CLOSED => (Leave::Ask, None),
            _ if recovery.probing.is_some_and(|(_, since)| !self.is_long_ago(since, now)) => {
                (Leave::No(self.settings.pause), None)
            }
            OPEN => {
                if until != self.until.load(Ordering::Acquire) {
                    return (Leave::No(self.settings.pause), None);
                }
                recovery.passed = 0;
                self.state.store(HALF_OPEN, Ordering::Release);
                (recovery.probe(self, now), Some(BreakerState::HalfOpen))
            }
            _ => (recovery.probe(self, now), None),
        }
    }

    /// Whether somebody has had so much time to find out that nothing will come of it: a task on a runtime that nobody
    /// drives any more.
    fn is_long_ago(&self, since: Time, now: Time) -> bool {
        now.since(since).max(since.since(now)) > self.settings.longest_pause
    }

    /// A call that was asked as usual succeeded.
    #[inline]
    pub(crate) fn succeeded(&self) {
        if self.outcomes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let _ =
            self.outcomes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |outcomes| Some(outcomes << 1));
    }

    /// A call that was asked as usual failed.
    pub(crate) fn failed(&self, now: Time) -> Option<BreakerState> {
        // Both under the lock, which nobody needs while all is well.
        let mut recovery = self.lock();
        if !self.is_closed() {
            // It was on its way when others found out.
            return None;
        }
        let outcomes = self.outcomes.load(Ordering::Relaxed) << 1 | 1;
        self.outcomes.store(outcomes, Ordering::Relaxed);
        let among = u64::MAX >> (64 - self.settings.among.clamp(1, 64));
        if (outcomes & among).count_ones() < self.settings.failures.clamp(1, self.settings.among.clamp(1, 64))
        {
            return None;
        }
        Some(self.open(&mut recovery, now))
    }

    fn open(&self, recovery: &mut Recovery, now: Time) -> BreakerState {
        let pause = self.settings.pause.saturating_mul(1 << recovery.pauses.min(16));
        let pause = pause.min(self.settings.longest_pause);
        (recovery.pauses, recovery.passed, recovery.probing) = (recovery.pauses.saturating_add(1), 0, None);
        let until = now + pause - pause.mul_f64(self.part() / 2.0);
        self.until.store(until.nanos(), Ordering::Release);
        self.state.store(OPEN, Ordering::Release);
        BreakerState::Open
    }

    fn close(&self) {
        let mut recovery = self.lock();
        *recovery = Recovery { next: recovery.next, ..Recovery::default() };
        self.outcomes.store(0, Ordering::Relaxed);
        self.state.store(CLOSED, Ordering::Release);
    }

    /// A random number from 0 to 1.
    fn part(&self) -> f64 {
        // The keyed hash of a word that changes whenever this is asked.
        let bits = self.random.hash_one(self.until.load(Ordering::Relaxed));
        f64::from(u32::try_from(bits >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Recovery> {
        self.recovery.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one call at a time that finds out whether the store is back. Dropped without an outcome, it leaves that to the
/// next one.
#[derive(Debug)]
pub(crate) struct Probe {
    /// `None` once the outcome is known.
    breaker: Option<Arc<Breaker>>,
    number: u64,
}

impl Probe {
    /// The store answered. If it has done so often enough, it is back.
    pub(crate) fn succeeded(mut self) -> Option<Back> {
        let breaker = self.breaker.as_ref()?;
        let passed = {
            let mut recovery = breaker.lock();
            recovery.passed += 1;
            recovery.passed
        };
        let back = passed >= breaker.settings.probes;
        back.then(|| Back(Self { breaker: self.breaker.take(), number: self.number }))
    }

    /// It failed again.
    pub(crate) fn failed(mut self, now: Time) -> Option<BreakerState> {
        let breaker = self.breaker.take()?;
        let mut recovery = breaker.lock();
        // Another may have been let through because this one took so long.
        let is_last = recovery.probing.is_some_and(|(number, _)| number == self.number);
        is_last.then(|| breaker.open(&mut recovery, now))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if let Some(breaker) = &self.breaker {
            let mut recovery = breaker.lock();
            recovery.probing.take_if(|(number, _)| *number == self.number);
        }
    }
}

/// The store is back: what it missed can be told to it before everybody asks it again.
#[derive(Debug)]
pub(crate) struct Back(Probe);

impl Back {
    /// Everybody asks it again.
    pub(crate) fn close(mut self) -> Option<BreakerState> {
        let breaker = self.0.breaker.take()?;
        if breaker.is_closed() {
            return None;
        }
        breaker.close();
        Some(BreakerState::Closed)
    }

    /// It is away again.
    pub(crate) fn failed(self, now: Time) -> Option<BreakerState> {
        self.0.failed(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_790_000_000);
    const SETTINGS: Settings = Settings {
        failures: 3,
        among: 5,
        pause: Duration::from_secs(1),
        longest_pause: Duration::from_secs(4),
        probes: 2,
    };

    fn breaker() -> Arc<Breaker> {
        Arc::new(Breaker::new(SETTINGS))
    }

    fn opened() -> Arc<Breaker> {
        let breaker = breaker();
        for _ in 0..3 {
            breaker.failed(NOW);
        }
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker
    }

    fn probe(breaker: &Arc<Breaker>, now: Time) -> Option<Probe> {
        match breaker.leave(now).0 {
            Leave::Probe(probe) => Some(probe),
            Leave::Ask | Leave::No(_) => None,
        }
    }

    fn asked(breaker: &Arc<Breaker>, now: Time) -> bool {
        matches!(breaker.leave(now).0, Leave::Ask)
    }

    #[test]
    fn enough_failures_among_the_last_calls_open_it() {
        let breaker = breaker();
        for fails in [true, true, false, false, false, true, true, false] {
            assert!(asked(&breaker, NOW));
            if fails {
                assert_eq!(breaker.failed(NOW), None);
            } else {
                breaker.succeeded();
            }
        }
        assert_eq!(breaker.failed(NOW), Some(BreakerState::Open), "three of the last five");
        assert!(!asked(&breaker, NOW));
        assert_eq!(breaker.failed(NOW), None, "what was on its way changes nothing");
    }

    #[test]
    fn it_stays_open_for_half_to_all_of_the_pause() {
        let mut pauses = Vec::new();
        for _ in 0..200 {
            let breaker = opened();
            assert!(probe(&breaker, NOW + Duration::from_millis(499)).is_none());
            let (leave, _) = breaker.leave(NOW);
            let Leave::No(left) = leave else { panic!("{leave:?}") };
            pauses.push(left);
            assert!(probe(&breaker, NOW + Duration::from_secs(1)).is_some());
        }
        pauses.sort_unstable();
        assert!(
            pauses[0] < Duration::from_millis(600) && pauses[199] > Duration::from_millis(900),
            "jittered"
        );
    }

    #[test]
    fn one_probe_at_a_time_and_enough_of_them_close_it() {
        let breaker = opened();
        let later = NOW + Duration::from_secs(1);
        let first = probe(&breaker, later).expect("a probe");
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(probe(&breaker, later).is_none() && !asked(&breaker, later), "one is enough");
        assert!(first.succeeded().is_none(), "two have to");
        let second = probe(&breaker, later).expect("the next");
        let back = second.succeeded().expect("that is enough");
        assert!(!asked(&breaker, later), "not before it has been told what it missed");
        assert_eq!(back.close(), Some(BreakerState::Closed));
        assert!(asked(&breaker, later));
        assert_eq!(breaker.failed(later), None, "old failures are forgotten");
    }

    #[test]
    fn a_failed_probe_doubles_the_pause_up_to_the_longest() {
        let breaker = opened();
        let mut now = NOW;
        for longest in [1, 2, 4, 4, 4].map(Duration::from_secs) {
            assert!(probe(&breaker, now + longest / 2 - Duration::from_millis(1)).is_none(), "{longest:?}");
            now = now + longest;
            let probe = probe(&breaker, now).expect("the pause is over");
            assert_eq!(probe.failed(now), Some(BreakerState::Open));
        }
    }

    #[test]
    fn a_probe_that_goes_away_leaves_it_to_the_next() {
        let breaker = opened();
        let later = NOW + Duration::from_secs(1);
        drop(probe(&breaker, later).expect("a probe"));
        assert!(probe(&breaker, later).is_some());
    }

    #[test]
    fn a_probe_that_nothing_comes_of_is_followed_by_another() {
        let breaker = opened();
        let later = NOW + Duration::from_secs(1);
        let lost = probe(&breaker, later).expect("a probe");
        assert!(probe(&breaker, later + Duration::from_secs(4)).is_none());
        let last = later + Duration::from_secs(5);
        let next = probe(&breaker, last).expect("another");
        assert_eq!(lost.failed(last), None, "what became of the first no longer counts");
        assert!(next.succeeded().is_none());
        let back = probe(&breaker, last).and_then(Probe::succeeded).expect("enough");
        assert_eq!((back.close(), breaker.state()), (Some(BreakerState::Closed), BreakerState::Closed));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_keep_it_open() {
        let breaker = opened();
        assert!(probe(&breaker, NOW - Duration::from_secs(3600)).is_some());
    }
}
