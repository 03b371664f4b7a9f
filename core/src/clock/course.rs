//! A clock that many threads read without locks, and that takes a look at the wall clock about once per second.
//!
//! Its course is a sequence of segments. A segment is published before it starts, and starts where the one before it
//! ends. So every count belongs to one segment, whichever of them a thread has seen, and no reading is earlier than one
//! that happened before it. If nobody reads the clock while the next segment is due, there is a gap: whoever reads it
//! next starts a segment under the lock, and nobody gets an instant from the gap.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError, TryLockError};

use super::discipline::{Discipline, Sample, Segment};

/// How many segments are kept. Two are in use at a time: the current one and the next.
const KEPT: usize = 4;

/// A counter that all threads see alike, and the clock that is to be followed.
pub(super) trait Machine {
    /// Reads the counter.
    fn counter(&self) -> u64;
    /// Reads the counter and the wall clock.
    fn sample(&self) -> Sample;
}

#[derive(Debug)]
pub(super) struct Course<M> {
    machine: M,
    /// The number of the newest segment.
    newest: AtomicUsize,
    /// How many ticks after its start the successor of a segment is due, and how many ticks it has.
    due_after: u64,
    length: u64,
    segments: [PublishedSegment; KEPT],
    discipline: Mutex<Discipline>,
}

/// A segment that may be overwritten while it is read.
#[derive(Debug, Default)]
struct PublishedSegment {
    start: AtomicU64,
    value: AtomicU64,
    rate: AtomicU64,
}

impl PublishedSegment {
    #[inline]
    fn load(&self) -> Segment {
        let field = |field: &AtomicU64| field.load(Ordering::Relaxed);
        Segment { start: field(&self.start), value: field(&self.value), rate: field(&self.rate) }
    }

    fn store(&self, segment: &Segment) {
        self.start.store(segment.start, Ordering::Relaxed);
        self.value.store(segment.value, Ordering::Relaxed);
        self.rate.store(segment.rate, Ordering::Relaxed);
    }
}

impl<M: Machine> Course<M> {
    /// Starts a clock. `nanos` is how long `length` ticks take, about a second.
    pub(super) fn new(machine: M, length: u64, nanos: u64) -> Self {
        let (discipline, first) = Discipline::start(machine.sample(), length, nanos);
        let segments: [PublishedSegment; KEPT] = Default::default();
        for segment in &segments {
            segment.store(&first);
        }
        Self {
            machine,
            newest: AtomicUsize::new(0),
            due_after: length - length / 16,
            length,
            segments,
            discipline: Mutex::new(discipline),
        }
    }

    /// Returns the time in nanoseconds since the Unix epoch.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let newest = self.newest.load(Ordering::Acquire);
        let segment = self.segment(newest);
        let ticks = self.machine.counter().wrapping_sub(segment.start);
        if ticks < self.due_after && self.was_intact(newest) {
            return segment.after(ticks);
        }
        self.now_between_segments()
    }

    /// Returns the time around the end of a segment, and publishes the next one if that is due.
    #[cold]
    fn now_between_segments(&self) -> u64 {
        loop {
            let newest = self.newest.load(Ordering::Acquire);
            let (segment, previous) = (self.segment(newest), self.segment(newest.wrapping_sub(1)));
            let counter = self.machine.counter();
            let intact = self.was_intact(newest);
            let ticks = counter.wrapping_sub(segment.start);
            if ticks < self.length {
                if ticks >= self.due_after {
                    self.renew_if_nobody_else_does(newest);
                }
                if intact {
                    return segment.after(ticks);
                }
            } else {
                // The newest segment has not started yet, or it has ended.
                let ticks = counter.wrapping_sub(previous.start);
                if ticks < self.length && intact {
                    return previous.after(ticks);
                }
                self.renew(newest);
            }
            core::hint::spin_loop();
        }
    }

    fn segment(&self, number: usize) -> Segment {
        self.segments[number % KEPT].load()
    }

    /// Returns whether the segment of this number and the one before it have not been overwritten yet.
    #[inline]
    fn was_intact(&self, newest: usize) -> bool {
        fence(Ordering::Acquire);
        self.newest.load(Ordering::Relaxed).wrapping_sub(newest) < KEPT - 2
    }

    /// Publishes the successor of the newest segment, unless another thread is at it.
    fn renew_if_nobody_else_does(&self, newest: usize) {
        let mut discipline = match self.discipline.try_lock() {
            Ok(discipline) => discipline,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if self.newest.load(Ordering::Relaxed) == newest {
            self.publish(&mut discipline, newest, self.machine.sample());
        }
    }

    /// Publishes the successor of a segment that has ended, or waits for the thread that does.
    fn renew(&self, newest: usize) {
        let mut discipline = self.discipline.lock().unwrap_or_else(PoisonError::into_inner);
        let sample = self.machine.sample();
        let ticks = sample.counter.wrapping_sub(self.segment(newest).start);
        // Another processor's counter may be a little behind the one that the segment starts at: it starts soon.
        let starts_soon = ticks.wrapping_neg() < self.length;
        if self.newest.load(Ordering::Relaxed) == newest && ticks >= self.length && !starts_soon {
            self.publish(&mut discipline, newest, sample);
        }
    }

    fn publish(&self, discipline: &mut Discipline, newest: usize, sample: Sample) {
        let next = discipline.follow(&self.segment(newest), sample);
        let number = newest.wrapping_add(1);
        // A reader that sees a part of the new segment also sees that the one it replaces is gone.
        fence(Ordering::Release);
        self.segments[number % KEPT].store(&next);
        self.newest.store(number, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::vec::Vec;

    use super::*;

    const LENGTH: u64 = 1_000_000_000;
    const EPOCH: u64 = 1_790_000_000 * LENGTH;

    /// A machine on virtual time: its counter has one tick per nanosecond.
    struct Virtual {
        counter: AtomicU64,
        /// How much later it is at each reading.
        step: u64,
        samples: AtomicU64,
        /// Runs before the counter is read, once: what other threads do in the meantime.
        interrupt: Mutex<Option<std::boxed::Box<dyn FnOnce() + Send>>>,
    }

    impl Virtual {
        fn course(step: u64) -> Course<Self> {
            let (counter, samples, interrupt) = (AtomicU64::new(LENGTH), AtomicU64::new(0), Mutex::default());
            Course::new(Self { counter, step, samples, interrupt }, LENGTH, LENGTH)
        }

        /// The wall clock alternates between being ahead and behind, so that the clock always runs faster or slower.
        fn wall(&self, counter: u64) -> u64 {
            match self.samples.fetch_add(1, Ordering::SeqCst) % 4 {
                0 | 1 => EPOCH + counter,
                _ => EPOCH + counter - LENGTH / 10,
            }
        }
    }

    impl Machine for Virtual {
        fn counter(&self) -> u64 {
            let interrupt = self.interrupt.lock().expect("not poisoned").take();
            if let Some(interrupt) = interrupt {
                interrupt();
            }
            self.counter.fetch_add(self.step, Ordering::SeqCst)
        }

        fn sample(&self) -> Sample {
            let counter = self.counter();
            Sample { counter, wall: self.wall(counter) }
        }
    }

    /// A thread that is interrupted between loading a segment and reading the counter sees no time that is earlier than
    /// what others have read meanwhile, however many segments these have seen.
    #[test]
    fn a_late_reader_is_not_earlier_than_others_were() {
        for before in
            [0, LENGTH / 2, LENGTH - LENGTH / 16 - 1_000, LENGTH - LENGTH / 32, LENGTH - 5, LENGTH + 5]
        {
            for meanwhile in [1, LENGTH / 16, LENGTH / 2, LENGTH, 3 * LENGTH, 9 * LENGTH / 2, 40 * LENGTH] {
                let course = Arc::new(Virtual::course(1));
                // Some segments, so that the clock runs slower or faster.
                for _ in 0..5 * 32 + meanwhile % 3 * 32 {
                    course.machine.counter.fetch_add(LENGTH / 32, Ordering::SeqCst);
                    course.now();
                }
                course.machine.counter.fetch_add(before, Ordering::SeqCst);
                let (others, seen) = (Arc::clone(&course), Arc::new(AtomicU64::new(0)));
                let latest = Arc::clone(&seen);
                *course.machine.interrupt.lock().expect("not poisoned") =
                    Some(std::boxed::Box::new(move || {
                        for _ in 0..64 {
                            others.machine.counter.fetch_add(meanwhile / 64, Ordering::SeqCst);
                            latest.fetch_max(others.now(), Ordering::SeqCst);
                        }
                    }));
                let now = course.now();
                let seen = seen.load(Ordering::SeqCst);
                assert!(
                    seen > 0 && now >= seen,
                    "{} ns earlier, {before} {meanwhile}",
                    seen.saturating_sub(now)
                );
            }
        }
    }

    #[test]
    fn it_never_runs_backwards_for_many_threads() {
        const READINGS: u64 = 100_000;
        let (course, latest) = (Virtual::course(LENGTH / 500), AtomicU64::new(0));
        let readings: u64 = std::thread::scope(|scope| {
            let thread = || {
                let mut last = 0;
                for _ in 0..READINGS {
                    let seen = latest.load(Ordering::SeqCst);
                    let now = course.now();
                    assert!(now >= seen.max(last), "{} ns earlier", seen.max(last) - now);
                    latest.fetch_max(now, Ordering::SeqCst);
                    last = now;
                }
                READINGS
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(thread)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
        });
        assert_eq!(readings, 4 * READINGS);
        let samples = course.machine.samples.load(Ordering::SeqCst);
        // Four hundred thousand readings take eight hundred virtual seconds, at least.
        assert!((700..2_000).contains(&samples), "{samples}");
    }

    #[test]
    fn after_an_hour_without_readings_it_is_at_the_wall_clock() {
        let course = Virtual::course(0);
        course.now();
        course.machine.counter.fetch_add(3_600 * LENGTH, Ordering::SeqCst);
        assert_eq!(course.now(), EPOCH + 3_601 * LENGTH);
    }

    #[test]
    fn a_counter_that_is_reset_does_not_stop_the_clock() {
        let course = Virtual::course(1);
        course.machine.counter.store(100 * LENGTH, Ordering::SeqCst);
        let before = course.now();
        course.machine.counter.store(7, Ordering::SeqCst);
        let after = course.now();
        assert!(after >= before);
        course.machine.counter.fetch_add(LENGTH / 2, Ordering::SeqCst);
        assert!(course.now() > after + LENGTH / 3);
    }

    #[test]
    fn the_wall_clock_is_read_once_per_segment() {
        let course = Virtual::course(LENGTH / 100_000);
        for _ in 0..1_000_000 {
            course.now();
        }
        assert!((10..=12).contains(&course.machine.samples.load(Ordering::SeqCst)));
    }
}
