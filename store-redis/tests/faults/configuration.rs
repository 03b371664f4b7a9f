//! Invalid URLs and options, and what errors and `Debug` output reveal.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
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
        ("redis://:@", "has a user without a password"),
        ("redis://@h", "has a user without a password"),
        ("redis://user@h", "write user:password@, or :password@ for the default user"),
        ("redis://user:@h", "has a user without a password"),
        ("redis+cluster://user@h", "has a user without a password"),
        ("redis+shards://a,user:word@b", "once, before the first host"),
        ("redis://h?tls=true", "TLS is the scheme rediss://"),
        ("redis://h/0?protocol=resp2", "has a parameter"),
        ("redis://h/?", "has a parameter"),
        ("redis+sentinel://h/name?db=1", "has a parameter"),
        ("redis+cluster://h?replicas=1", "has a parameter"),
        ("redis+shards://a,b/0?x", "has a parameter"),
        ("rediss://h#insecure", "has a parameter or a fragment"),
        ("redis://h/0#x", "has a parameter or a fragment"),
        ("redis+unix://h/path", "redis+unix:///path"),
        ("redis+unix:///", "redis+unix:///path"),
        ("redis+unix:///path#x", "redis+unix:///path"),
        ("redis+unix:///path?tls=true", "db, user and pass"),
        ("redis+unix:///path?db=x", "not a database number"),
        ("redis+unix:///path?db=1&db=2", "occurs twice"),
        ("redis+unix:///path?user=me", "has a user without a password"),
        ("rediss+unix:///path", "has TLS on a Unix socket"),
        ("redis+cluster://,,", "has no host"),
        ("redis+shards://a,b|", "has an empty host"),
        ("redis+shards://a,,b", "has an empty host in its list"),
        ("redis+cluster://a,", "has an empty host in its list"),
        ("redis+sentinel://,a/name", "has an empty host in its list"),
        ("redis://h:0", "port 0"),
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
        // A user that was meant as a password.
        format!("redis://{PASSWORD}@h"),
        format!("redis+cluster://{PASSWORD}@a,b"),
        format!("redis+shards://a,user:{PASSWORD}@b"),
        format!("redis://h?password={PASSWORD}"),
        format!("redis://h#{PASSWORD}"),
        format!("redis+unix:///path?password={PASSWORD}"),
        format!("redis+unix:///path?user={PASSWORD}"),
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
async fn the_case_of_the_scheme_does_not_matter() {
    let redis = Redis::start(&[]).await;
    for scheme in ["REDIS", "Redis", "Redis+Shards"] {
        let config = Config::new(format!("{scheme}://{}", redis.address())).require_reachable();
        in_time(config.connect()).await.expect("a reachable server");
    }
}

#[tokio::test]
async fn an_option_that_cannot_work_is_refused_with_advice() {
    let config = || Config::new(format!("redis://user:{PASSWORD}@h"));
    let second = Duration::from_secs(1);
    for (config, message) in [
        (config().connections(0), "Config::connections must be from 1 to 1,000"),
        (config().connections(1_001), "Config::connections must be from 1 to 1,000"),
        (config().connections(usize::MAX), "Config::connections must be from 1 to 1,000"),
        (config().connect_timeout(Duration::ZERO), "Config::connect_timeout must not be zero"),
        (config().call_timeout(Duration::ZERO), "Config::call_timeout must not be zero"),
        (config().reconnect_backoff(2 * second, second), "the second argument is the longest"),
        (config().idempotency_retention(Duration::ZERO), "Config::idempotency_retention must not be zero"),
        (config().prefix("tollgate:shop"), "use `-` or `.` instead"),
        (config().sentinel_login(Some("user"), ""), "Config::sentinel_login must have a password"),
    ] {
        assert_error(in_time(config.connect()).await, REFUSED, &[message]);
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
    let expected = match error.kind() {
        ErrorKind::Unavailable => "has a host name that cannot be resolved; check the host",
        _ => "timed out",
    };
    assert!(error.to_string().contains(expected), "{error}");
}

/// Returns the address of a server that sends this to every client, and does not read what they send.
async fn speaking(greeting: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        let mut clients = Vec::new();
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.write_all(greeting).await;
            clients.push(client);
        }
    });
    address
}

#[tokio::test]
async fn a_server_of_another_protocol_is_named_as_such() {
    // The last is an alert of TLS.
    for greeting in
        ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x15\x03\x01\x00\x02\x02\x46"]
    {
        let url = format!("redis://{}", speaking(greeting.as_bytes()).await);
        let store = in_time(Config::new(url).require_reachable().connect()).await;
        let messages = ["does not speak the Redis protocol; check host and port", "use rediss://"];
        assert_error(store, (ErrorKind::Unavailable, Effect::None), &messages);
    }
}
