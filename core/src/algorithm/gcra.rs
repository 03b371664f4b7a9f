//! GCRA: a theoretical arrival time, an emission interval and a tolerance, and redis-cell's five answers.
//!
//! Decides as a token bucket of the same numbers: the tolerance is the capacity less one, in time.

use core::time::Duration;

use super::flow::{Admission, Flow, flow_algorithm};
use crate::decision::Decision;
use crate::limit::{Limit, LimitBuilder};
use crate::rate::Rate;

/// Theoretical arrival times.
#[derive(Clone, Debug)]
pub(crate) struct Gcra {
    flow: Flow,
}

impl Gcra {
    pub(crate) fn new(pace: Rate, burst: u32) -> Self {
        Self { flow: Flow::new(pace, burst, Admission::Fits) }
    }
}

flow_algorithm!(Gcra);

impl Limit {
    /// The limit that redis-cell's `CL.THROTTLE key max_burst count period` means: its burst is
    /// `max_burst` beyond the first.
    pub fn redis_cell(max_burst: u32, count: u32, period: Duration) -> LimitBuilder {
        Self::per(count, period).gcra().burst(max_burst.saturating_add(1))
    }
}

/// The five integers that redis-cell answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a wire format that will not grow")]
pub struct RedisCellReply {
    /// 0 if allowed, 1 if limited.
    pub limited: i64,
    /// The most that can pass at once.
    pub limit: i64,
    /// How much is left.
    pub remaining: i64,
    /// Seconds until a retry, rounded up; -1 if allowed, or if it can never pass.
    pub retry_after: i64,
    /// Seconds until everything is available again, rounded up.
    pub reset_after: i64,
}

impl From<&Decision> for RedisCellReply {
    fn from(decision: &Decision) -> Self {
        let whole_seconds = |span: Duration| {
            i64::try_from(span.as_secs())
                .unwrap_or(i64::MAX)
                .saturating_add(i64::from(span.subsec_nanos() > 0))
        };
        Self {
            limited: i64::from(decision.is_denied()),
            limit: decision.limit().into(),
            remaining: decision.remaining().into(),
            retry_after: decision.retry_after().map_or(-1, whole_seconds),
            reset_after: whole_seconds(decision.reset_after()),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::RedisCellReply;
    use crate::Limit;
    use crate::worked_example::Example;

    fn reply(decision: &crate::Decision) -> [i64; 5] {
        let RedisCellReply { limited, limit, remaining, retry_after, reset_after } = decision.into();
        [limited, limit, remaining, retry_after, reset_after]
    }

    #[test]
    fn answers_redis_cells_documented_exchange() {
        // CL.THROTTLE user123 15 30 60 1
        let mut user = Example::new(Limit::redis_cell(15, 30, Duration::from_secs(60)));
        assert_eq!(reply(&user.take(1)), [0, 16, 15, -1, 2]);
    }

    #[test]
    fn limits_after_the_burst_and_says_for_how_long() {
        let mut user = Example::new(Limit::redis_cell(2, 30, Duration::from_secs(60)));
        assert_eq!(reply(&user.take(1)), [0, 3, 2, -1, 2]);
        assert_eq!(reply(&user.take(1)), [0, 3, 1, -1, 4]);
        assert_eq!(reply(&user.take(1)), [0, 3, 0, -1, 6]);
        assert_eq!(reply(&user.take(1)), [1, 3, 0, 2, 6]);
        assert_eq!(reply(&user.take(4)), [1, 3, 0, -1, 6], "more than fits ever");
        user.advance(Duration::from_millis(1_999));
        assert_eq!(reply(&user.take(1)), [1, 3, 0, 1, 5], "never 0 seconds on a denial");
        user.advance(Duration::from_millis(1));
        assert_eq!(reply(&user.take(1))[0], 0);
    }
}
