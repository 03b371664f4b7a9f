//! The offset between the local clock and the clock of the central store.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tollgate_core::Time;
use tollgate_core::store::ClockSource;

/// How far the deciding clock is ahead of the local one.
///
/// If callers pass the time, it is theirs, unless the store knows of callers that are ahead and decides at their time.
#[derive(Debug)]
pub(crate) struct ClockOffset {
    /// The central store decides by its own clock.
    own_clock: bool,
    nanos: AtomicI64,
    /// When the offset became known, by the local clock; 0 if it is not.
    known_since: AtomicU64,
}

impl ClockOffset {
    pub(crate) fn new(source: ClockSource) -> Self {
        Self {
            own_clock: source == ClockSource::Store,
            nanos: AtomicI64::new(0),
            known_since: AtomicU64::new(0),
        }
    }

    /// Converts a local time to the deciding clock.
    #[inline]
    pub(crate) fn to_central(&self, time: Time) -> Time {
        match self.nanos.load(Ordering::Relaxed) {
            0 => time,
            offset => Time::from_nanos(time.nanos().saturating_add_signed(offset)),
        }
    }

    /// Converts a local time to the one that is passed to the central store. A store that gets its callers' time adds
    /// to it what it knows about other callers itself.
    pub(crate) fn to_store(&self, time: Time) -> Time {
        if self.own_clock { self.to_central(time) } else { time }
    }

    /// Learns from an answer with the central time `at`, to a call that was sent at `sent_at` and answered at `now`.
    pub(crate) fn update(&self, at: Time, sent_at: Time, now: Time) {
        // The central clock was read between both instants. The known offset stays as it is if that allows it.
        let ahead_of = |local: Time| at.nanos().cast_signed().saturating_sub(local.nanos().cast_signed());
        let (least, most) = (ahead_of(now), ahead_of(sent_at).max(ahead_of(now)));
        let known = self.nanos.load(Ordering::Relaxed).clamp(least, most);
        let offset = match (self.own_clock, self.known_since.load(Ordering::Relaxed)) {
            // A store moves its callers' time forward only.
            (false, _) => known.max(0),
            (true, 0) => least / 2 + most / 2,
            (true, _) => known,
        };
        self.nanos.store(offset, Ordering::Relaxed);
        let since = now.nanos().max(1);
        let _ = self.known_since.compare_exchange(0, since, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns whether pending deltas of an interval of this many nanoseconds are dated by the deciding clock. Those
    /// that were recorded before its offset was known are sent within two intervals after that.
    pub(crate) fn dates_deltas(&self, interval: u64, now: Time) -> bool {
        let since = self.known_since.load(Ordering::Relaxed);
        let known_for = now.nanos().saturating_sub(since);
        !self.own_clock || (since > 0 && known_for > interval.saturating_mul(2))
    }
}
