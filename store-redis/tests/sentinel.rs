//! Sentinel: failovers, sentinels that do not reply, and sentinels with their own login.

mod frozen_clock;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use frozen_clock::{config, limit, take, used};
use tokio::task::JoinSet;
use tollgate_core::{Effect, ErrorKind};
use tollgate_testkit::eventually;
use tollgate_testkit::{Redis, RedisSentinel};

const NAME: &str = RedisSentinel::NAME;

fn addresses(servers: &RedisSentinel) -> String {
    servers.sentinels().iter().map(Redis::address).collect::<Vec<_>>().join(",")
}

/// Returns an address at which no server listens.
async fn unused_address() -> String {
    let mut gone = Redis::start(&[]).await;
    gone.kill().await;
    gone.address()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_under_load_is_followed() {
    const CALLERS: u32 = 8;
    let mut servers = RedisSentinel::start().await;
    let url = format!("redis+sentinel://{}/{NAME}", addresses(&servers));
    let store = config(&url).require_reachable().connect().await.expect("a primary");
    let limit = limit("api", 10_000_000);
    let (passed, unknown, stop) =
        (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (store, limit) = (store.clone(), limit.clone());
        let (passed, unknown, stop) = (Arc::clone(&passed), Arc::clone(&unknown), Arc::clone(&stop));
        callers.spawn(async move {
            let mut errors = 0;
            while !stop.load(Ordering::Relaxed) {
                match take(&store, &limit, "user:1").await {
                    Ok(allowed) => drop(passed.fetch_add(allowed.into(), Ordering::Relaxed)),
                    Err(error) => {
                        let typed = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
                        assert!(typed, "{error}");
                        let lost = error.effect() == Effect::Unknown;
                        unknown.fetch_add(lost.into(), Ordering::Relaxed);
                        errors += 1;
                        // Let the other tasks run: a call to a server that is down fails immediately.
                        tokio::task::yield_now().await;
                    }
                }
            }
            errors
        });
    }
    let wait_for_more = async |count| {
        let from = passed.load(Ordering::Relaxed);
        eventually("calls that pass", async || {
            (passed.load(Ordering::Relaxed) >= from + count).then_some(())
        })
        .await;
    };
    wait_for_more(100).await;
    servers.fail_over().await;
    wait_for_more(100).await;
    // The former primary restarts as a replica, and rejects writes.
    servers.start_again().await;
    wait_for_more(100).await;
    let unknown_before = unknown.load(Ordering::Relaxed);
    // The new primary is demoted without a failure, and rejects writes.
    servers.sentinels()[0].call(&["SENTINEL", "FAILOVER", NAME]).await;
    let demoted = servers.primary().await.address();
    eventually("another primary", async || (servers.primary().await.address() != demoted).then_some(()))
        .await;
    wait_for_more(100).await;
    stop.store(true, Ordering::Relaxed);
    let mut errors = 0;
    while let Some(ended) = callers.join_next().await {
        errors += ended.expect("only typed errors");
    }
    assert!(errors > 0, "no call failed");
    assert!(unknown_before <= CALLERS, "more than one call per caller was in flight: {unknown_before}");
    let (passed, unknown) = (passed.load(Ordering::Relaxed), unknown.load(Ordering::Relaxed));
    let used = used(&store, &limit, "user:1").await;
    // Twice, the promoted replica may lack the last writes.
    assert!(passed <= used + 2 * CALLERS, "{passed} passed, {used} used");
    assert!(used <= passed + unknown, "{passed} passed, {unknown} unknown, {used} used");
}

#[tokio::test]
async fn a_call_that_a_demoted_primary_rejects_is_sent_to_the_new_one() {
    let servers = RedisSentinel::start().await;
    let url = format!("redis+sentinel://{}/{NAME}", addresses(&servers));
    let store = config(&url).require_reachable().connect().await.expect("a primary");
    let limit = limit("api", 100);
    assert!(take(&store, &limit, "user:1").await.expect("a decision"));
    let demoted = servers.primary().await.address();
    servers.sentinels()[0].call(&["SENTINEL", "FAILOVER", NAME]).await;
    eventually("another primary", async || (servers.primary().await.address() != demoted).then_some(()))
        .await;
    let old = servers.servers().iter().find(|server| server.address() == demoted).expect("it still runs");
    eventually("a demoted primary", async || {
        let role = old.call(&["INFO", "replication"]).await.field("role");
        (role.as_deref() == Some("slave")).then_some(())
    })
    .await;
    assert_eq!(store.stats().failovers, 0);
    assert!(take(&store, &limit, "user:1").await.expect("a decision of the new primary"));
    assert_eq!(used(&store, &limit, "user:1").await, 2);
    let stats = store.stats();
    assert_eq!((stats.failovers, stats.failed_calls), (1, 0), "{stats:?}");
    assert!(stats.retries > 0 && stats.topology_queries > 0, "{stats:?}");
}

#[tokio::test]
async fn wrong_names_and_sentinels_that_do_not_reply() {
    let servers = RedisSentinel::start().await;
    let (sentinels, limit, dead) = (addresses(&servers), limit("api", 100), unused_address().await);

    let wrong = config(&format!("redis+sentinel://{dead},{sentinels}/other")).connect().await.expect("valid");
    let error = take(&wrong, &limit, "user:1").await.expect_err("an unknown name");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Refused, Effect::None), "{error}");
    assert!(error.to_string().contains("does not know `other`"), "{error}");

    let alone = config(&format!("redis+sentinel://{dead},{}/{NAME}", unused_address().await))
        .connect()
        .await
        .expect("valid");
    let error = take(&alone, &limit, "user:1").await.expect_err("no sentinel");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    assert!(error.to_string().contains("no sentinel") && error.is_retryable(), "{error}");

    let url = format!("redis+sentinel://{dead},{sentinels}/{NAME}");
    let store = config(&url).require_reachable().connect().await.expect("a reachable sentinel");
    assert!(take(&store, &limit, "user:1").await.expect("a decision"));

    // Two sentinels that hang delay the discovery a little, but not until the deadline.
    for sentinel in &servers.sentinels()[..2] {
        sentinel.freeze().await;
    }
    let url = format!("redis+sentinel://{sentinels}/{NAME}");
    let store = config(&url).require_reachable().connect().await.expect("the third sentinel replies");
    assert!(take(&store, &limit, "user:1").await.expect("a decision"));

    // A store that knows the primary needs no sentinel.
    servers.sentinels()[2].freeze().await;
    assert!(take(&store, &limit, "user:1").await.expect("a decision"));
    let impatient = config(&url).call_timeout(Duration::from_millis(200)).connect().await.expect("valid");
    let error = take(&impatient, &limit, "user:1").await.expect_err("all sentinels hang");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None), "{error}");
}

#[tokio::test]
async fn sentinels_have_their_own_login() {
    let servers = RedisSentinel::start().await;
    for server in servers.servers() {
        server.call(&["ACL", "SETUSER", "app", "on", ">server-secret", "~*", "+@all"]).await;
        server.call(&["CONFIG", "SET", "masterauth", "default-secret"]).await;
        server.call(&["ACL", "SETUSER", "default", "resetpass", ">default-secret"]).await;
    }
    for sentinel in servers.sentinels() {
        sentinel.call(&["ACL", "SETUSER", "monitor", "on", ">sentinel-secret", "+@all"]).await;
        sentinel.call(&["ACL", "SETUSER", "default", "resetpass", ">monitor-secret"]).await;
    }
    let url = format!("redis+sentinel://app:server-secret@{}/{NAME}", addresses(&servers));
    let limit = limit("api", 100);
    for (user, password) in [(Some("monitor"), "sentinel-secret"), (None, "monitor-secret")] {
        let config = config(&url).sentinel_login(user, password);
        assert!(!format!("{config:?}").contains(password));
        let store = config.require_reachable().connect().await.expect("valid logins");
        assert!(take(&store, &limit, "user:1").await.expect("a decision"));
    }

    let missing = config(&url)
        .require_reachable()
        .connect()
        .await
        .expect_err("the URL's login is not used for sentinels");
    let wrong = config(&url).sentinel_login(None, "server-secret").require_reachable().connect().await;
    let swapped = config(&url.replace("server-secret", "sentinel-secret"))
        .sentinel_login(Some("monitor"), "sentinel-secret")
        .require_reachable()
        .connect()
        .await;
    let wrong = wrong.expect_err("a wrong login");
    assert!(
        missing.to_string().contains("requires a password; set it with Config::sentinel_login"),
        "{missing}"
    );
    assert!(wrong.to_string().contains("check user and password of Config::sentinel_login"), "{wrong}");
    for error in [missing, wrong, swapped.expect_err("the login of a sentinel")] {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Refused, Effect::None), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn the_longest_timeouts_are_valid() {
    let servers = RedisSentinel::start().await;
    let url = format!("redis+sentinel://{}/{NAME}", addresses(&servers));
    let config = config(&url).connect_timeout(Duration::MAX).call_timeout(Duration::MAX);
    let store = config.require_reachable().connect().await.expect("a primary");
    assert!(take(&store, &limit("api", 100), "user:1").await.expect("a decision"));
}
