//! What tests expect: an error of a kind, a condition that comes true, an end.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use tollgate_core::{Decision, Effect, ErrorKind, Limit, Limiter, StoreError};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

/// Whom most tests count for. No message names it.
pub(crate) const KEY: &str = "somebody-in-particular";
/// No message names it either.
pub(crate) const PASSWORD: &str = "open-sesame";

/// Far longer than anything takes: it only keeps a test that hangs from going on for ever.
const AGES: Duration = Duration::from_secs(60);

/// A limit that refills so slowly that nothing comes back during a test.
pub(crate) fn daily(count: u32) -> Limit {
    Limit::per_day(count).build("daily").expect("valid")
}

/// A limiter on a server that must be there.
pub(crate) async fn limiter(redis: &Redis) -> Limiter<RedisStore> {
    Limiter::new(Config::new(redis.url()).must_be_there().connect().await.expect("a server that is there"))
}

/// What a call gave, which must not hang.
pub(crate) async fn in_time<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(AGES, call).await.expect("a call that ends")
}

/// Asks until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is_so().await {
            pause().await;
        }
    };
    assert!(tokio::time::timeout(AGES, asking).await.is_ok(), "waited in vain: {what}");
}

#[expect(clippy::disallowed_methods, reason = "between two looks at a real server")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// An error of this kind and effect that says these things, and no secrets.
#[track_caller]
pub(crate) fn assert_error<T: Debug>(
    outcome: Result<T, StoreError>,
    (kind, effect): (ErrorKind, Effect),
    says: &[&str],
) {
    let error = outcome.expect_err("an error");
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error}");
    let passing = matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Full);
    assert_eq!(error.is_retryable(), passing, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
    assert_discreet(&error);
}

/// Neither the error nor what caused it names a key or a password.
#[track_caller]
pub(crate) fn assert_discreet(error: &StoreError) {
    let mut told = vec![format!("{error} {error:?}")];
    let mut cause = error.source();
    while let Some(source) = cause {
        told.push(format!("{source} {source:?}"));
        cause = source.source();
    }
    for secret in [KEY, PASSWORD] {
        assert!(!told.iter().any(|text| text.contains(secret)), "{secret:?} is in: {told:?}");
    }
}

/// How much of the limit is used, by what the server has.
pub(crate) async fn used(limiter: &Limiter<RedisStore>, limit: &Limit) -> u32 {
    let decision = in_time(limiter.peek(limit, KEY)).await.expect("a server that answers");
    spent(&decision)
}

/// How much of the limit is used, by a decision.
pub(crate) fn spent(decision: &Decision) -> u32 {
    decision.limit() - decision.remaining()
}

/// A limit of every algorithm, each of five.
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
