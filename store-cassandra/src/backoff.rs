//! How long to wait: until a deadline, between attempts, and under contention.
//!
//! These times are the runtime's. Decisions use the caller's time.

use std::time::Duration;

use tokio::time::Instant;

/// The delay after a failure that was reported at once, until a connection is restored or a replica recovers.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(50);
/// A store that seems to be the only writer of a row yields once per this many writes. Other writers may exist: one
/// that has lost every race leaves no trace in the row.
const YIELD_ONE_IN: u32 = 32;
/// For how many other writers a store waits at most after it has written a row.
const MAX_OTHER_WRITERS: u32 = 4;

#[expect(clippy::disallowed_methods, reason = "deadlines are the runtime's")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the instant after `span`, which may be as long as [`Duration::MAX`].
pub(crate) fn deadline(span: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(30 * 365 * 86_400);
    now() + span.min(LONGEST)
}

/// Returns a random delay after a transaction that took `took` was not applied, so that competing writers do not stay
/// in step. Zero after the first one: the cached row was outdated, which does not mean contention.
pub(crate) fn after_lost_race(lost_races: u32, took: Duration) -> Duration {
    let longest = if lost_races > 1 { took } else { Duration::ZERO };
    longest.mul_f64(fastrand::f64())
}

/// Returns how long a store leaves a row to other writers after a transaction that took `took`. The winner knows the
/// row before all others do: without this delay it would always win, and the others would starve.
pub(crate) fn yield_to_writers(took: Duration, others: usize, is_writer: bool) -> Duration {
    let turns = match u32::try_from(others).unwrap_or(MAX_OTHER_WRITERS).min(MAX_OTHER_WRITERS) {
        0 if is_writer && fastrand::u32(..YIELD_ONE_IN) == 0 => 3,
        0 => return Duration::ZERO,
        others => others,
    };
    (took * turns).mul_f64(0.5 + fastrand::f64())
}
