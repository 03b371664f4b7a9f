//! How far the clocks of other clients are ahead of this one, as their transactions show.
//!
//! The state of a bucket that a client half a second ahead has emptied looks to this one as if it were empty for half a
//! second more: it would never get a token of a hot key. So decisions are made at the latest of all clocks. It is known
//! only from below: a row was written before it is seen. What was learnt fades, so that a clock that was corrected, and
//! a client that has left, are not followed for long.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Time;

use crate::backoff;

/// How far the time of a decision is ahead of the caller's clock at most. A clock that is further ahead is wrong, and
/// is not followed.
const MAX_LEAD: i64 = 5_000_000_000;
/// What is known about a clock becomes older by this part of the time that passes: 16 ms per second.
const FADE: i64 = 64;

/// How far other clocks are ahead of the callers' clock.
#[derive(Debug)]
pub(crate) struct ClockLead {
    started: Instant,
    clocks: Mutex<Clocks>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    callers: Option<LatestClock>,
    others: Option<LatestClock>,
}

/// The latest of several clocks, in nanoseconds ahead of the runtime's.
#[derive(Clone, Copy, Debug)]
struct LatestClock {
    ahead: i64,
    /// When it was known to be so, by the runtime's clock.
    known_at: i64,
}

impl LatestClock {
    fn faded(&self, runtime: i64) -> i64 {
        self.ahead.saturating_sub(runtime.saturating_sub(self.known_at).max(0) / FADE)
    }

    /// Returns the later of the known clock and one that shows `now`.
    fn later(known: Option<Self>, now: Time, runtime: i64) -> Self {
        let ahead = nanos(now).saturating_sub(runtime);
        let known = known.map_or(ahead, |known| known.faded(runtime));
        Self { ahead: known.max(ahead), known_at: runtime }
    }
}

impl Default for ClockLead {
    fn default() -> Self {
        Self { started: backoff::now(), clocks: Mutex::default() }
    }
}

impl ClockLead {
    /// Records the time of a caller.
    pub(crate) fn called_at(&self, now: Time) {
        self.lock().called_at(now, self.runtime());
    }

    /// Records the time that another client's transaction shows in a row that was just seen.
    pub(crate) fn seen(&self, written_at: Time) {
        self.lock().seen(written_at, self.runtime());
    }

    /// Returns the time to decide a call at whose caller's clock shows `now`.
    pub(crate) fn decide_at(&self, now: Time) -> Time {
        now + self.lock().lead(self.runtime())
    }

    fn runtime(&self) -> i64 {
        nanos(Time::EPOCH + backoff::now().saturating_duration_since(self.started))
    }

    fn lock(&self) -> MutexGuard<'_, Clocks> {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clocks {
    fn called_at(&mut self, now: Time, runtime: i64) {
        self.callers = Some(LatestClock::later(self.callers, now, runtime));
    }

    fn seen(&mut self, written_at: Time, runtime: i64) {
        let ahead = nanos(written_at).saturating_sub(runtime);
        // Compared with the callers' clock as it is now: this call may have waited since it was made.
        if self.callers.is_some_and(|callers| ahead.saturating_sub(callers.ahead) <= MAX_LEAD) {
            self.others = Some(LatestClock::later(self.others, written_at, runtime));
        }
    }

    fn lead(&self, runtime: i64) -> Duration {
        let both = self.others.zip(self.callers);
        let lead = both.map_or(0, |(others, callers)| others.faded(runtime).saturating_sub(callers.ahead));
        Duration::from_nanos(lead.clamp(0, MAX_LEAD).unsigned_abs())
    }
}

fn nanos(time: Time) -> i64 {
    time.nanos().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_790_000_000);
    const SECOND: i64 = 1_000_000_000;
    const MILLISECOND: i64 = SECOND / 1_000;

    /// A clock that is read at this instant of the runtime.
    fn clock(runtime: i64, ahead: i64) -> Time {
        Time::from_nanos(NOW.nanos().saturating_add_signed(runtime + ahead))
    }

    /// Lets time pass, with a call and a row of another client every ten milliseconds. Returns the lead after that.
    fn run(clocks: &mut Clocks, from: i64, to: i64, other: Option<i64>) -> i64 {
        for runtime in (from..to).step_by(10_000_000) {
            clocks.called_at(clock(runtime, 0), runtime);
            if let Some(ahead) = other {
                // Written some milliseconds ago.
                clocks.seen(clock(runtime - 4 * MILLISECOND, ahead), runtime);
            }
        }
        lead(clocks, to)
    }

    fn lead(clocks: &Clocks, runtime: i64) -> i64 {
        i64::try_from(clocks.lead(runtime).as_nanos()).expect("a short time")
    }

    #[test]
    fn a_clock_that_is_ahead_is_followed_from_below() {
        let lead = run(&mut Clocks::default(), 0, SECOND, Some(500 * MILLISECOND));
        assert!((490 * MILLISECOND..=496 * MILLISECOND).contains(&lead), "{lead}");
    }

    #[test]
    fn clocks_that_agree_or_are_behind_are_not_followed() {
        for ahead in [0, -500 * MILLISECOND] {
            assert_eq!(run(&mut Clocks::default(), 0, SECOND, Some(ahead)), 0);
        }
    }

    /// Calls wait for each other, and a row may have been written since a call was made.
    #[test]
    fn a_call_that_has_waited_is_not_behind() {
        let mut clocks = Clocks::default();
        run(&mut clocks, 0, SECOND, Some(0));
        let (late, later) = (SECOND + 300 * MILLISECOND, SECOND + 500 * MILLISECOND);
        // This one waited before it was sent, and then for its response.
        clocks.called_at(clock(SECOND, 0), late);
        clocks.seen(clock(later, 0), later);
        // A part of the time without calls is all that has faded.
        assert!(lead(&clocks, later) <= 5 * MILLISECOND, "{clocks:?}");
        clocks.called_at(clock(later, 0), later);
        assert_eq!(lead(&clocks, later), 0, "{clocks:?}");
    }

    #[test]
    fn a_client_that_has_left_is_forgotten() {
        let mut clocks = Clocks::default();
        run(&mut clocks, 0, SECOND, Some(500 * MILLISECOND));
        let lead = run(&mut clocks, SECOND, 11 * SECOND, None);
        assert!((320 * MILLISECOND..360 * MILLISECOND).contains(&lead), "{lead}");
        assert_eq!(run(&mut clocks, 11 * SECOND, 40 * SECOND, None), 0);
    }

    #[test]
    fn a_clock_that_is_far_ahead_is_not_followed() {
        for ahead in [6 * SECOND, 3_600 * SECOND, i64::MAX / 4] {
            let mut clocks = Clocks::default();
            assert_eq!(run(&mut clocks, 0, SECOND, Some(ahead)), 0, "{ahead}");
            // And does not hide one that is a little ahead.
            clocks.called_at(clock(SECOND, 0), SECOND);
            clocks.seen(clock(SECOND, 300 * MILLISECOND), SECOND);
            assert_eq!(lead(&clocks, SECOND), 300 * MILLISECOND);
        }
        // A clock that was good until it was set forward.
        let mut clocks = Clocks::default();
        run(&mut clocks, 0, SECOND, Some(SECOND));
        assert!(run(&mut clocks, SECOND, 2 * SECOND, Some(100 * SECOND)) <= SECOND);
    }
}
