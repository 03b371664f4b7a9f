//! Servers that restart or fail over while documents are read and changed.

use std::time::Duration;

use tollgate_core::documents::DocumentStore;
use tollgate_core::{Effect, ErrorKind};
use tollgate_store_redis::Config;
use tollgate_testkit::{Redis, RedisCluster, RedisSentinel, eventually, in_time};

use crate::{NAME, by, connect, current, put, store_error, versions};

#[tokio::test]
async fn a_server_with_a_persistent_log_keeps_every_acknowledged_version() {
    const STARTS: usize = 3;
    let files = tempfile::tempdir().expect("a directory");
    let directory = files.path().to_str().expect("a path").to_owned();
    let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--dir", &directory];
    let mut redis = Redis::start_with_files(files.path(), &arguments).await;
    let documents = Config::new(redis.url())
        .reconnect_backoff(Duration::ZERO, Duration::ZERO)
        .document_history(1_000)
        .connect_documents()
        .await
        .expect("a store");
    let mut acknowledged = 0;
    for start in 1..=STARTS {
        let writer = {
            let documents = documents.clone();
            tokio::spawn(async move {
                let mut version = acknowledged;
                loop {
                    let expected = (version > 0).then_some(version);
                    let text = format!("version {}", version + 1).repeat(1_000);
                    match in_time(documents.put(NAME, &text, expected, &by("ann"))).await {
                        Ok(revision) => version = revision.version,
                        Err(_) => return version,
                    }
                }
            })
        };
        let enough = acknowledged + 20;
        eventually("some versions", async || {
            current(&documents, NAME).await.filter(|(version, _)| *version >= enough)
        })
        .await;
        redis.kill().await;
        acknowledged = in_time(writer).await.expect("no panic");
        redis.start_again().await;
        let document = eventually("an answer", async || documents.get(NAME).await.ok().flatten()).await;
        let (version, text) = (document.revision.version, document.text);
        // One change may have been made without an answer.
        assert!(
            version == acknowledged || version == acknowledged + 1,
            "version {version} after version {acknowledged} was acknowledged and start {start}"
        );
        assert_eq!(text, format!("version {version}").repeat(1_000));
        assert_eq!(versions(&documents, NAME).await, (1..=version).rev().collect::<Vec<_>>());
        assert_eq!(documents.list("").await.expect("a list"), [(NAME.to_owned(), version)]);
        acknowledged = version;
    }
    assert!(acknowledged >= 60, "{acknowledged}");
}

#[tokio::test]
async fn calls_fail_while_a_server_is_down_and_succeed_later() {
    let mut redis = Redis::start(&[]).await;
    let config = Config::new(redis.url()).reconnect_backoff(Duration::ZERO, Duration::ZERO);
    let documents = config.clone().connect_documents().await.expect("a store");
    put(&documents, NAME, "text", None).await;
    redis.kill().await;
    let _ = documents.get(NAME).await;
    let errors = [
        store_error(in_time(documents.get(NAME)).await),
        store_error(in_time(documents.get_if_changed(NAME, Some(1))).await),
        store_error(in_time(documents.put(NAME, "other", Some(1), &by("ann"))).await),
        store_error(in_time(documents.delete(NAME, 1, &by("ann"))).await),
        store_error(in_time(documents.list("")).await),
        store_error(in_time(documents.history(NAME)).await),
        store_error(in_time(documents.get_version(NAME, 1)).await),
        in_time(documents.ping()).await.expect_err("no server"),
        in_time(config.require_reachable().connect_documents()).await.expect_err("no server"),
    ];
    for error in errors {
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None), "{error}");
        assert!(error.to_string().contains("cannot be reached"), "{error}");
    }
    redis.start_again().await;
    // It has no persistence, so the documents are gone.
    let found = eventually("an answer", async || documents.get(NAME).await.ok()).await;
    assert_eq!(found, None);
    documents.ping().await.expect("it is up");
    assert_eq!(put(&documents, NAME, "again", None).await.version, 1);
}

#[tokio::test]
async fn a_promoted_replica_behind_sentinel_continues_the_versions() {
    let mut servers = RedisSentinel::start().await;
    let sentinels: Vec<_> = servers.sentinels().iter().map(Redis::address).collect();
    let documents =
        connect(&format!("redis+sentinel://{}/{}", sentinels.join(","), RedisSentinel::NAME)).await;
    put(&documents, NAME, "first", None).await;
    put(&documents, NAME, "second", Some(1)).await;
    let key = crate::placement::key(NAME);
    for server in servers.servers() {
        let latest = async || server.call(&["HGET", &key, "latest"]).await.text();
        eventually("the second version", async || (latest().await == "2").then_some(())).await;
    }
    servers.fail_over().await;
    let revision =
        eventually("the new primary", async || documents.put(NAME, "third", Some(2), &by("ann")).await.ok())
            .await;
    assert_eq!(revision.version, 3);
    assert_eq!(versions(&documents, NAME).await, [3, 2, 1]);
    assert_eq!(documents.list("").await.expect("a list"), [(NAME.to_owned(), 3)]);
    assert_eq!(documents.stats().failovers, 1);
}

#[tokio::test]
async fn a_promoted_replica_of_a_cluster_continues_the_versions() {
    let mut cluster = RedisCluster::start().await;
    let addresses: Vec<_> = cluster.servers().iter().map(Redis::address).collect();
    let documents = connect(&format!("redis+cluster://{}", addresses.join(","))).await;
    put(&documents, NAME, "first", None).await;
    let slot = crate::placement::slot();
    let key = crate::placement::key(NAME);
    eventually("the document on the replica", async || {
        let mut copies = 0;
        for server in cluster.servers() {
            copies += usize::from(server.call(&["KEYS", "*"]).await.texts().contains(&key));
        }
        (copies == 2).then_some(())
    })
    .await;
    cluster.fail_over(slot).await;
    let revision =
        eventually("the new primary", async || documents.put(NAME, "second", Some(1), &by("ann")).await.ok())
            .await;
    assert_eq!(revision.version, 2);
    assert_eq!(versions(&documents, NAME).await, [2, 1]);
}
