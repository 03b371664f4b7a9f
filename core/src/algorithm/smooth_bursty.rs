//! Smooth bursty: unused permits are stored up to a burst; any cost passes once the last one is paid
//! for, and the next caller pays.
//!
//! Stored permits and the next free ticket are two sides of one instant: the instant at which the store
//! of permits is full. A ticket is free while that lies no further ahead than the burst takes to
//! fill. A rate that changes keeps the debt, and what is stored scales with the rate, because both
//! are kept as time.

use super::flow::{Admission, Flow, flow_algorithm};
use crate::rate::Rate;

/// Stored permits and a next free ticket.
#[derive(Clone, Debug)]
pub(crate) struct SmoothBursty {
    flow: Flow,
}

impl SmoothBursty {
    pub(crate) fn new(pace: Rate, burst: u32) -> Self {
        Self { flow: Flow::new(pace, burst, Admission::Paid) }
    }
}

flow_algorithm!(SmoothBursty);

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, millis};

    /// What a blocking acquire would do: reserve, wait for the start, and say how long that was.
    fn acquire(smooth: &mut Example, permits: u32) -> Duration {
        let wait = smooth.reserve(permits, Duration::from_secs(3600)).start_after();
        smooth.advance(wait);
        wait
    }

    /// Five a second with the second's worth of permits that an idle limiter has stored already used.
    fn exhausted() -> Example {
        let mut smooth = Example::new(Limit::per_second(5).burst(5).smooth());
        assert_eq!(smooth.take(5).start_after(), Duration::ZERO);
        smooth
    }

    #[test]
    fn steady_callers_start_an_interval_apart() {
        let mut smooth = exhausted();
        let waits: Vec<_> = (0..3).map(|_| acquire(&mut smooth, 1)).collect();
        assert_eq!(waits, [Duration::ZERO, millis(200), millis(200)]);
    }

    #[test]
    fn the_next_caller_pays() {
        let mut smooth = exhausted();
        assert_eq!(acquire(&mut smooth, 10), Duration::ZERO, "any cost passes once the ticket is due");
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
        assert_eq!(free, 6, "five stored and the one that the next caller pays: {waits:?}");
        assert_eq!(waits[6..], [millis(200), millis(200)]);
    }

    #[test]
    fn a_check_passes_only_when_the_ticket_is_due() {
        let mut smooth = exhausted();
        assert!(smooth.take(3).is_allowed());
        let early = smooth.take(1);
        assert_eq!((early.is_denied(), early.retry_after()), (true, Some(millis(600))));
        smooth.advance(millis(600));
        assert!(smooth.take(1).is_allowed());
    }

    #[test]
    fn a_rate_change_keeps_the_debt_and_scales_what_is_stored() {
        let mut smooth = exhausted();
        assert!(smooth.take(10).is_allowed());
        smooth.change(Limit::per_second(10).burst(10).smooth());
        assert_eq!(smooth.take(1).retry_after(), Some(Duration::from_secs(2)), "the debt is kept");
        smooth.advance(Duration::from_secs(2) + millis(500));
        assert_eq!(smooth.peek().remaining(), 5, "half a second at the new rate");
        smooth.change(Limit::per_second(5).burst(5).smooth());
        assert_eq!(smooth.peek().remaining(), 2, "half as many at half the rate");
    }
}
