//! A limit's numbers, for stores that decide elsewhere, and shares of them.

use core::time::Duration;

use super::{Limit, LimitError};
use crate::algorithm::{AlgorithmKind, Flow};
use crate::time::nanos;

/// All numbers of a limit, defaults filled in; spans in nanoseconds. What an algorithm does not have is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Parameters {
    /// Which algorithm they are for.
    pub kind: AlgorithmKind,
    /// How much passes per period, or is in flight.
    pub count: u32,
    /// The period; zero for concurrency.
    pub period: u64,
    /// The most that can pass at once; for a queue, one more than may wait.
    pub capacity: u32,
    /// Sub-buckets of a sliding counter.
    pub sub_buckets: u32,
    /// Whether windows begin with the first hit.
    pub anchored: bool,
    /// Whether denied actions count.
    pub count_denied: bool,
    /// The shortest time between two actions.
    pub min_gap: u64,
    /// The time it takes to warm up.
    pub warm_up: u64,
    /// How many times slower a cold limiter is.
    pub cold_factor: u32,
    /// How long a lease lasts.
    pub lease: u64,
    /// How long a denial lasts.
    pub block: u64,
    /// Of a flow, what tells its numbers from others ([`Tat::numbers`](crate::Tat::numbers)).
    pub digest: u16,
}

impl Limit {
    /// The numbers that its decisions depend on.
    pub fn parameters(&self) -> Parameters {
        let spec = &self.spec;
        let only = |kind, value: u64| if self.kind() == kind { value } else { 0 };
        Parameters {
            kind: self.kind(),
            count: spec.count,
            period: nanos(spec.period),
            capacity: self.capacity(),
            sub_buckets: if self.kind() == AlgorithmKind::SlidingCounter { spec.sub_buckets } else { 0 },
            anchored: spec.anchored,
            count_denied: spec.count_denied,
            min_gap: spec.min_gap.map_or(0, nanos),
            warm_up: only(AlgorithmKind::SmoothWarmingUp, nanos(spec.warm_up)),
            cold_factor: if self.kind() == AlgorithmKind::SmoothWarmingUp {
                spec.cold_factor.unwrap_or(3)
            } else {
                0
            },
            lease: only(AlgorithmKind::Concurrency, nanos(self.period())),
            block: self.block,
            digest: self.algorithm().as_flow().map_or(0, Flow::digest),
        }
    }

    /// The same limit with `part` of `of` parts of its numbers, never more, for one of several that share it.
    ///
    /// A share that would count less than one takes longer instead: a tenth of 1 per hour is 1 per 10 hours. Of
    /// work in flight and of a burst, at least one is left.
    ///
    /// ```
    /// use tollgate_core::Limit;
    ///
    /// let api = Limit::per_second(50).burst(100).build("api")?;
    /// let fifth = api.share(1, 5)?;
    /// assert_eq!((fifth.count(), fifth.capacity()), (10, 20));
    /// # Ok::<(), tollgate_core::LimitError>(())
    /// ```
    pub fn share(&self, part: u32, of: u32) -> Result<Self, LimitError> {
        let mut spec = self.spec.clone();
        let refuse = |problem: &str, advice: &str| LimitError {
            name: self.name().into(),
            field: "share",
            problem: problem.into(),
            advice: advice.into(),
        };
        if part == 0 || of == 0 || part > of {
            return Err(refuse(
                "is nothing, or more than the whole",
                "use a part of at least 1 and at most the whole",
            ));
        }
        let scaled = |value: u32| {
            let whole = u64::from(value.min(Limit::MAX_COUNT)) * u64::from(part) / u64::from(of);
            u32::try_from(whole).unwrap_or(Limit::MAX_COUNT)
        };
        spec.burst = spec.burst.map(|burst| scaled(burst).max(1));
        if spec.waiting > 0 {
            spec.waiting = scaled(spec.waiting).max(1);
        }
        match scaled(spec.count) {
            0 if spec.kind == AlgorithmKind::Concurrency => spec.count = 1,
            0 => {
                let period = spec.period.as_nanos() * u128::from(of);
                let longer = period.div_ceil(u128::from(part) * u128::from(spec.count));
                let Ok(longer) = u64::try_from(longer) else {
                    return Err(refuse("is too small to be counted", "use a larger part"));
                };
                (spec.count, spec.period) = (1, Duration::from_nanos(longer));
            }
            count => spec.count = count,
        }
        spec.build(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_more_than_its_part() {
        let hour = Duration::from_secs(3600);
        let hourly = Limit::per_hour(1).fixed_window().build("hourly").expect("valid");
        let tenth = hourly.share(1, 10).expect("a share");
        assert_eq!((tenth.count(), tenth.period()), (1, 10 * hour));
        let queue =
            Limit::per_second(10).queue(5).build("queue").expect("valid").share(1, 2).expect("a share");
        assert_eq!((queue.count(), queue.capacity()), (5, 3));
        let flight = Limit::concurrent(3).build("flight").expect("valid").share(1, 7).expect("a share");
        assert_eq!(flight.count(), 1);
        assert_eq!(hourly.share(1, 1).expect("the whole"), hourly);
    }

    #[test]
    fn a_share_that_makes_no_sense_is_refused() {
        let limit = Limit::per_second(10).build("api").expect("valid");
        for (part, of) in [(0, 1), (1, 0), (2, 1)] {
            assert_eq!(limit.share(part, of).expect_err("no share").field(), "share");
        }
        let slow = Limit::per_day(1).build("slow").expect("valid");
        assert_eq!(slow.share(1, 1_000).expect_err("2.7 years").field(), "period");
    }

    #[test]
    fn numbers_have_their_defaults_filled_in() {
        let numbers =
            Limit::per_second(10).warm_up(Duration::from_secs(2)).build("api").expect("valid").parameters();
        assert_eq!((numbers.cold_factor, numbers.warm_up, numbers.lease), (3, 2_000_000_000, 0));
        let flight = Limit::concurrent(5).build("flight").expect("valid").parameters();
        assert_eq!((flight.lease, flight.period, flight.capacity), (60_000_000_000, 0, 5));
    }
}
