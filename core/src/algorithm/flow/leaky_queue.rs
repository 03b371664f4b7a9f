//! Leaky bucket as a queue: one caller starts every period/count, first in first out. The decision says when.
//!
//! The caller that starts at once does not wait, so the capacity of a queue is one more than the number of waiting
//! callers.

use super::{Admission, Flow};
use crate::algorithm::AlgorithmKind;
use crate::rate::Rate;

impl Flow {
    pub(crate) fn leaky_queue(rate: Rate, waiting: u32) -> Self {
        Self::new(AlgorithmKind::LeakyQueue, rate, waiting + 1, Admission::Queued)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, millis};

    #[test]
    fn starts_are_a_second_apart_for_any_arrivals() {
        let mut queue = Example::new(Limit::per_minute(60).queue(10));
        let first = queue.now();
        let mut starts = Vec::new();
        for pause in [0, 0, 300, 50, 1_900, 0, 10] {
            queue.advance(millis(pause));
            starts.push((queue.now() + queue.take(1).start_after()).since(first));
        }
        assert_eq!(starts, (0..7).map(Duration::from_secs).collect::<Vec<_>>());
    }

    #[test]
    fn at_most_the_given_number_of_callers_waits() {
        let mut queue = Example::new(Limit::per_second(1).queue(2));
        assert_eq!(queue.peek().remaining(), 3);
        assert!((0..3).all(|_| queue.take(1).is_allowed()));
        let overflow = queue.take(1);
        assert_eq!((overflow.is_denied(), overflow.retry_after()), (true, Some(Duration::from_secs(1))));
        queue.advance(Duration::from_secs(1));
        assert_eq!(queue.take(1).start_after(), Duration::from_secs(2));
    }

    #[test]
    fn a_caller_whose_maximum_wait_is_too_short_is_not_queued() {
        let mut queue = Example::new(Limit::per_second(1).queue(5));
        assert!(queue.take(2).is_allowed());
        let denied = queue.reserve(1, Duration::from_millis(1500));
        assert_eq!((denied.is_denied(), denied.retry_after()), (true, Some(millis(500))));
        assert_eq!(queue.reserve(1, Duration::from_secs(2)).start_after(), Duration::from_secs(2));
    }
}
