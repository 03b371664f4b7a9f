//! Validation of a limit's parameters. Every error says what would be valid.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::{Limit, LimitBuilder, LimitError};
use crate::algorithm::{
    Algorithm, AlgorithmKind, Concurrency, FixedWindow, Flow, IntervalBucket, SlidingCounter, SlidingLog,
    SlidingWindow, SmoothWarmingUp,
};
use crate::rate::Rate;
use crate::time::nanos;

const MAX_COLD_FACTOR: u32 = 100;

/// A builder and a name to validate.
pub(super) struct Validation<'b> {
    pub(super) builder: &'b LimitBuilder,
    pub(super) name: &'b str,
}

impl Validation<'_> {
    /// Validates everything but the block time, and creates the algorithm.
    pub(super) fn algorithm(&self) -> Result<Algorithm, LimitError> {
        self.check_name()?;
        self.check_options()?;
        let builder = self.builder;
        let count = self.number("count", builder.count, Limit::MAX_COUNT)?;
        Ok(match builder.kind {
            AlgorithmKind::TokenBucket => Flow::token_bucket(self.rate()?, self.burst()?).into(),
            AlgorithmKind::Gcra => Flow::gcra(self.rate()?, self.burst()?).into(),
            AlgorithmKind::LeakyMeter => Flow::leaky_meter(self.rate()?, self.burst()?).into(),
            AlgorithmKind::SmoothBursty => Flow::smooth_bursty(self.rate()?, self.burst()?).into(),
            AlgorithmKind::LeakyQueue => {
                let waiting = self.number("waiting", builder.waiting, Limit::MAX_COUNT - 1)?;
                self.check_fill_time("waiting", waiting)?;
                Flow::leaky_queue(self.rate()?, waiting).into()
            }
            AlgorithmKind::IntervalBucket => {
                let burst = self.burst()?;
                IntervalBucket::new(count, self.period()?, burst).into()
            }
            AlgorithmKind::FixedWindow => FixedWindow::new(count, self.period()?, builder.anchored).into(),
            AlgorithmKind::SlidingWindow => SlidingWindow::new(count, self.period()?).into(),
            AlgorithmKind::SlidingCounter => {
                let period = self.period()?;
                let sub_buckets = self.number("sub_buckets", builder.sub_buckets, Limit::MAX_SUB_BUCKETS)?;
                if u64::from(sub_buckets) > period {
                    let problem = format!("is {sub_buckets}, more than the {period} ns of the period");
                    return Err(self.error("sub_buckets", problem, "use fewer, or a longer period"));
                }
                SlidingCounter::new(count, period, sub_buckets).into()
            }
            AlgorithmKind::SlidingLog => {
                self.number("count", count, Limit::MAX_ENTRIES)?;
                let gap = self.optional_span("min_gap", builder.min_gap)?;
                SlidingLog::new(count, self.period()?, gap, builder.count_denied).into()
            }
            AlgorithmKind::SmoothWarmingUp => {
                let warm_up = self.span("warm_up", builder.warm_up)?;
                let cold_factor =
                    self.number("cold_factor", builder.cold_factor_or_default(), MAX_COLD_FACTOR)?;
                SmoothWarmingUp::new(self.rate()?, warm_up, cold_factor).into()
            }
            AlgorithmKind::Concurrency => {
                self.number("count", count, Limit::MAX_ENTRIES)?;
                Concurrency::new(count, self.span("lease", builder.lease_or_default())?).into()
            }
        })
    }

    /// Returns the block time in nanoseconds; zero if there is none.
    pub(super) fn block_time(&self) -> Result<u64, LimitError> {
        self.optional_span("block_for", self.builder.block)
    }

    fn error(&self, field: &'static str, problem: impl Into<String>, advice: &str) -> LimitError {
        LimitError {
            name: self.name.chars().take(Limit::MAX_NAME).collect(),
            field,
            problem: problem.into(),
            advice: advice.to_string(),
        }
    }

    fn check_name(&self) -> Result<(), LimitError> {
        if self.name.is_empty() {
            return Err(self.error("name", "is empty", "use a name such as `api`"));
        }
        if self.name.len() > Limit::MAX_NAME {
            let problem = format!("has {} bytes", self.name.len());
            return Err(self.error("name", problem, &format!("use at most {}", Limit::MAX_NAME)));
        }
        if self.name.chars().any(char::is_control) {
            return Err(self.error("name", "has control characters", "use printable characters only"));
        }
        Ok(())
    }

    /// Checks that the algorithm has every option that is set.
    fn check_options(&self) -> Result<(), LimitError> {
        use AlgorithmKind as Kind;
        let builder = self.builder;
        let with_burst =
            [Kind::TokenBucket, Kind::IntervalBucket, Kind::LeakyMeter, Kind::Gcra, Kind::SmoothBursty];
        let options: [(_, _, &[Kind], _); 6] = [
            (
                "burst",
                builder.burst.is_some(),
                &with_burst,
                "token buckets, leaky buckets as meters, GCRA and smooth bursty limiters",
            ),
            ("anchored", builder.anchored, &[Kind::FixedWindow], "fixed windows"),
            ("count_denied", builder.count_denied, &[Kind::SlidingLog], "sliding logs"),
            ("min_gap", builder.min_gap.is_some(), &[Kind::SlidingLog], "sliding logs"),
            ("cold_factor", builder.cold_factor.is_some(), &[Kind::SmoothWarmingUp], "limiters that warm up"),
            ("lease", builder.lease.is_some(), &[Kind::Concurrency], "concurrency limits"),
        ];
        for (field, is_set, kinds, owners) in options {
            if is_set && !kinds.contains(&builder.kind) {
                let problem = format!("does not apply to the algorithm `{}`", builder.kind.name());
                return Err(self.error(field, problem, &format!("remove it: only {owners} have it")));
            }
        }
        Ok(())
    }

    fn number(&self, field: &'static str, value: u32, max: u32) -> Result<u32, LimitError> {
        if value == 0 {
            return Err(self.error(field, "is 0", "use at least 1"));
        }
        if value > max {
            return Err(self.error(field, format!("is {value}"), &format!("use at most {max}")));
        }
        Ok(value)
    }

    /// Returns a span in nanoseconds.
    fn span(&self, field: &'static str, span: Duration) -> Result<u64, LimitError> {
        if span.is_zero() {
            return Err(self.error(field, "is zero", "use at least a nanosecond"));
        }
        if span > Limit::MAX_PERIOD {
            return Err(self.error(field, format!("is {span:?}"), "use at most 366 days"));
        }
        Ok(nanos(span))
    }

    /// Returns a span in nanoseconds; zero if it is not set.
    fn optional_span(&self, field: &'static str, span: Option<Duration>) -> Result<u64, LimitError> {
        span.map_or(Ok(0), |span| self.span(field, span))
    }

    fn period(&self) -> Result<u64, LimitError> {
        self.span("period", self.builder.period)
    }

    fn rate(&self) -> Result<Rate, LimitError> {
        let period = self.period()?;
        let count = u64::from(self.builder.count);
        if count > period {
            let problem = format!("is {count} in {period} ns, more than one per nanosecond");
            return Err(self.error("count", problem, "count in larger units, or use a longer period"));
        }
        Ok(Rate::new(count, period))
    }

    fn burst(&self) -> Result<u32, LimitError> {
        let burst = self.number("burst", self.builder.burst_or_default(), Limit::MAX_COUNT)?;
        self.check_fill_time("burst", burst)?;
        Ok(burst)
    }

    /// Checks that a capacity fills within a time that instants can express.
    fn check_fill_time(&self, field: &'static str, capacity: u32) -> Result<(), LimitError> {
        let fill = u128::from(capacity) * u128::from(self.period()?) / u128::from(self.builder.count);
        if fill > Limit::MAX_FILL.as_nanos() {
            let years = fill / (366 * 24 * 60 * 60 * 1_000_000_000);
            let problem = format!("is {capacity}, which takes {years} years to fill at this rate");
            return Err(self.error(field, problem, "use at most what fills in 30 years"));
        }
        Ok(())
    }
}
