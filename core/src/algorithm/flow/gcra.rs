//! GCRA: a theoretical arrival time, an emission interval and a tolerance; and the five integers of a redis-cell reply.
//!
//! It decides as a token bucket with the same parameters: the tolerance is the time of the capacity less one.

use core::time::Duration;

use super::{Admission, Flow};
use crate::algorithm::AlgorithmKind;
use crate::decision::Decision;
use crate::limit::{Limit, LimitBuilder};
use crate::rate::Rate;

impl Flow {
    pub(crate) fn gcra(rate: Rate, burst: u32) -> Self {
        Self::new(AlgorithmKind::Gcra, rate, burst, Admission::Fits)
    }
}

impl Limit {
    /// Creates a GCRA limit with the parameters of redis-cell's `CL.THROTTLE key max_burst count period`: its burst
    /// is `max_burst + 1`.
    pub fn redis_cell(max_burst: u32, count: u32, period: Duration) -> LimitBuilder {
        Self::per(count, period).gcra().burst(max_burst.saturating_add(1))
    }
}

/// The five integers of a redis-cell reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a wire format that will not grow")]
pub struct RedisCellReply {
    /// 0 if allowed, 1 if limited.
    pub limited: i64,
    /// The most that can pass at once.
    pub limit: i64,
    /// The remaining amount.
    pub remaining: i64,
    /// Seconds until a retry can succeed, rounded up; -1 if allowed, or if no retry can succeed.
    pub retry_after: i64,
    /// Seconds until the full capacity is available again, rounded up.
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
    fn returns_the_reply_that_redis_cell_documents() {
        // CL.THROTTLE user123 15 30 60 1
        let mut user = Example::new(Limit::redis_cell(15, 30, Duration::from_secs(60)));
        assert_eq!(reply(&user.take(1)), [0, 16, 15, -1, 2]);
    }

    #[test]
    fn denies_after_the_burst_and_returns_when_to_retry() {
        let mut user = Example::new(Limit::redis_cell(2, 30, Duration::from_secs(60)));
        assert_eq!(reply(&user.take(1)), [0, 3, 2, -1, 2]);
        assert_eq!(reply(&user.take(1)), [0, 3, 1, -1, 4]);
        assert_eq!(reply(&user.take(1)), [0, 3, 0, -1, 6]);
        assert_eq!(reply(&user.take(1)), [1, 3, 0, 2, 6]);
        assert_eq!(reply(&user.take(4)), [1, 3, 0, -1, 6], "more than the capacity");
        user.advance(Duration::from_millis(1_999));
        assert_eq!(reply(&user.take(1)), [1, 3, 0, 1, 5], "never 0 seconds on a denial");
        user.advance(Duration::from_millis(1));
        assert_eq!(reply(&user.take(1))[0], 0);
    }
}
