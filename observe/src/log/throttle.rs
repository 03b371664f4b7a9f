//! One line for many events: the first event is logged at once, later ones as a count, at most once per interval.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::Time;

/// Later than any instant.
const NEVER: u64 = u64::MAX;

/// Limits the lines about one sort of event.
#[derive(Debug)]
pub(super) struct Throttle {
    /// When the last line was written, in nanoseconds.
    last_line: AtomicU64,
    /// Events since the last line.
    pending: AtomicU64,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { last_line: AtomicU64::new(NEVER), pending: AtomicU64::new(0) }
    }
}

impl Throttle {
    /// Counts an event. If a line is due, returns the number of events since the last line, this one included.
    pub(super) fn add(&self, now: Time, interval: Duration) -> Option<u64> {
        self.pending.fetch_add(1, Ordering::Relaxed);
        let last_line = self.last_line.load(Ordering::Relaxed);
        if last_line != NEVER && now.since(Time::from_nanos(last_line)) < interval {
            return None;
        }
        // If several threads find that a line is due, one of them writes it, for all.
        self.last_line.compare_exchange(last_line, now.nanos(), Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(self.pending.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    #[test]
    fn the_first_event_is_logged_even_at_the_epoch() {
        assert_eq!(Throttle::default().add(Time::EPOCH, INTERVAL), Some(1));
    }

    #[test]
    fn later_events_are_counted_in_the_next_line() {
        let (throttle, start) = (Throttle::default(), Time::from_secs(1_790_000_000));
        let add = |millis| throttle.add(start + Duration::from_millis(millis), INTERVAL);
        assert_eq!(add(0), Some(1));
        assert_eq!((add(0), add(5_000), add(9_999)), (None, None, None));
        assert_eq!(add(10_000), Some(4));
        assert_eq!(add(19_999), None);
        assert_eq!(add(60_000), Some(2));
    }

    #[test]
    fn of_concurrent_threads_one_writes_the_line_for_all() {
        const ROUNDS: u32 = 50_000;
        let (throttle, arrived) = (Throttle::default(), AtomicU32::new(0));
        let (logged, lines) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        arrived.fetch_add(1, Ordering::AcqRel);
                        // They meet while both run; on a busy machine, the other one has to run first.
                        for spin in 0_u32.. {
                            if arrived.load(Ordering::Acquire) >= 2 * round {
                                break;
                            }
                            if spin > 500 {
                                std::thread::yield_now();
                            }
                        }
                        if let Some(count) = throttle.add(Time::EPOCH + INTERVAL * round, INTERVAL) {
                            logged.fetch_add(count, Ordering::Relaxed);
                            lines.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let pending = throttle.pending.load(Ordering::Relaxed);
        let counted = logged.into_inner() + pending;
        assert_eq!((lines.into_inner(), counted), (ROUNDS.into(), u64::from(2 * ROUNDS)));
    }
}
