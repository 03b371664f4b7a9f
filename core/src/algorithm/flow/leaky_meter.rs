//! Leaky bucket as a meter: a level that drains continuously, and admits a charge that does not make it overflow.
//!
//! It is the dual of the token bucket: its level is the number of tokens missing there, so both decide alike.

use super::{Admission, Flow};
use crate::algorithm::AlgorithmKind;
use crate::rate::Rate;

impl Flow {
    pub(crate) fn leaky_meter(rate: Rate, burst: u32) -> Self {
        Self::new(AlgorithmKind::LeakyMeter, rate, burst, Admission::Fits)
    }
}

#[cfg(test)]
mod tests {
    use crate::Limit;
    use crate::worked_example::{Example, millis};

    #[test]
    fn is_the_dual_of_the_token_bucket() {
        let mut meter = Example::new(Limit::per_second(10).burst(10).leaky_bucket());
        let mut bucket = Example::new(Limit::per_second(10).burst(10));
        for step in 0..1_000_u32 {
            assert_eq!(meter.take(step % 7), bucket.take(step % 7), "step {step}");
            meter.advance(millis(u64::from(step % 13) * 31));
            bucket.advance(millis(u64::from(step % 13) * 31));
        }
    }
}
