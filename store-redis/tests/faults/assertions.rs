//! Assertions on errors and conditions, and the limits that tests use.

use std::error::Error;
use std::fmt::Debug;
use std::time::Duration;

use tollgate_core::{Charge, Decision, Effect, ErrorKind, LeaseId, Limit, Limiter, StoreError};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;
pub(crate) use tollgate_testkit::{in_time, until};

/// The key of most tests. No error message contains it.
pub(crate) const KEY: &str = "secret-user";
/// A password. No error message contains it.
pub(crate) const PASSWORD: &str = "open-sesame";

/// Returns a limit that refills so slowly that nothing is refilled during a test.
pub(crate) fn daily(count: u32) -> Limit {
    Limit::per_day(count).build("daily").expect("valid")
}

/// Returns a limiter on a running server.
pub(crate) async fn limiter(redis: &Redis) -> Limiter<RedisStore> {
    Limiter::new(Config::new(redis.url()).require_reachable().connect().await.expect("a reachable server"))
}

/// Asserts an error of this kind and effect, whose message contains these texts and no secrets.
#[track_caller]
pub(crate) fn assert_error<T: Debug>(
    result: Result<T, StoreError>,
    (kind, effect): (ErrorKind, Effect),
    messages: &[&str],
) {
    let error = result.expect_err("an error");
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error}");
    let is_retryable = matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Full);
    assert_eq!(error.is_retryable(), is_retryable, "{error}");
    for part in messages {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
    assert_no_secrets(&error);
}

/// Asserts that neither the error nor its sources contain a key or a password.
#[track_caller]
pub(crate) fn assert_no_secrets(error: &StoreError) {
    let mut texts = vec![format!("{error} {error:?}")];
    let mut cause = error.source();
    while let Some(source) = cause {
        texts.push(format!("{source} {source:?}"));
        cause = source.source();
    }
    for secret in [KEY, PASSWORD] {
        assert!(!texts.iter().any(|text| text.contains(secret)), "{secret:?} is in: {texts:?}");
    }
}

/// Returns the used tokens, by the state on the server.
pub(crate) async fn used(limiter: &Limiter<RedisStore>, limit: &Limit) -> u32 {
    let decision = in_time(limiter.peek(limit, KEY)).await.expect("a decision");
    used_by(&decision)
}

/// Returns the used tokens, by a decision.
pub(crate) fn used_by(decision: &Decision) -> u32 {
    decision.limit() - decision.remaining()
}

/// Returns a take of one unit, of any algorithm: a slot of a concurrency limit needs a lease.
pub(crate) fn take<'a>(limit: &'a Limit, key: &'a str) -> Charge<'a> {
    limit.charge(key).with_lease(LeaseId::unique())
}

/// Returns a limit of every algorithm, each with a count of 5.
pub(crate) fn every_algorithm() -> Vec<Limit> {
    let (five, minute) = (|| Limit::per_hour(5), Duration::from_secs(60));
    let limits = [
        ("token_bucket", five()),
        ("token_bucket_uneven", Limit::per(5, Duration::from_secs(3_601))),
        ("interval_bucket", five().refill_by_interval()),
        ("leaky_meter", five().leaky_bucket()),
        ("leaky_queue", five().queue(4)),
        ("gcra", five().gcra()),
        ("smooth_bursty", five().smooth()),
        ("smooth_warming_up", five().warm_up(minute)),
        ("fixed_window", five().fixed_window()),
        ("sliding_window", five().sliding_window()),
        ("sliding_counter", five().sliding_counter(4)),
        ("sliding_log", five().sliding_log()),
        ("concurrency", Limit::concurrent(5).lease(minute)),
        ("blocking_bucket", five().block_for(minute)),
        ("blocking_window", five().fixed_window().block_for(minute)),
    ];
    limits.into_iter().map(|(name, limit)| limit.build(name).expect("valid")).collect()
}
