//! Where documents live: their keys, one slot of a cluster, and the first of several shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tollgate_core::documents::DocumentStore;
use tollgate_core::{Limit, Limiter};
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit::{Redis, RedisCluster, eventually};

use crate::{NAME, by, connect, current, put, versions};

/// The key of the names.
pub(crate) const NAMES: &str = "tollgate:{documents}/names";

/// Returns the key of a document.
pub(crate) fn key(name: &str) -> String {
    format!("tollgate:{{documents}}/d/{name}")
}

/// Returns the slot of all documents.
pub(crate) fn slot() -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(b"documents") % 16_384
}

#[tokio::test]
async fn prefixes_and_limits_share_no_keys_with_documents() {
    let redis = Redis::start(&[]).await;
    let documents = connect(&redis.url()).await;
    let other = Config::new(redis.url()).prefix("other").connect_documents().await.expect("a store");
    put(&documents, NAME, "text", None).await;
    assert_eq!(current(&other, NAME).await, None);
    assert_eq!(put(&other, NAME, "other text", None).await.version, 1);
    let limiter = Limiter::new(RedisStore::connect(&redis.url()).await.expect("a store"));
    let limit = Limit::per_hour(5).build("names").expect("valid");
    for entity in ["documents", "{documents}", "documents}/d/rules"] {
        assert!(limiter.check(&limit, entity).await.expect("a decision").is_allowed());
    }
    assert_eq!(current(&documents, NAME).await, Some((1, "text".to_owned())));
    assert_eq!(documents.list("").await.expect("a list"), [(NAME.to_owned(), 1)]);
    let mut keys = redis.call(&["KEYS", "*/*"]).await.texts();
    keys.retain(|key| !key.ends_with("~1"));
    keys.sort();
    let expected = ["other:{documents}/d/rules/shop", "other:{documents}/names", &key(NAME), NAMES];
    assert_eq!(keys, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_version_is_lost_while_the_slot_migrates() {
    let cluster = RedisCluster::start().await;
    let url = format!("redis+cluster://{}", cluster.servers()[0].address());
    // Changes have two keys, so they wait until both have migrated.
    let config = Config::new(url).call_timeout(Duration::from_secs(30)).document_history(1_000);
    let documents = config.connect_documents().await.expect("a store");
    put(&documents, "warm", "", None).await;
    let (made, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = {
        let (documents, made, stop) = (documents.clone(), Arc::clone(&made), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut expected = None;
            while !stop.load(Ordering::Relaxed) {
                let version = put(&documents, NAME, "text", expected).await.version;
                assert_eq!(version, expected.unwrap_or(0) + 1);
                expected = Some(version);
                made.store(version, Ordering::Relaxed);
            }
        })
    };
    let wait_for_more = async || {
        let from = made.load(Ordering::Relaxed);
        eventually("more versions", async || (made.load(Ordering::Relaxed) >= from + 20).then_some(())).await;
    };
    let home = cluster.primary_of_slot(slot()).await;
    for to in (0..3).filter(|server| *server != home) {
        wait_for_more().await;
        let migration = cluster.migrate(slot(), to).await;
        migration.move_keys().await;
        migration.finish().await;
    }
    wait_for_more().await;
    stop.store(true, Ordering::Relaxed);
    writer.await.expect("every change succeeds");
    let made = made.load(Ordering::Relaxed);
    assert_eq!(current(&documents, NAME).await, Some((made, "text".to_owned())));
    let kept: Vec<_> = (1..=made).rev().take(1_000).collect();
    assert_eq!(versions(&documents, NAME).await, kept);
    let stats = documents.stats();
    assert!(stats.redirects > 0 && stats.failed_calls == 0, "{stats:?}");
}

/// Documents of any names are on one node, so that a change of a document and of the names is one step.
#[tokio::test]
async fn all_documents_are_on_one_node_of_a_cluster() {
    let cluster = RedisCluster::start().await;
    let url = format!("redis+cluster://{}", cluster.servers()[0].address());
    let documents = connect(&url).await;
    for number in 0..20 {
        put(&documents, &format!("rules/{{{number}}}"), "text", None).await;
    }
    let home = cluster.primary_of_slot(slot()).await;
    for (index, server) in cluster.servers()[..3].iter().enumerate() {
        let keys = server.call(&["DBSIZE"]).await.text();
        assert_eq!(keys, if index == home { "21" } else { "0" }, "server {index}");
    }
    assert_eq!(documents.list("").await.expect("a list").len(), 20);
}

#[tokio::test]
async fn shards_keep_documents_on_the_first_one_and_need_no_other() {
    let (first, mut second) = (Redis::start(&[]).await, Redis::start(&[]).await);
    second.kill().await;
    let documents = connect(&format!("redis+shards://{},{}", first.address(), second.address())).await;
    for number in 0..20 {
        put(&documents, &format!("rules/{number}"), "text", None).await;
    }
    documents.ping().await.expect("the first one answers");
    assert_eq!(first.call(&["DBSIZE"]).await.text(), "21");
    // More shards change nothing.
    let third = Redis::start(&[]).await;
    let url = format!("redis+shards://{},{},{}", first.address(), second.address(), third.address());
    let documents = connect(&url).await;
    assert_eq!(documents.list("").await.expect("a list").len(), 20);
    documents.delete("rules/7", 1, &by("ann")).await.expect("a deletion");
    assert_eq!(third.call(&["DBSIZE"]).await.text(), "0");
}
