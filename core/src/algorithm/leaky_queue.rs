//! Leaky bucket as a queue: one leaves every period/count, first in first out, and an admitted caller
//! is told when to start.
//!
//! The caller that starts at once does not wait, so a queue for `waiting` holds one more: that is its
//! capacity.

use super::flow::{Admission, Flow, flow_algorithm};
use crate::rate::Rate;

/// A queue that lets one start at a time.
#[derive(Clone, Debug)]
pub(crate) struct LeakyQueue {
    flow: Flow,
}

impl LeakyQueue {
    pub(crate) fn new(pace: Rate, waiting: u32) -> Self {
        Self { flow: Flow::new(pace, waiting + 1, Admission::InTurn) }
    }
}

flow_algorithm!(LeakyQueue);

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use crate::Limit;
    use crate::worked_example::{Example, millis};

    #[test]
    fn starts_are_a_second_apart_whatever_the_arrivals() {
        let mut queue = Example::new(Limit::per_minute(60).queue(10));
        let begin = queue.now();
        let mut starts = Vec::new();
        for pause in [0, 0, 300, 50, 1_900, 0, 10] {
            queue.advance(millis(pause));
            starts.push((queue.now() + queue.take(1).start_after()).since(begin));
        }
        assert_eq!(starts, (0..7).map(Duration::from_secs).collect::<Vec<_>>());
    }

    #[test]
    fn at_most_the_stated_number_waits() {
        let mut queue = Example::new(Limit::per_second(1).queue(2));
        assert_eq!(queue.peek().remaining(), 3);
        assert!((0..3).all(|_| queue.take(1).is_allowed()));
        let spilled = queue.take(1);
        assert_eq!((spilled.is_denied(), spilled.retry_after()), (true, Some(Duration::from_secs(1))));
        queue.advance(Duration::from_secs(1));
        assert_eq!(queue.take(1).start_after(), Duration::from_secs(2));
    }

    #[test]
    fn an_impatient_caller_is_not_queued() {
        let mut queue = Example::new(Limit::per_second(1).queue(5));
        assert!(queue.take(2).is_allowed());
        let impatient = queue.reserve(1, Duration::from_millis(1500));
        assert_eq!((impatient.is_denied(), impatient.retry_after()), (true, Some(millis(500))));
        assert_eq!(queue.reserve(1, Duration::from_secs(2)).start_after(), Duration::from_secs(2));
    }
}
