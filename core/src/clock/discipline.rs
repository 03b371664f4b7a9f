//! How the clock follows the wall clock: which course it takes from one look at the wall clock to the next.
//!
//! Pure: it gets samples of the processor's counter and the wall clock, and returns straight lines from counts to
//! instants. `course` publishes the lines, and `system` takes the samples.

/// By how much the clock runs faster or slower than the wall clock at most, to correct a small difference: 1 %.
const SLEW: u64 = 100;
/// The same for a clock that is ahead by more than [`STEP`]: 10 %.
const FAST_SLEW: u64 = 10;
/// A clock that is behind by more than this, in nanoseconds, is set to the wall clock at once.
const STEP: i64 = 1_000_000_000;
/// By how much one sample changes the estimated rate at most: 500 ppm. More than that within a segment is a step of the
/// wall clock, not the counter's error.
const LEARN: u64 = 2_000;
/// How far the estimated rate is from the first calibration at most: 1 %.
const TRUST: u64 = 100;
/// Rates are nanoseconds per tick, times 2 to the power of this.
const SHIFT: u32 = 32;

/// The processor's counter and the wall clock, read at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) counter: u64,
    /// Nanoseconds since the Unix epoch.
    pub(super) wall: u64,
}

/// A straight line from counts to instants. It holds from `start` on, for as many ticks as every segment has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) start: u64,
    /// Nanoseconds since the Unix epoch at `start`.
    pub(super) value: u64,
    pub(super) rate: u64,
}

impl Segment {
    /// Returns the instant this many ticks after the start, in nanoseconds since the Unix epoch.
    #[inline]
    pub(super) fn after(&self, ticks: u64) -> u64 {
        // A segment has about a second, so that the product has at most 62 bits.
        self.value.wrapping_add(ticks.wrapping_mul(self.rate) >> SHIFT)
    }
}

/// What is known about the counter, and how it is corrected.
#[derive(Clone, Debug)]
pub(super) struct Discipline {
    /// How many ticks a segment has.
    length: u64,
    /// The rate of the wall clock, as it was measured last, and according to the first calibration.
    rate: u64,
    calibrated: u64,
    last: Sample,
}

impl Discipline {
    /// Starts at a sample. `nanos` is how long a segment of `length` ticks takes, according to a first calibration.
    pub(super) fn start(sample: Sample, length: u64, nanos: u64) -> (Self, Segment) {
        let rate = narrow((u128::from(nanos) << SHIFT) / u128::from(length.max(1))).max(1);
        let segment = Segment { start: sample.counter, value: sample.wall, rate };
        (Self { length, rate, calibrated: rate, last: sample }, segment)
    }

    /// Returns the segment that follows `current`. It starts where `current` ends, or at the sample if that is later:
    /// nobody has read the clock in between.
    pub(super) fn follow(&mut self, current: &Segment, sample: Sample) -> Segment {
        let end = current.after(self.length);
        let (since_start, since_last) = (sample.counter.wrapping_sub(current.start), self.since_last(sample));
        let last = core::mem::replace(&mut self.last, sample);
        let Some(ticks) = since_last else {
            // The counter was reset. What was read before is the least that the clock may show.
            return Segment { start: sample.counter, value: end.max(sample.wall), rate: self.rate };
        };
        self.learn(sample.wall.wrapping_sub(last.wall).cast_signed(), ticks);
        // By how much the sample was taken before the end, or after it.
        let (before, gap) =
            (self.length.saturating_sub(since_start), since_start.saturating_sub(self.length));
        let wall = sample.wall.saturating_add(self.nanos(before));
        let unread = self.nanos(gap);
        let mut value = end.saturating_add(unread);
        let corrected = (unread / SLEW).cast_signed();
        value = value.saturating_add_signed(difference(wall, value).clamp(-corrected, corrected));
        if difference(wall, value) > STEP {
            value = wall;
        } else if gap > 0 && difference(value, wall) > STEP {
            // Nobody has read an instant from the gap: the clock may be late there, but not earlier than it was.
            value = wall.max(end);
        }
        let rate = self.rate.saturating_add_signed(self.correction(difference(wall, value)));
        Segment { start: sample.counter.wrapping_add(before), value, rate }
    }

    /// Returns the ticks since the last sample, or `None` if the counter has run backwards.
    fn since_last(&self, sample: Sample) -> Option<u64> {
        let ticks = sample.counter.wrapping_sub(self.last.counter);
        (0..=i64::MAX).contains(&ticks.cast_signed()).then_some(ticks)
    }

    /// Adjusts the rate to what passed on the wall clock within these ticks.
    fn learn(&mut self, nanos: i64, ticks: u64) {
        let most = (self.rate / LEARN).cast_signed();
        // Too short an interval says nothing about the rate.
        if ticks > self.length / 4 {
            let measured = (i128::from(nanos) << SHIFT) / i128::from(ticks);
            let change = (measured - i128::from(self.rate)).clamp(i128::from(-most), i128::from(most));
            let rate = self.rate.saturating_add_signed(i64::try_from(change).unwrap_or(0));
            let off = self.calibrated / TRUST;
            self.rate = rate.clamp(self.calibrated - off, self.calibrated.saturating_add(off));
        }
    }

    /// Returns by how much the rate changes to make up for a difference within one segment, if it is that small.
    fn correction(&self, difference: i64) -> i64 {
        let most = (self.rate / if difference < -STEP { FAST_SLEW } else { SLEW }).cast_signed();
        let needed = (i128::from(difference) << SHIFT) / i128::from(self.length.max(1));
        i64::try_from(needed.clamp(i128::from(-most), i128::from(most))).unwrap_or(0)
    }

    /// Returns how long these ticks take.
    fn nanos(&self, ticks: u64) -> u64 {
        narrow((u128::from(ticks) * u128::from(self.rate)) >> SHIFT)
    }
}

fn difference(one: u64, other: u64) -> i64 {
    one.cast_signed().saturating_sub(other.cast_signed())
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of three ticks per nanosecond, and the wall clock that it is compared with.
    const TICKS: u64 = 3_000_000_000;
    const SECOND: u64 = 1_000_000_000;
    const MILLISECOND: u64 = SECOND / 1_000;
    const HOUR: u64 = 3_600 * SECOND;
    const EPOCH: u64 = 1_790_000_000 * SECOND;

    /// A clock that is read all the time, on virtual samples.
    struct Simulation {
        discipline: Discipline,
        segment: Segment,
        /// By how many parts per million the counter is slower than its calibration says.
        ppm: u64,
        /// By how much the wall clock was changed.
        changed: i64,
        samples: u64,
    }

    impl Simulation {
        fn new(ppm: u64) -> Self {
            let (discipline, segment) = Discipline::start(Sample { counter: 0, wall: EPOCH }, TICKS, SECOND);
            Self { discipline, segment, ppm, changed: 0, samples: 0 }
        }

        fn wall(&self, counter: u64) -> u64 {
            let nanos = u128::from(counter) * u128::from(1_000_000 + self.ppm) / 3_000_000;
            (EPOCH + narrow(nanos)).wrapping_add_signed(self.changed)
        }

        /// Takes a sample `ticks` after the start of the segment, up to half a microsecond off.
        fn follow_after(&mut self, ticks: u64) -> Segment {
            self.samples += 1;
            let counter = self.segment.start + ticks;
            let wall = self.wall(counter) + self.samples * 7_919 % 1_001 - 500;
            let next = self.discipline.follow(&self.segment, Sample { counter, wall });
            assert!(next.value >= self.segment.after(TICKS), "it runs backwards: {next:?}");
            core::mem::replace(&mut self.segment, next)
        }

        /// Moves on to the next segment. Returns how much the clock jumps.
        fn follow(&mut self) -> u64 {
            let before = self.follow_after(TICKS / 16 * 15);
            assert_eq!(self.segment.start, before.start + TICKS);
            self.segment.value - before.after(TICKS)
        }

        /// Returns how far the clock is ahead of the wall clock at the end of the current segment.
        fn ahead(&self) -> i64 {
            difference(self.segment.after(TICKS), self.wall(self.segment.start + TICKS))
        }

        /// Returns how long the current segment takes, per second of the wall clock, in millionths.
        fn speed(&self) -> u64 {
            let takes = self.segment.after(TICKS) - self.segment.value;
            takes / (1_000 + self.ppm / 1_000)
        }
    }

    /// As when a virtual machine is moved to another host, whose counter is ahead.
    #[test]
    fn a_counter_that_jumps_ahead_while_nobody_reads_does_not_move_the_clock() {
        let mut clock = Simulation::new(0);
        let before = clock.segment.after(TICKS);
        let sample = Sample { counter: 7_200 * TICKS, wall: EPOCH + 5 * SECOND };
        let next = clock.discipline.follow(&clock.segment, sample);
        assert_eq!((next.start, next.value), (sample.counter, sample.wall));
        assert!(next.value >= before);
    }

    #[test]
    fn after_a_day_it_is_at_the_wall_clock() {
        let mut clock = Simulation::new(500);
        for second in 0..86_400 {
            assert_eq!(clock.follow(), 0, "it jumps");
            let bound = if second < 10 { MILLISECOND } else { MILLISECOND / 100 };
            assert!(clock.ahead().unsigned_abs() <= bound, "{} ns after {second} s", clock.ahead());
        }
    }

    #[test]
    fn a_small_change_of_the_wall_clock_is_approached_slowly() {
        for change in [100, -100, 999, -999] {
            let mut clock = Simulation::new(17);
            (0..10).for_each(|_| assert_eq!(clock.follow(), 0));
            clock.changed = change * MILLISECOND.cast_signed();
            let mut seconds = 0;
            while clock.ahead().unsigned_abs() > MILLISECOND {
                assert_eq!(clock.follow(), 0, "it jumps");
                assert!((989_000..=1_011_000).contains(&clock.speed()), "{}", clock.speed());
                seconds += 1;
            }
            let least = change.unsigned_abs() / 10;
            assert!((least..=least + 8).contains(&seconds), "{change} ms took {seconds} s");
        }
    }

    #[test]
    fn a_large_change_forward_is_followed_at_once() {
        let mut clock = Simulation::new(17);
        (0..10).for_each(|_| assert_eq!(clock.follow(), 0));
        clock.changed = 3 * HOUR.cast_signed();
        assert!(clock.follow() > 2 * HOUR);
        for _ in 0..10 {
            assert!(clock.ahead().unsigned_abs() <= MILLISECOND, "{} ns", clock.ahead());
            assert_eq!(clock.follow(), 0);
        }
    }

    #[test]
    fn a_large_change_back_is_approached_without_running_backwards() {
        let mut clock = Simulation::new(17);
        (0..10).for_each(|_| assert_eq!(clock.follow(), 0));
        clock.changed = -HOUR.cast_signed();
        let mut seconds = 0;
        while clock.ahead() > SECOND.cast_signed() {
            assert_eq!(clock.follow(), 0);
            assert!((890_000..=950_000).contains(&clock.speed()), "{}", clock.speed());
            seconds += 1;
        }
        assert!((35_000..37_000).contains(&seconds), "{seconds}");
    }

    #[test]
    fn the_first_reading_after_an_hour_is_right() {
        for ppm in [0, 17, 500] {
            let mut clock = Simulation::new(ppm);
            clock.follow_after(3_600 * TICKS);
            let off = difference(clock.segment.value, clock.wall(clock.segment.start));
            assert!(off.unsigned_abs() <= MILLISECOND / 1_000, "{off} ns");
        }
    }

    /// Who reads it five times per second sees it run as slowly as everybody else.
    #[test]
    fn a_small_change_between_rare_readings_is_approached_slowly() {
        let mut clock = Simulation::new(17);
        (0..10).for_each(|_| assert_eq!(clock.follow(), 0));
        clock.changed = 100 * MILLISECOND.cast_signed();
        for _ in 0..5 {
            let before = clock.follow_after(TICKS / 10 * 12);
            let jump = clock.segment.value - before.after(TICKS) - SECOND / 5;
            assert!(jump < 3 * MILLISECOND, "{jump} ns");
        }
    }

    #[test]
    fn a_counter_that_is_reset_does_not_turn_the_clock_back() {
        let mut clock = Simulation::new(0);
        (0..10).for_each(|_| assert_eq!(clock.follow(), 0));
        let shown = clock.segment.after(TICKS);
        for wall in [shown - HOUR, shown + HOUR] {
            let sample = Sample { counter: 5, wall };
            let next = clock.discipline.clone().follow(&clock.segment, sample);
            assert_eq!((next.start, next.value), (5, wall.max(shown)));
        }
    }

    #[test]
    fn a_wall_clock_that_stands_still_is_not_followed() {
        let mut clock = Simulation::new(0);
        for _ in 0..100_000 {
            let sample = Sample { counter: clock.segment.start + TICKS / 16 * 15, wall: EPOCH };
            clock.segment = clock.discipline.follow(&clock.segment, sample);
        }
        assert!((870_000..900_000).contains(&clock.speed()), "{}", clock.speed());
    }
}
