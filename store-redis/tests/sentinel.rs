//! Real Sentinels: whom they name, when they are silent, and what they protect by a password of their own.

mod patience;
mod spending;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use patience::eventually;
use spending::{config, limit, spent, take};
use tokio::task::JoinSet;
use tollgate_core::{Effect, ErrorKind};
use tollgate_testkit::{Redis, RedisSentinel};

const NAME: &str = RedisSentinel::NAME;

fn addresses(servers: &RedisSentinel) -> String {
    servers.sentinels().iter().map(Redis::address).collect::<Vec<_>>().join(",")
}

/// A port of this machine on which nobody listens.
async fn nobody() -> String {
    let mut gone = Redis::start(&[]).await;
    gone.kill().await;
    gone.address()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_under_load_and_the_old_primary_comes_back() {
    const CALLERS: u32 = 8;
    let mut servers = RedisSentinel::start().await;
    let url = format!("redis+sentinel://{}/{NAME}", addresses(&servers));
    let store = config(&url).must_be_there().connect().await.expect("a primary");
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
                match take(&store, &limit, "anybody").await {
                    Ok(allowed) => drop(passed.fetch_add(allowed.into(), Ordering::Relaxed)),
                    Err(error) => {
                        let typed = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout);
                        assert!(typed, "{error}");
                        let lost = error.effect() == Effect::Unknown;
                        unknown.fetch_add(lost.into(), Ordering::Relaxed);
                        errors += 1;
                        // Nobody asks a server that is down in a closed loop.
                        tokio::task::yield_now().await;
                    }
                }
            }
            errors
        });
    }
    let more = async |count| {
        let from = passed.load(Ordering::Relaxed);
        eventually("calls that pass", async || {
            (passed.load(Ordering::Relaxed) >= from + count).then_some(())
        })
        .await;
    };
    more(100).await;
    servers.fail_over().await;
    more(100).await;
    // As a replica: whoever still sends it writes is told so.
    servers.start_again().await;
    more(100).await;
    let lossy = (passed.load(Ordering::Relaxed), unknown.load(Ordering::Relaxed));
    // The one that took over is demoted without dying, so that it refuses writes.
    servers.sentinels()[0].call(&["SENTINEL", "FAILOVER", NAME]).await;
    let demoted = servers.primary().await.address();
    eventually("another primary", async || (servers.primary().await.address() != demoted).then_some(()))
        .await;
    more(100).await;
    stop.store(true, Ordering::Relaxed);
    let mut errors = 0;
    while let Some(ended) = callers.join_next().await {
        errors += ended.expect("only typed errors");
    }
    assert!(errors > 0, "somebody noticed");
    assert!(lossy.1 <= CALLERS, "at most what was under way: {}", lossy.1);
    let (passed, unknown) = (passed.load(Ordering::Relaxed), unknown.load(Ordering::Relaxed));
    let spent = spent(&store, &limit, "anybody").await;
    // Twice the promoted one may not have heard of what was answered last.
    assert!(passed <= spent + 2 * CALLERS, "{passed} passed, {spent} spent");
    assert!(spent <= passed + unknown, "{passed} passed, {unknown} unknown, {spent} spent");
}

#[tokio::test]
async fn a_demoted_primary_is_left_as_soon_as_it_says_so() {
    let servers = RedisSentinel::start().await;
    let url = format!("redis+sentinel://{}/{NAME}", addresses(&servers));
    let store = config(&url).must_be_there().connect().await.expect("a primary");
    let limit = limit("api", 100);
    assert!(take(&store, &limit, "anybody").await.expect("an answer"));
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
    assert!(take(&store, &limit, "anybody").await.expect("the other one answers the same call"));
    assert_eq!(spent(&store, &limit, "anybody").await, 2);
}

#[tokio::test]
async fn a_wrong_name_and_sentinels_that_are_silent() {
    let servers = RedisSentinel::start().await;
    let (sentinels, limit, dead) = (addresses(&servers), limit("api", 100), nobody().await);

    let wrong = config(&format!("redis+sentinel://{dead},{sentinels}/other")).connect().await.expect("valid");
    let error = take(&wrong, &limit, "anybody").await.expect_err("no such primary");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Refused, Effect::None), "{error}");
    assert!(error.to_string().contains("does not know `other`"), "{error}");

    let alone =
        config(&format!("redis+sentinel://{dead},{}/{NAME}", nobody().await)).connect().await.expect("valid");
    let error = take(&alone, &limit, "anybody").await.expect_err("no sentinel");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
    assert!(error.to_string().contains("no sentinel") && error.is_retryable(), "{error}");

    let url = format!("redis+sentinel://{dead},{sentinels}/{NAME}");
    let store = config(&url).must_be_there().connect().await.expect("the first is dead, the others are not");
    assert!(take(&store, &limit, "anybody").await.expect("an answer"));

    // Two that hang cost a moment, not the deadline.
    for sentinel in &servers.sentinels()[..2] {
        sentinel.freeze().await;
    }
    let url = format!("redis+sentinel://{sentinels}/{NAME}");
    let store = config(&url).must_be_there().connect().await.expect("the third answers");
    assert!(take(&store, &limit, "anybody").await.expect("an answer"));

    // Whoever knows the primary needs no sentinel.
    servers.sentinels()[2].freeze().await;
    assert!(take(&store, &limit, "anybody").await.expect("an answer"));
    let hasty = config(&url).call_timeout(Duration::from_millis(200)).connect().await.expect("valid");
    let error = take(&hasty, &limit, "anybody").await.expect_err("all sentinels hang");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::None), "{error}");
}

#[tokio::test]
async fn sentinels_have_a_login_of_their_own() {
    let servers = RedisSentinel::start().await;
    for server in servers.servers() {
        server.call(&["ACL", "SETUSER", "app", "on", ">server-secret", "~*", "+@all"]).await;
        server.call(&["CONFIG", "SET", "masterauth", "default-secret"]).await;
        server.call(&["ACL", "SETUSER", "default", "resetpass", ">default-secret"]).await;
    }
    for sentinel in servers.sentinels() {
        sentinel.call(&["ACL", "SETUSER", "watch", "on", ">sentinel-secret", "+@all"]).await;
        sentinel.call(&["ACL", "SETUSER", "default", "resetpass", ">watch-secret"]).await;
    }
    let url = format!("redis+sentinel://app:server-secret@{}/{NAME}", addresses(&servers));
    let limit = limit("api", 100);
    for (user, password) in [(Some("watch"), "sentinel-secret"), (None, "watch-secret")] {
        let config = config(&url).sentinel_login(user, password);
        assert!(!format!("{config:?}").contains(password));
        let store = config.must_be_there().connect().await.expect("both logins");
        assert!(take(&store, &limit, "anybody").await.expect("an answer"));
    }

    let none =
        config(&url).must_be_there().connect().await.expect_err("the URL's login is not for sentinels");
    let wrong = config(&url).sentinel_login(None, "server-secret").must_be_there().connect().await;
    let servers_own = config(&url.replace("server-secret", "sentinel-secret"))
        .sentinel_login(Some("watch"), "sentinel-secret")
        .must_be_there()
        .connect()
        .await;
    for error in [none, wrong.expect_err("a wrong login"), servers_own.expect_err("not that of the servers")]
    {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Refused, Effect::None), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
