//! The builder: says what it means, and refuses what makes no sense.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::{Limit, LimitError};
use crate::algorithm::{
    Algorithm, AlgorithmKind, Concurrency, FixedWindow, Gcra, IntervalBucket, LeakyMeter, LeakyQueue,
    SlidingCounter, SlidingLog, SlidingWindow, SmoothBursty, SmoothWarmingUp, TokenBucket,
};
use crate::rate::Rate;
use crate::time::nanos;

/// Bounds of a limit's parameters.
impl Limit {
    /// The largest count, burst, queue and cost. Small enough that every product with a period fits the numbers of a
    /// scripting language or one multiply-divide.
    pub const MAX_COUNT: u32 = 1_000_000_000;
    /// The longest period, block time and lease: a leap year.
    pub const MAX_PERIOD: Duration = Duration::from_secs(366 * 24 * 60 * 60);
    /// The longest time that a bucket may take to fill.
    pub const MAX_FILL: Duration = Duration::from_secs(30 * 366 * 24 * 60 * 60);
    /// The most entries of one state: a sliding log's timestamps, a concurrency limit's leases.
    pub const MAX_ENTRIES: u32 = 100_000;
    /// The most sub-buckets of a sliding counter.
    pub const MAX_SUB_BUCKETS: u32 = 256;
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 128;
}

/// Collects a limit's numbers; [`build`](Self::build) checks them.
///
/// Starts as a token bucket. A method that names an algorithm changes to it; an option that the
/// algorithm does not have is refused, not ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct LimitBuilder {
    pub(super) kind: AlgorithmKind,
    pub(super) count: u32,
    pub(super) period: Duration,
    pub(super) burst: Option<u32>,
    pub(super) waiting: u32,
    pub(super) sub_buckets: u32,
    pub(super) anchored: bool,
    pub(super) count_denied: bool,
    pub(super) min_gap: Option<Duration>,
    pub(super) warm_up: Duration,
    pub(super) cold_factor: Option<u32>,
    pub(super) lease: Option<Duration>,
    pub(super) block: Option<Duration>,
}

impl LimitBuilder {
    pub(super) fn new(kind: AlgorithmKind, count: u32, period: Duration) -> Self {
        Self {
            kind,
            count,
            period,
            burst: None,
            waiting: 0,
            sub_buckets: 0,
            anchored: false,
            count_denied: false,
            min_gap: None,
            warm_up: Duration::ZERO,
            cold_factor: None,
            lease: None,
            block: None,
        }
    }

    fn with(mut self, kind: AlgorithmKind) -> Self {
        self.kind = kind;
        self
    }

    /// The most that can pass at once; the count unless said. Buckets and smooth limiters only.
    pub fn burst(mut self, burst: u32) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Refills the whole count at the end of each period instead of continuously. The first period
    /// begins with the first debit from a full bucket.
    pub fn refill_by_interval(self) -> Self {
        self.with(AlgorithmKind::IntervalBucket)
    }

    /// A leaky bucket as a meter: the level drains continuously, what would spill is denied.
    pub fn leaky_bucket(self) -> Self {
        self.with(AlgorithmKind::LeakyMeter)
    }

    /// A leaky bucket as a queue: one starts every period/count, at most `waiting` wait behind it,
    /// first in first out. An admitted caller is told when to start.
    pub fn queue(mut self, waiting: u32) -> Self {
        self.waiting = waiting;
        self.with(AlgorithmKind::LeakyQueue)
    }

    /// A counter per window, windows aligned to the epoch. Twice the count can pass around the end
    /// of a window: that is the algorithm's known flaw.
    pub fn fixed_window(self) -> Self {
        self.with(AlgorithmKind::FixedWindow)
    }

    /// Windows begin with the first hit instead of being aligned. Fixed windows only.
    pub fn anchored(mut self) -> Self {
        self.anchored = true;
        self
    }

    /// Exact timestamps: never more than the count in any period. Costs memory per action.
    pub fn sliding_log(self) -> Self {
        self.with(AlgorithmKind::SlidingLog)
    }

    /// Denied actions count too: who hammers stays blocked until they pause. Sliding logs only.
    pub fn count_denied(mut self) -> Self {
        self.count_denied = true;
        self
    }

    /// At least this long between two actions. Sliding logs only.
    pub fn min_gap(mut self, gap: Duration) -> Self {
        self.min_gap = Some(gap);
        self
    }

    /// The period in `sub_buckets` counters; the last that many, including the current one, are summed.
    pub fn sliding_counter(mut self, sub_buckets: u32) -> Self {
        self.sub_buckets = sub_buckets;
        self.with(AlgorithmKind::SlidingCounter)
    }

    /// Two counters: the previous window, weighted by the part of it that is still in sight, and the
    /// current one.
    pub fn sliding_window(self) -> Self {
        self.with(AlgorithmKind::SlidingWindow)
    }

    /// The generic cell rate algorithm: decides as a token bucket, and answers as redis-cell does.
    pub fn gcra(self) -> Self {
        self.with(AlgorithmKind::Gcra)
    }

    /// A smooth limiter: any cost passes once the last one is paid for, and the next caller pays. Up
    /// to `burst` unused permits are stored.
    pub fn smooth(self) -> Self {
        self.with(AlgorithmKind::SmoothBursty)
    }

    /// A smooth limiter that is slow when cold and reaches its rate over `warm_up`.
    pub fn warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self.with(AlgorithmKind::SmoothWarmingUp)
    }

    /// How many times slower a cold limiter is than a warm one; 3 unless said. Warming up only.
    pub fn cold_factor(mut self, factor: u32) -> Self {
        self.cold_factor = Some(factor);
        self
    }

    /// How long a place is held unless it is released or renewed; a minute unless said. Concurrency only.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// After a denial stay denied that long: login protection. Fits any limit.
    pub fn block_for(mut self, block: Duration) -> Self {
        self.block = Some(block);
        self
    }

    /// Checks the numbers and names the limit. State belongs to the name: a limit that is built again
    /// with other numbers and the same name goes on where the old one was. Another algorithm, or a block time that
    /// was not there before, starts anew.
    pub fn build(self, name: &str) -> Result<Limit, LimitError> {
        let checked = Checked { builder: &self, name };
        let algorithm = checked.algorithm()?;
        let block = checked.span("block_for", self.block)?;
        Ok(Limit::assemble(name, algorithm, block, self))
    }
}

/// A builder being checked; its methods say what would be right.
struct Checked<'b> {
    builder: &'b LimitBuilder,
    name: &'b str,
}

impl Checked<'_> {
    fn refuse(&self, field: &'static str, problem: impl Into<String>, advice: &str) -> LimitError {
        LimitError {
            name: self.name.chars().take(Limit::MAX_NAME).collect(),
            field,
            problem: problem.into(),
            advice: advice.to_string(),
        }
    }

    fn algorithm(&self) -> Result<Algorithm, LimitError> {
        self.check_name()?;
        self.check_options()?;
        let b = self.builder;
        let count = self.number("count", b.count, Limit::MAX_COUNT)?;
        Ok(match b.kind {
            AlgorithmKind::TokenBucket => TokenBucket::new(self.pace()?, self.burst()?).into(),
            AlgorithmKind::Gcra => Gcra::new(self.pace()?, self.burst()?).into(),
            AlgorithmKind::LeakyMeter => LeakyMeter::new(self.pace()?, self.burst()?).into(),
            AlgorithmKind::SmoothBursty => SmoothBursty::new(self.pace()?, self.burst()?).into(),
            AlgorithmKind::LeakyQueue => {
                let waiting = self.number("waiting", b.waiting, Limit::MAX_COUNT - 1)?;
                self.fits_fill("waiting", waiting)?;
                LeakyQueue::new(self.pace()?, waiting).into()
            }
            AlgorithmKind::IntervalBucket => {
                let burst = self.burst()?;
                IntervalBucket::new(count, self.period()?, burst).into()
            }
            AlgorithmKind::FixedWindow => FixedWindow::new(count, self.period()?, b.anchored).into(),
            AlgorithmKind::SlidingWindow => SlidingWindow::new(count, self.period()?).into(),
            AlgorithmKind::SlidingCounter => {
                let period = self.period()?;
                let parts = self.number("sub_buckets", b.sub_buckets, Limit::MAX_SUB_BUCKETS)?;
                if u64::from(parts) > period {
                    let problem = format!("are {parts}, more than the {period} ns of the period");
                    return Err(self.refuse("sub_buckets", problem, "use fewer, or a longer period"));
                }
                SlidingCounter::new(count, period, parts).into()
            }
            AlgorithmKind::SlidingLog => {
                self.number("count", count, Limit::MAX_ENTRIES)?;
                let gap = self.span("min_gap", b.min_gap)?;
                SlidingLog::new(count, self.period()?, gap, b.count_denied).into()
            }
            AlgorithmKind::SmoothWarmingUp => {
                let warm_up = self.span("warm_up", Some(b.warm_up))?;
                let cold = self.number("cold_factor", b.cold_factor.unwrap_or(3), 100)?;
                SmoothWarmingUp::new(self.pace()?, warm_up, cold).into()
            }
            AlgorithmKind::Concurrency => {
                self.number("count", count, Limit::MAX_ENTRIES)?;
                let lease = self.span("lease", Some(b.lease.unwrap_or(Duration::from_secs(60))))?;
                Concurrency::new(count, lease).into()
            }
        })
    }

    fn check_name(&self) -> Result<(), LimitError> {
        if self.name.is_empty() {
            return Err(self.refuse("name", "is empty", "name what is limited, such as `api`"));
        }
        if self.name.len() > Limit::MAX_NAME {
            let problem = format!("has {} bytes", self.name.len());
            return Err(self.refuse("name", problem, &format!("use at most {}", Limit::MAX_NAME)));
        }
        if self.name.chars().any(char::is_control) {
            return Err(self.refuse("name", "has control characters", "use printable ones"));
        }
        Ok(())
    }

    /// An option that the algorithm does not have is refused, not ignored.
    fn check_options(&self) -> Result<(), LimitError> {
        use AlgorithmKind as Kind;
        let b = self.builder;
        let bursts = matches!(
            b.kind,
            Kind::TokenBucket | Kind::IntervalBucket | Kind::LeakyMeter | Kind::Gcra | Kind::SmoothBursty
        );
        let options = [
            ("burst", b.burst.is_some(), bursts, "leave it out: only buckets and smooth limiters have one"),
            ("anchored", b.anchored, b.kind == Kind::FixedWindow, "leave it out: only fixed windows have it"),
            (
                "count_denied",
                b.count_denied,
                b.kind == Kind::SlidingLog,
                "leave it out: only sliding logs have it",
            ),
            (
                "min_gap",
                b.min_gap.is_some(),
                b.kind == Kind::SlidingLog,
                "leave it out: only sliding logs have it",
            ),
            (
                "cold_factor",
                b.cold_factor.is_some(),
                b.kind == Kind::SmoothWarmingUp,
                "leave it out: only a limiter that warms up has one",
            ),
            (
                "lease",
                b.lease.is_some(),
                b.kind == Kind::Concurrency,
                "leave it out: only concurrency limits have one",
            ),
        ];
        for (field, given, fits, advice) in options {
            if given && !fits {
                return Err(self.refuse(field, format!("has no meaning for {}", b.kind.name()), advice));
            }
        }
        Ok(())
    }

    fn number(&self, field: &'static str, value: u32, max: u32) -> Result<u32, LimitError> {
        if value == 0 {
            return Err(self.refuse(field, "is 0", "use at least 1"));
        }
        if value > max {
            return Err(self.too_large(field, value, max));
        }
        Ok(value)
    }

    fn too_large(&self, field: &'static str, value: u32, max: u32) -> LimitError {
        self.refuse(field, format!("is {value}"), &format!("use at most {max}"))
    }

    /// A span that must be neither zero nor absurd; absent is zero.
    fn span(&self, field: &'static str, span: Option<Duration>) -> Result<u64, LimitError> {
        match span {
            None => Ok(0),
            Some(span) if span.is_zero() => Err(self.refuse(field, "is zero", "use at least a nanosecond")),
            Some(span) if span > Limit::MAX_PERIOD => {
                Err(self.refuse(field, format!("is {span:?}"), "use at most 366 days"))
            }
            Some(span) => Ok(nanos(span)),
        }
    }

    fn period(&self) -> Result<u64, LimitError> {
        self.span("period", Some(self.builder.period))
    }

    fn pace(&self) -> Result<Rate, LimitError> {
        let period = self.period()?;
        let count = u64::from(self.builder.count);
        if count > period {
            let problem = format!("is {count} in {period} ns, more than one per nanosecond");
            return Err(self.refuse("count", problem, "count in larger units, or use a longer period"));
        }
        Ok(Rate::new(count, period))
    }

    fn burst(&self) -> Result<u32, LimitError> {
        let burst = self.builder.burst.unwrap_or(self.builder.count);
        self.fits_fill("burst", self.number("burst", burst, Limit::MAX_COUNT)?)
    }

    /// A capacity must fill up within a time that instants can express.
    fn fits_fill(&self, field: &'static str, capacity: u32) -> Result<u32, LimitError> {
        let fill = u128::from(capacity) * u128::from(self.period()?) / u128::from(self.builder.count);
        if fill > Limit::MAX_FILL.as_nanos() {
            let years = fill / (366 * 24 * 60 * 60 * 1_000_000_000);
            let problem = format!("of {capacity} would take {years} years to fill at this rate");
            return Err(self.refuse(field, problem, "use at most 30 years' worth"));
        }
        Ok(capacity)
    }
}
