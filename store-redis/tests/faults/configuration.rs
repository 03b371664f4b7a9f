//! URLs and settings that make no sense, and what is shown of those that do.

use tollgate_core::{Effect, ErrorKind, Limiter};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::expect::{KEY, PASSWORD, assert_error, daily, in_time};

const REFUSED: (ErrorKind, Effect) = (ErrorKind::Refused, Effect::None);
/// What every complaint about a URL ends with.
const FORMS: &str =
    "use redis://host, rediss://host, redis+sentinel://host,…/name, redis+cluster://host,… or";

#[tokio::test]
async fn a_url_that_makes_no_sense_is_refused_with_advice() {
    for (url, says) in [
        ("", "has no scheme"),
        ("foo", "has no scheme"),
        ("127.0.0.1:6379", "has no scheme"),
        ("http://x", "has a scheme that is not one of redis"),
        ("redis+ring://x", "has a scheme that is not one of redis"),
        ("redis://", "names no host"),
        ("redis:///3", "names no host"),
        ("redis://:@", "names no host"),
        ("redis+cluster://,,", "names no host"),
        ("redis+shards://a,b|", "names no host"),
        ("redis://a,b", "does not say whether they are a cluster"),
        ("redis+sentinel://h", "does not name the primary"),
        ("redis+sentinel://h/", "does not name the primary"),
        ("redis+sentinel://h//3", "does not name the primary"),
        ("redis+cluster://h/3", "a cluster has only database 0"),
        ("redis://h:99999", "invalid port number"),
        ("redis://h:port", "invalid port number"),
        ("redis+shards://a,b:99999", "invalid port number"),
        ("redis://h/three", "database"),
        ("redis://h/-1", "database"),
        ("redis://h/1/2", "database"),
        ("redis+sentinel://h/name/three", "database"),
        ("redis+shards://a,b/three", "database"),
        ("redis://h h", "cannot be read"),
    ] {
        assert_error(in_time(Config::new(url).connect()).await, REFUSED, &[says, FORMS]);
    }
}

#[tokio::test]
async fn no_complaint_about_a_url_tells_the_password() {
    let bad = [
        format!("http://user:{PASSWORD}@h"),
        format!("redis://user:{PASSWORD}@"),
        format!("redis://user:{PASSWORD}@a,b"),
        format!("redis://user:{PASSWORD}@h:99999"),
        format!("redis://user:{PASSWORD}@h/three"),
        format!("redis://user:{PASSWORD}@h h"),
        format!("redis+sentinel://user:{PASSWORD}@h"),
        format!("redis+cluster://user:{PASSWORD}@h/3"),
        format!("rediss://user:{PASSWORD}@h/three"),
        format!("redis://user:{PASSWORD}%@h/three"),
        // These have to be encoded.
        format!("redis://user:{PASSWORD}/@h"),
        format!("redis://user:/{PASSWORD}@h"),
        format!("redis://user:{PASSWORD}?@h"),
        format!("redis://user:{PASSWORD}#@h"),
        format!("redis://user:1/{PASSWORD}@h"),
        format!("redis://{PASSWORD}/1@h"),
    ];
    for url in bad {
        assert_error(in_time(Config::new(&url).connect()).await, REFUSED, &[]);
        assert!(!format!("{:?}", Config::new(&url)).contains(PASSWORD));
    }
    for separator in ['/', '?', '#'] {
        let url = format!("redis://user:{PASSWORD}{separator}more@h");
        assert_error(in_time(Config::new(&url).connect()).await, REFUSED, &["percent", FORMS]);
    }
}

#[tokio::test]
async fn what_is_shown_of_a_store_tells_no_password() {
    let redis = Redis::start(&["--requirepass", PASSWORD]).await;
    for scheme in ["redis", "redis+sentinel", "redis+cluster", "redis+shards"] {
        let path = if scheme == "redis+sentinel" { "/name" } else { "" };
        let config = Config::new(format!("{scheme}://:{PASSWORD}@{}{path}", redis.address()));
        assert!(!format!("{config:?} {config:#?}").contains(PASSWORD), "{config:?}");
        let store = in_time(config.connect()).await.expect("a store");
        // It has connections by now, or errors.
        let _ = in_time(Limiter::new(store.clone()).check(&daily(1), KEY)).await;
        assert!(!format!("{store:?} {store:#?}").contains(PASSWORD), "{store:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_none_is_refused() {
    let store = Config::new("rediss://h").root_certificate("no certificate").connect();
    assert_error(in_time(store).await, REFUSED, &["certificate"]);
}

#[tokio::test]
async fn a_host_that_nobody_knows_is_unavailable() {
    // No such name exists, by RFC 2606.
    let limiter = Limiter::new(RedisStore::connect("redis://redis.invalid").await.expect("a store"));
    let error = in_time(limiter.check(&daily(1), KEY)).await.expect_err("no server");
    // Where names are asked for across a network, that may take too long.
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error}");
    assert_eq!(error.effect(), Effect::None);
}
