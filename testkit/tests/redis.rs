//! Redis servers that tests start: they respond, end, restart, freeze and fail over as documented.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::Command;

use tollgate_testkit::{Redis, RedisCluster, RedisSentinel, redis_url};

#[tokio::test]
async fn a_server_uses_its_arguments() {
    let redis = Redis::start(&["--requirepass", "secret", "--maxmemory", "16mb"]).await;
    assert!(redis.try_call(&["GET", "a"]).await.unwrap().text().starts_with("NOAUTH"));
    let maxmemory = redis.try_calls(&[&["AUTH", "secret"], &["CONFIG", "GET", "maxmemory"]]).await.unwrap();
    assert_eq!(maxmemory.texts(), ["maxmemory", "16777216"]);
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
}

#[tokio::test]
#[should_panic(expected = "Bad directive")]
async fn a_server_that_does_not_start_reports_why() {
    Redis::start(&["--no-such-option", "1"]).await;
}

#[tokio::test]
async fn a_killed_server_restarts_empty_on_the_same_port() {
    let mut redis = Redis::start(&[]).await;
    let address = redis.address();
    redis.call(&["SET", "a", "1"]).await;
    assert_eq!(redis.call(&["GET", "a"]).await.text(), "1");

    redis.kill().await;
    assert!(!redis.is_running());
    assert_eq!(redis.try_call(&["PING"]).await.unwrap_err().kind(), ErrorKind::ConnectionRefused);

    redis.start_again().await;
    assert_eq!(redis.address(), address);
    assert_eq!(redis.call(&["DBSIZE"]).await.text(), "0");
}

#[tokio::test]
async fn a_frozen_server_keeps_its_data_and_does_not_respond() {
    let redis = Redis::start(&[]).await;
    redis.call(&["SET", "a", "1"]).await;
    redis.freeze().await;
    assert_eq!(redis.try_call(&["GET", "a"]).await.unwrap_err().kind(), ErrorKind::TimedOut);
    redis.thaw().await;
    assert_eq!(redis.call(&["GET", "a"]).await.text(), "1");
}

#[tokio::test]
async fn a_dropped_server_ends() {
    let redis = Redis::start(&[]).await;
    let address = redis.address();
    // The hardest state to end it in.
    redis.freeze().await;
    drop(redis);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_server_ends_without_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let redis = runtime.block_on(Redis::start(&[]));
    drop(runtime);
    let address = redis.address();
    assert!(TcpStream::connect(&address).is_ok());
    drop(redis);
    assert!(TcpStream::connect(&address).is_err());
}

#[tokio::test]
async fn a_server_has_access_to_its_files() {
    let files = tempfile::tempdir().unwrap();
    let users = files.path().join("users.acl");
    std::fs::write(&users, "user default off\nuser guest on >secret ~* +@all\n").unwrap();
    let redis = Redis::start_with_files(files.path(), &["--aclfile", users.to_str().unwrap()]).await;
    let who = redis.try_calls(&[&["AUTH", "guest", "secret"], &["ACL", "WHOAMI"]]).await.unwrap();
    assert_eq!(who.text(), "guest");
}

#[tokio::test]
async fn the_suites_server_is_shared() {
    // Printed for the next test, which runs this one in a process of its own.
    let url = redis_url().await;
    println!("url={url}");
    // From another task, as a suite opens its store.
    assert_eq!(url, tokio::spawn(redis_url()).await.unwrap());
    if std::env::var("TOLLGATE_TEST_REDIS").is_err() {
        assert!(TcpStream::connect(url.strip_prefix("redis://").unwrap()).is_ok());
    }
}

#[test]
fn servers_end_with_their_process() {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_suites_server_is_shared", "--nocapture"])
        .env_remove("TOLLGATE_TEST_REDIS")
        .output()
        .unwrap();
    let output = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{output}");
    let address = output.lines().find_map(|line| line.split_once("url=redis://")).expect(&output).1;
    until_closed(address);
}

#[tokio::test]
async fn a_cluster_fails_over_and_a_server_rejoins() {
    let mut cluster = RedisCluster::start().await;
    let slot = 42;
    assert_eq!(cluster.primary_of_slot(slot).await, 0);
    assert_eq!(cluster.fail_over(slot).await, 0);
    assert_eq!(cluster.primary_of_slot(slot).await, 3);
    cluster.start_again(0).await;
    let role = cluster.servers()[0].call(&["INFO", "replication"]).await.field("role");
    assert_eq!(role.as_deref(), Some("slave"));
    assert_eq!(cluster.urls().len(), 6);
}

#[tokio::test]
async fn a_migrating_slot_replies_ask_and_then_moved() {
    let cluster = RedisCluster::start().await;
    let key = "a";
    let slot = cluster.servers()[0].call(&["CLUSTER", "KEYSLOT", key]).await.text().parse().unwrap();
    let from = cluster.primary_of_slot(slot).await;
    let to = (from + 1) % 3;
    let source = &cluster.servers()[from];
    source.call(&["SET", key, "1"]).await;

    let migration = cluster.migrate(slot, to).await;
    assert_eq!(source.call(&["GET", key]).await.text(), "1");
    migration.move_keys().await;
    let target = migration.target();
    let ask = format!("ASK {slot} {}", target.address());
    assert_eq!(source.try_call(&["GET", key]).await.unwrap().text(), ask);
    assert_eq!(target.try_calls(&[&["ASKING"], &["GET", key]]).await.unwrap().text(), "1");

    migration.finish().await;
    let moved = format!("MOVED {slot} {}", target.address());
    assert_eq!(source.try_call(&["GET", key]).await.unwrap().text(), moved);
    assert_eq!(target.call(&["GET", key]).await.text(), "1");
    assert_eq!(cluster.primary_of_slot(slot).await, to);
}

#[tokio::test]
async fn sentinels_fail_over_and_a_server_rejoins() {
    let mut sentinel = RedisSentinel::start().await;
    let killed = sentinel.primary().await.address();
    sentinel.primary().await.call(&["SET", "a", "1"]).await;
    assert_eq!(sentinel.sentinels().len(), 3);

    sentinel.fail_over().await;
    let primary = sentinel.primary().await;
    assert_ne!(primary.address(), killed);
    primary.call(&["SET", "b", "2"]).await;

    sentinel.start_again().await;
    let replica = sentinel.servers().iter().find(|server| server.address() == killed).unwrap();
    assert_eq!(replica.call(&["GET", "b"]).await.text(), "2");

    sentinel.fail_over().await;
    assert_eq!(sentinel.primary().await.address(), killed);
}

/// Waits until no server listens: it ends in the background.
#[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
fn until_closed(address: &str) {
    for _ in 0..500 {
        if TcpStream::connect(address).is_err() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("a server still listens on {address}");
}
