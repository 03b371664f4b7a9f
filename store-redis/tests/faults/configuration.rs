//! Invalid URLs and options, and what errors and `Debug` output reveal.

use tollgate_core::{Effect, ErrorKind, Limiter};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::Redis;

use crate::assertions::{KEY, PASSWORD, assert_error, daily, in_time};

const REFUSED: (ErrorKind, Effect) = (ErrorKind::Refused, Effect::None);
/// The end of every error about a URL.
const FORMS: &str =
    "use redis://host, rediss://host, redis+sentinel://host,…/name, redis+cluster://host,… or";

#[tokio::test]
async fn an_invalid_url_is_refused_with_advice() {
    for (url, message) in [
        ("", "has no scheme"),
        ("foo", "has no scheme"),
        ("127.0.0.1:6379", "has no scheme"),
        ("http://x", "has an unknown scheme"),
        ("redis+ring://x", "has an unknown scheme"),
        ("redis://", "has no host"),
        ("redis:///3", "has no host"),
        ("redis://:@", "has no host"),
        ("redis+cluster://,,", "has no host"),
        ("redis+shards://a,b|", "has an empty host"),
        ("redis://a,b", "its scheme is for a single server"),
        ("redis+sentinel://h", "lacks the name of the primary"),
        ("redis+sentinel://h/", "lacks the name of the primary"),
        ("redis+sentinel://h//3", "lacks the name of the primary"),
        ("redis+cluster://h/3", "a cluster has only database 0"),
        ("redis://h:99999", "invalid port number"),
        ("redis://h:port", "invalid port number"),
        ("redis+shards://a,b:99999", "invalid port number"),
        ("redis://h/three", "database"),
        ("redis://h/-1", "database"),
        ("redis://h/1/2", "database"),
        ("redis+sentinel://h/name/three", "database"),
        ("redis+shards://a,b/three", "database"),
        ("redis://h h", "cannot be parsed"),
    ] {
        assert_error(in_time(Config::new(url).connect()).await, REFUSED, &[message, FORMS]);
    }
}

#[tokio::test]
async fn no_error_about_a_url_contains_the_password() {
    let invalid = [
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
        // These characters have to be percent-encoded.
        format!("redis://user:{PASSWORD}/@h"),
        format!("redis://user:/{PASSWORD}@h"),
        format!("redis://user:{PASSWORD}?@h"),
        format!("redis://user:{PASSWORD}#@h"),
        format!("redis://user:1/{PASSWORD}@h"),
        format!("redis://{PASSWORD}/1@h"),
    ];
    for url in invalid {
        assert_error(in_time(Config::new(&url).connect()).await, REFUSED, &[]);
        assert!(!format!("{:?}", Config::new(&url)).contains(PASSWORD));
    }
    for separator in ['/', '?', '#'] {
        let url = format!("redis://user:{PASSWORD}{separator}more@h");
        assert_error(in_time(Config::new(&url).connect()).await, REFUSED, &["percent", FORMS]);
    }
}

#[tokio::test]
async fn debug_output_contains_no_password() {
    let redis = Redis::start(&["--requirepass", PASSWORD]).await;
    for scheme in ["redis", "redis+sentinel", "redis+cluster", "redis+shards"] {
        let path = if scheme == "redis+sentinel" { "/name" } else { "" };
        let config = Config::new(format!("{scheme}://:{PASSWORD}@{}{path}", redis.address()));
        assert!(!format!("{config:?} {config:#?}").contains(PASSWORD), "{config:?}");
        let store = in_time(config.connect()).await.expect("a store");
        // By now it has connections, or errors.
        let _ = in_time(Limiter::new(store.clone()).check(&daily(1), KEY)).await;
        assert!(!format!("{store:?} {store:#?}").contains(PASSWORD), "{store:?}");
    }
}

#[tokio::test]
async fn an_invalid_certificate_is_refused() {
    let store = Config::new("rediss://h").root_certificate("no certificate").connect();
    assert_error(in_time(store).await, REFUSED, &["certificate"]);
}

#[tokio::test]
async fn an_unknown_host_is_unavailable() {
    // RFC 2606 reserves this name.
    let limiter = Limiter::new(RedisStore::connect("redis://redis.invalid").await.expect("a store"));
    let error = in_time(limiter.check(&daily(1), KEY)).await.expect_err("no server");
    // A name lookup over the network may time out.
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error}");
    assert_eq!(error.effect(), Effect::None);
}
