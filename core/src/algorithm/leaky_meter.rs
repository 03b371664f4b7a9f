//! Leaky bucket as a meter: a level that drains continuously, admits what does not make it spill.
//!
//! The dual of the token bucket: its level is the tokens that are missing there, so both decide alike.

use super::flow::{Admission, Flow, flow_algorithm};
use crate::rate::Rate;

/// A level that drains continuously.
#[derive(Clone, Debug)]
pub(crate) struct LeakyMeter {
    flow: Flow,
}

impl LeakyMeter {
    pub(crate) fn new(pace: Rate, burst: u32) -> Self {
        Self { flow: Flow::new(pace, burst, Admission::Fits) }
    }
}

flow_algorithm!(LeakyMeter);

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
