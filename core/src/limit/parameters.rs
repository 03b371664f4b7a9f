//! The parameters of a limit as plain numbers, for stores that decide on a server; and shares of a limit.

use core::time::Duration;

use super::{Limit, LimitError};
use crate::algorithm::{AlgorithmKind, Flow};
use crate::time::nanos;

/// All parameters of a limit, with defaults filled in. Spans are in nanoseconds. A parameter that the algorithm does
/// not have is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Parameters {
    /// The algorithm.
    pub kind: AlgorithmKind,
    /// How much passes per period; for a concurrency limit, the number of slots.
    pub count: u32,
    /// The period; zero for a concurrency limit.
    pub period: u64,
    /// The most that can pass at once; for a queue, one more than can wait.
    pub capacity: u32,
    /// The number of sub-buckets of a sliding counter.
    pub sub_buckets: u32,
    /// Whether a fixed window starts at its first hit.
    pub anchored: bool,
    /// Whether a sliding log counts denied takes.
    pub count_denied: bool,
    /// The minimum time between two takes of a sliding log.
    pub min_gap: u64,
    /// The warm-up time.
    pub warm_up: u64,
    /// How many times slower a cold limiter is than a warm one.
    pub cold_factor: u32,
    /// How long a lease lasts if it is not renewed.
    pub lease: u64,
    /// The block time: how long a key remains denied after a denial.
    pub block: u64,
    /// The digest of a flow's parameters ([`Flow::digest`]).
    pub digest: u16,
}

impl Limit {
    /// Returns the parameters that decisions depend on.
    pub fn parameters(&self) -> Parameters {
        let builder = &self.builder;
        let has = |kind| self.kind() == kind;
        let warms_up = has(AlgorithmKind::SmoothWarmingUp);
        Parameters {
            kind: self.kind(),
            count: builder.count,
            period: nanos(builder.period),
            capacity: self.capacity(),
            sub_buckets: if has(AlgorithmKind::SlidingCounter) { builder.sub_buckets } else { 0 },
            anchored: builder.anchored,
            count_denied: builder.count_denied,
            min_gap: builder.min_gap.map_or(0, nanos),
            warm_up: if warms_up { nanos(builder.warm_up) } else { 0 },
            cold_factor: if warms_up { builder.cold_factor_or_default() } else { 0 },
            lease: if has(AlgorithmKind::Concurrency) { nanos(builder.lease_or_default()) } else { 0 },
            block: self.block,
            digest: self.algorithm().as_flow().map_or(0, Flow::digest),
        }
    }

    /// Returns the same limit with `part` of `of` parts of its count, burst and queue, rounded down. For one of several
    /// nodes that divide a limit among themselves.
    ///
    /// A count that would be less than one becomes 1 per longer period: a tenth of 1 per hour is 1 per 10 hours. A
    /// burst, a queue and the slots of a concurrency limit are at least 1.
    ///
    /// ```
    /// # extern crate tollgate_core as tollgate;
    /// use tollgate::Limit;
    ///
    /// let api = Limit::per_second(50).burst(100).build("api")?;
    /// let fifth = api.share(1, 5)?;
    /// assert_eq!((fifth.count(), fifth.capacity()), (10, 20));
    /// # Ok::<(), tollgate::LimitError>(())
    /// ```
    pub fn share(&self, part: u32, of: u32) -> Result<Self, LimitError> {
        let mut builder = self.to_builder();
        let error = |problem: &str, advice: &str| LimitError {
            name: self.name().into(),
            field: "share",
            problem: problem.into(),
            advice: advice.into(),
        };
        if part == 0 || of == 0 || part > of {
            return Err(error(
                "is zero, or more than the whole",
                "use at least 1 part and at most all of them",
            ));
        }
        let scaled = |value: u32| {
            let whole = u64::from(value.min(Limit::MAX_COUNT)) * u64::from(part) / u64::from(of);
            u32::try_from(whole).unwrap_or(Limit::MAX_COUNT)
        };
        builder.burst = builder.burst.map(|burst| scaled(burst).max(1));
        if builder.waiting > 0 {
            builder.waiting = scaled(builder.waiting).max(1);
        }
        match scaled(builder.count) {
            0 if builder.kind == AlgorithmKind::Concurrency => builder.count = 1,
            0 => {
                let period = builder.period.as_nanos() * u128::from(of);
                let longer = period.div_ceil(u128::from(part) * u128::from(builder.count));
                let Ok(longer) = u64::try_from(longer) else {
                    return Err(error("is too small for a period of 64 bits", "use a larger part"));
                };
                (builder.count, builder.period) = (1, Duration::from_nanos(longer));
            }
            count => builder.count = count,
        }
        builder.build(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_more_than_its_part() {
        let hour = Duration::from_secs(3600);
        let hourly = Limit::per_hour(1).fixed_window().build("hourly").expect("valid");
        let tenth = hourly.share(1, 10).expect("a valid share");
        assert_eq!((tenth.count(), tenth.period()), (1, 10 * hour));
        let queue = Limit::per_second(10).queue(5).build("queue").expect("valid");
        let half = queue.share(1, 2).expect("a valid share");
        assert_eq!((half.count(), half.capacity()), (5, 3));
        let slots = Limit::concurrent(3).build("slots").expect("valid");
        assert_eq!(slots.share(1, 7).expect("a valid share").count(), 1);
        assert_eq!(hourly.share(1, 1).expect("the whole"), hourly);
    }

    #[test]
    fn an_invalid_share_is_an_error() {
        let limit = Limit::per_second(10).build("api").expect("valid");
        for (part, of) in [(0, 1), (1, 0), (2, 1)] {
            assert_eq!(limit.share(part, of).expect_err("an invalid share").field(), "share");
        }
        let slow = Limit::per_day(1).build("slow").expect("valid");
        assert_eq!(slow.share(1, 1_000).expect_err("2.7 years").field(), "period");
    }

    #[test]
    fn parameters_include_defaults() {
        let warming = Limit::per_second(10).warm_up(Duration::from_secs(2)).build("api").expect("valid");
        let warming = warming.parameters();
        assert_eq!((warming.cold_factor, warming.warm_up, warming.lease), (3, 2_000_000_000, 0));
        let slots = Limit::concurrent(5).build("slots").expect("valid").parameters();
        assert_eq!((slots.lease, slots.period, slots.capacity), (60_000_000_000, 0, 5));
    }
}
