//! A server, and the time-to-live of its keys.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Charge, Limit, Request, Time, Verdict};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::{Redis, Reply};

use crate::NOW;

const MILLI: Duration = Duration::from_millis(1);

pub(crate) struct Fixture {
    pub(crate) redis: Redis,
    pub(crate) store: RedisStore,
}

impl Fixture {
    pub(crate) async fn start(with: impl FnOnce(Config) -> Config) -> Self {
        let redis = Redis::start(&[]).await;
        // Long, because the machine may be busy.
        let config = Config::new(redis.url()).call_timeout(Duration::from_secs(30));
        let store = with(config).connect().await.expect("a valid configuration");
        Self { redis, store }
    }

    pub(crate) async fn with_margin(margin: Duration) -> Self {
        Self::start(|config| config.expiry_margin(margin)).await
    }

    pub(crate) async fn decide(&self, charge: Charge<'_>) -> Verdict {
        let charges = [charge];
        let verdict = self.store.decide(Request::new(&charges), NOW).await;
        verdict.unwrap_or_else(|error| panic!("{charge:?}: {error}"))
    }

    pub(crate) async fn time(&self) -> Time {
        let time: Vec<u64> = self
            .redis
            .call(&["TIME"])
            .await
            .texts()
            .iter()
            .map(|part| part.parse().expect("a number"))
            .collect();
        Time::from_secs(time[0]) + Duration::from_micros(time[1])
    }

    pub(crate) async fn keys(&self) -> Vec<String> {
        let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let Reply::List(answer) = self.redis.call(&["SCAN", &cursor, "COUNT", "1000"]).await else {
                panic!("SCAN returns a list");
            };
            keys.extend(answer[1].texts());
            cursor = answer[0].text();
            if cursor == "0" {
                keys.sort();
                keys.dedup();
                return keys;
            }
        }
    }

    pub(crate) async fn time_to_live(&self, key: &str) -> TimeToLive {
        let before = self.time().await;
        let Reply::Integer(millis) = self.redis.call(&["PTTL", key]).await else {
            panic!("PTTL returns a number");
        };
        TimeToLive { before, millis, after: self.time().await }
    }
}

/// The time-to-live that the server reports, and the server's time before and after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeToLive {
    pub(crate) before: Time,
    /// -1: the key does not expire; -2: there is no such key.
    pub(crate) millis: i64,
    pub(crate) after: Time,
}

impl TimeToLive {
    pub(crate) fn left(self) -> Option<Duration> {
        assert_ne!(self.millis, -1, "the key does not expire");
        u64::try_from(self.millis).ok().map(Duration::from_millis)
    }

    /// `elapsed` is the duration of the calls that decided. A time-to-live starts at some point during a call: at the
    /// start of the script or at that of the command, depending on the server's version. The server truncates to whole
    /// milliseconds, and a key lives until its last millisecond has passed. So it may live up to two milliseconds too
    /// long: one by rounding up, and one that may start between the script's time and its write.
    pub(crate) fn check(self, fresh_at: Time, margin: Margin, elapsed: Duration, what: &str) {
        let ends = fresh_at + margin.min;
        let Some(left) = self.left() else {
            assert!(self.after + MILLI + elapsed >= ends, "{what} expired before {ends}: {self:?}");
            return;
        };
        self.check_end(left, fresh_at + margin.max, elapsed, what);
        let latest = self.after + left + MILLI;
        assert!(latest + elapsed >= ends, "{what} expires at {latest}, expected {ends}: {self:?}");
    }

    /// A fresh state may be deleted at once, and lives for the margin at most.
    pub(crate) fn check_fresh(self, now: Time, margin: Margin, elapsed: Duration, what: &str) {
        if let Some(left) = self.left() {
            self.check_end(left, now + margin.max, elapsed, what);
        }
    }

    pub(crate) fn check_end(self, left: Duration, ends: Time, elapsed: Duration, what: &str) {
        let earliest = Time::from_nanos(self.before.nanos() / 1_000_000 * 1_000_000) + left;
        assert!(
            earliest <= ends + MILLI * 2 + elapsed,
            "{what} lives until {earliest}, expected {ends}: {self:?}"
        );
    }
}

/// How long a key outlives the moment at which its state is fresh.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margin {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

impl Margin {
    pub(crate) const NONE: Self = Self { min: Duration::ZERO, max: Duration::ZERO };

    /// A flow's time-to-live is set with twice the margin, so that later writes can keep it.
    pub(crate) fn of(limit: &Limit, margin: Duration) -> Self {
        Self { min: margin, max: if limit.kind().is_flow() { margin * 2 } else { margin } }
    }
}

/// Returns the key of a limit's state, of which there is at most one.
pub(crate) async fn key_of(fixture: &Fixture, limit: &Limit) -> Option<String> {
    let name = format!(":{}~", limit.name());
    fixture.keys().await.into_iter().find(|key| key.contains(&name))
}
