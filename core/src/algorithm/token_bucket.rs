//! Token bucket: starts full, refilled continuously, admits what fits into the tokens there are.

use super::flow::{Admission, Flow, flow_algorithm};
use crate::rate::Rate;

/// A capacity of tokens, refilled continuously.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    flow: Flow,
}

impl TokenBucket {
    pub(crate) fn new(pace: Rate, burst: u32) -> Self {
        Self { flow: Flow::new(pace, burst, Admission::Fits) }
    }
}

flow_algorithm!(TokenBucket);

#[cfg(test)]
mod tests {
    use crate::Limit;
    use crate::worked_example::{Example, millis};

    #[test]
    fn worked_example_at_ten_per_second() {
        let mut bucket = Example::new(Limit::per_second(10).burst(10));
        assert_eq!(bucket.take(6).remaining(), 4);
        bucket.advance(millis(200));
        let second = bucket.take(5);
        assert_eq!((second.is_allowed(), second.remaining()), (true, 1));
        assert_eq!(second.reset_after(), millis(900));
    }

    #[test]
    fn worked_example_at_two_per_second() {
        let mut bucket = Example::new(Limit::per_second(2).burst(10));
        assert_eq!(bucket.take(6).remaining(), 4);
        bucket.advance(millis(200));
        let second = bucket.take(5);
        assert_eq!((second.is_denied(), second.retry_after()), (true, Some(millis(300))));
        bucket.advance(millis(300));
        assert!(bucket.take(5).is_allowed());
    }

    #[test]
    fn debits_of_the_past_add_up() {
        // Each was refilled by now if it had been alone; all of them together are four seconds' worth of two.
        let mut bucket = Example::new(Limit::per_second(10).burst(10));
        let then = bucket.now();
        bucket.advance(millis(2_000));
        for debit in 1..=4_u32 {
            let told = bucket.debit_at(10, then);
            assert_eq!(told.reset_after(), millis(1_000) * debit.saturating_sub(2));
        }
    }

    #[test]
    fn an_uneven_rate_does_not_drift() {
        // 700 million a second is 1.43 ns each: rounding either way would be off by a third.
        let mut bucket = Example::new(Limit::per_second(700_000_000).burst(1));
        let mut passed = 0_u64;
        for _ in 0..7_000_000 {
            passed += u64::from(bucket.take(1).is_allowed());
            bucket.advance(core::time::Duration::from_nanos(1));
        }
        assert!(passed.abs_diff(4_900_000) <= 1, "{passed}");
    }
}
