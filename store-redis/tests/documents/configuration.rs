//! The history that is kept, and options that are invalid.

use std::time::Duration;

use tollgate_core::documents::DocumentStore;
use tollgate_core::{Effect, ErrorKind};
use tollgate_store_redis::{Config, RedisDocuments};
use tollgate_testkit::Redis;

use crate::{NAME, by, connect, current, put, versions};

async fn keeping(redis: &Redis, history: u32) -> RedisDocuments {
    Config::new(redis.url()).document_history(history).connect_documents().await.expect("a store")
}

#[tokio::test]
async fn twenty_versions_are_kept_by_default() {
    let redis = Redis::start(&[]).await;
    let documents = connect(&redis.url()).await;
    for version in 1..=25 {
        put(&documents, NAME, "text", (version > 1).then(|| version - 1)).await;
    }
    assert_eq!(versions(&documents, NAME).await, (6..=25).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn every_change_drops_what_its_store_does_not_keep() {
    let redis = Redis::start(&[]).await;
    let (long, short, one) =
        (keeping(&redis, 1_000).await, keeping(&redis, 3).await, keeping(&redis, 1).await);
    for version in 1..=30 {
        put(&long, NAME, "text", (version > 1).then(|| version - 1)).await;
    }
    assert_eq!(versions(&short, NAME).await.len(), 30, "a read drops nothing");
    put(&short, NAME, "text", Some(30)).await;
    assert_eq!(versions(&long, NAME).await, [31, 30, 29]);
    put(&long, NAME, "text", Some(31)).await;
    assert_eq!(versions(&long, NAME).await, [32, 31, 30, 29], "what was dropped does not return");
    one.delete(NAME, 32, &by("ann")).await.expect("a deletion");
    assert_eq!(versions(&long, NAME).await, [33]);
    assert_eq!(
        redis.call(&["HLEN", &crate::placement::key(NAME)]).await.text(),
        "3",
        "latest, oldest and r33"
    );
    put(&one, NAME, "again", None).await;
    assert_eq!(current(&long, NAME).await, Some((34, "again".to_owned())));
    assert_eq!(versions(&long, NAME).await, [34]);
}

#[tokio::test]
async fn invalid_options_are_refused() {
    let config = || Config::new("redis://127.0.0.1");
    for (config, advice) in [
        (config().document_history(0), "document_history must be from 1 to 1,000"),
        (config().document_history(1_001), "document_history must be from 1 to 1,000"),
        (config().call_timeout(Duration::ZERO), "call_timeout must not be zero"),
        (config().prefix("a:b"), "prefix must not contain"),
        (Config::new("127.0.0.1"), "has no scheme"),
    ] {
        let error = config.connect_documents().await.expect_err("an invalid option");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Refused, Effect::None), "{error}");
        assert!(error.to_string().contains(advice), "{advice:?} is not in: {error}");
    }
}
