//! One line for many events: the first is told at once, the rest by their number, every so often.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::Time;

/// Later than any instant.
const NEVER: u64 = u64::MAX;

/// A run of events of one sort.
#[derive(Debug)]
pub(super) struct Episode {
    /// When it was last told, in nanoseconds.
    told_at: AtomicU64,
    /// How many came since.
    untold: AtomicU64,
}

impl Default for Episode {
    fn default() -> Self {
        Self { told_at: AtomicU64::new(NEVER), untold: AtomicU64::new(0) }
    }
}

impl Episode {
    /// Another event. If it is time for a line: how many have come since the last one, this one included.
    pub(super) fn add(&self, now: Time, every: Duration) -> Option<u64> {
        self.untold.fetch_add(1, Ordering::Relaxed);
        let told_at = self.told_at.load(Ordering::Relaxed);
        if told_at != NEVER && now.since(Time::from_nanos(told_at)) < every {
            return None;
        }
        // Of several that find that it is time one tells, for all of them.
        self.told_at.compare_exchange(told_at, now.nanos(), Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(self.untold.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    #[test]
    fn the_first_is_told_also_at_the_beginning_of_time() {
        assert_eq!(Episode::default().add(Time::EPOCH, EVERY), Some(1));
    }

    #[test]
    fn the_rest_are_told_by_their_number_when_it_is_time() {
        let (episode, start) = (Episode::default(), Time::from_secs(1_790_000_000));
        let add = |millis| episode.add(start + Duration::from_millis(millis), EVERY);
        assert_eq!(add(0), Some(1));
        assert_eq!((add(0), add(5_000), add(9_999)), (None, None, None));
        assert_eq!(add(10_000), Some(4));
        assert_eq!(add(19_999), None);
        assert_eq!(add(60_000), Some(2));
    }

    #[test]
    fn of_threads_that_come_at_once_one_tells_for_all() {
        const ROUNDS: u32 = 50_000;
        let (episode, arrived) = (Episode::default(), AtomicU32::new(0));
        let (told, lines) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for round in 1..=ROUNDS {
                        arrived.fetch_add(1, Ordering::AcqRel);
                        // They meet while both run; a busy machine lets the other one run first.
                        for spin in 0_u32.. {
                            if arrived.load(Ordering::Acquire) >= 2 * round {
                                break;
                            }
                            if spin > 500 {
                                std::thread::yield_now();
                            }
                        }
                        if let Some(number) = episode.add(Time::EPOCH + EVERY * round, EVERY) {
                            told.fetch_add(number, Ordering::Relaxed);
                            lines.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let untold = episode.untold.load(Ordering::Relaxed);
        assert_eq!((lines.into_inner(), told.into_inner() + untold), (ROUNDS.into(), u64::from(2 * ROUNDS)));
    }
}
