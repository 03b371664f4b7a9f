//! Token bucket: starts full, refills continuously, and admits a charge if there are enough tokens.

use super::{Admission, Flow};
use crate::algorithm::AlgorithmKind;
use crate::rate::Rate;

impl Flow {
    pub(crate) fn token_bucket(rate: Rate, burst: u32) -> Self {
        Self::new(AlgorithmKind::TokenBucket, rate, burst, Admission::Fits)
    }
}

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
    fn debits_dated_in_the_past_add_up() {
        // Each of them alone would have refilled by now. Together they take four seconds to refill, of which two have
        // passed.
        let mut bucket = Example::new(Limit::per_second(10).burst(10));
        let then = bucket.now();
        bucket.advance(millis(2_000));
        for debit in 1..=4_u32 {
            let decision = bucket.debit_at(10, then);
            assert_eq!(decision.reset_after(), millis(1_000) * debit.saturating_sub(2));
        }
    }

    #[test]
    fn an_uneven_rate_does_not_drift() {
        // At 700 million per second a token takes 1.43 ns: rounding it either way would be off by a third.
        let mut bucket = Example::new(Limit::per_second(700_000_000).burst(1));
        let mut allowed = 0_u64;
        for _ in 0..7_000_000 {
            allowed += u64::from(bucket.take(1).is_allowed());
            bucket.advance(core::time::Duration::from_nanos(1));
        }
        assert!(allowed.abs_diff(4_900_000) <= 1, "{allowed}");
    }
}
