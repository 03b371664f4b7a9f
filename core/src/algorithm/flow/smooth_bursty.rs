//! Smooth bursty limiter: stores unused permits up to a burst. Any cost passes once the debt of the preceding charge is
//! repaid, and the next caller waits for it.
//!
//! The stored permits and the next free ticket follow from one instant: when the store of permits is full again. The
//! ticket is free while that instant lies no further ahead than the burst takes to refill. When the rate changes, the
//! debt remains and the stored permits scale with the rate, because both are kept as time.

use super::{Admission, Flow};
use crate::algorithm::AlgorithmKind;
use crate::rate::Rate;

impl Flow {
    pub(crate) fn smooth_bursty(rate: Rate, burst: u32) -> Self {
        Self::new(AlgorithmKind::SmoothBursty, rate, burst, Admission::Repaid)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, millis};

    /// Reserves and waits for the start, as a blocking acquire does. Returns the wait.
    fn acquire(smooth: &mut Example, permits: u32) -> Duration {
        let wait = smooth.reserve(permits, Duration::from_secs(3600)).start_after();
        smooth.advance(wait);
        wait
    }

    /// Creates a limiter of five per second whose stored permits are used up.
    fn exhausted() -> Example {
        let mut smooth = Example::new(Limit::per_second(5).burst(5).smooth());
        assert_eq!(smooth.take(5).start_after(), Duration::ZERO);
        smooth
    }

    #[test]
    fn successive_callers_start_an_interval_apart() {
        let mut smooth = exhausted();
        let waits: Vec<_> = (0..3).map(|_| acquire(&mut smooth, 1)).collect();
        assert_eq!(waits, [Duration::ZERO, millis(200), millis(200)]);
    }

    #[test]
    fn the_next_caller_waits_for_the_debt() {
        let mut smooth = exhausted();
        assert_eq!(acquire(&mut smooth, 10), Duration::ZERO, "any cost passes once the ticket is free");
        assert_eq!(acquire(&mut smooth, 1), millis(2000));
        assert_eq!(acquire(&mut smooth, 1), millis(200));
    }

    #[test]
    fn idle_time_is_stored_up_to_the_burst() {
        let mut smooth = exhausted();
        acquire(&mut smooth, 1);
        smooth.advance(Duration::from_secs(30));
        let waits: Vec<_> = (0..8).map(|_| acquire(&mut smooth, 1)).collect();
        let free = waits.iter().filter(|wait| wait.is_zero()).count();
        assert_eq!(free, 6, "five stored permits, and one that the next caller waits for: {waits:?}");
        assert_eq!(waits[6..], [millis(200), millis(200)]);
    }

    #[test]
    fn a_check_passes_only_when_the_ticket_is_free() {
        let mut smooth = exhausted();
        assert!(smooth.take(3).is_allowed());
        let early = smooth.take(1);
        assert_eq!((early.is_denied(), early.retry_after()), (true, Some(millis(600))));
        smooth.advance(millis(600));
        assert!(smooth.take(1).is_allowed());
    }

    #[test]
    fn a_rate_change_keeps_the_debt_and_scales_the_stored_permits() {
        let mut smooth = exhausted();
        assert!(smooth.take(10).is_allowed());
        smooth.change(Limit::per_second(10).burst(10).smooth());
        assert_eq!(smooth.take(1).retry_after(), Some(Duration::from_secs(2)), "the debt remains");
        smooth.advance(Duration::from_secs(2) + millis(500));
        assert_eq!(smooth.peek().remaining(), 5, "half a second at the new rate");
        smooth.change(Limit::per_second(5).burst(5).smooth());
        assert_eq!(smooth.peek().remaining(), 2, "half as many at half the rate");
    }
}
