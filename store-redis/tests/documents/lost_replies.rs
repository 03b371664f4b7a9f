//! Changes whose reply is lost: each is made once, and succeeds.

use tollgate_core::documents::{DocumentError, DocumentStore, Polled};
use tollgate_testkit::{Redis, RedisProxy, in_time};

use crate::{NAME, by, connect, current, put, versions};

#[tokio::test]
async fn a_change_whose_reply_is_lost_succeeds_once() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let (documents, direct) = (connect(&proxy.url()).await, connect(&redis.url()).await);
    // Caches the script, so that the reply that is lost is that of the change.
    put(&direct, "warm", "", None).await;
    documents.history("warm").await.expect("a connection");
    let lost = async |text: Option<&str>, expected| {
        proxy.drop_next_reply();
        let change = async {
            match (text, expected) {
                (Some(text), expected) => documents.put(NAME, text, expected, &by("ann")).await,
                (None, expected) => documents.delete(NAME, expected.unwrap_or(0), &by("ann")).await,
            }
        };
        let revision = in_time(change).await.expect("no conflict with itself");
        assert!(proxy.has_dropped());
        assert_eq!((revision.author.as_str(), revision.deleted), ("ann", text.is_none()));
        revision.version
    };
    assert_eq!(lost(Some("created"), None).await, 1);
    assert_eq!(lost(Some("replaced"), Some(1)).await, 2);
    assert_eq!(current(&direct, NAME).await, Some((2, "replaced".to_owned())));
    assert_eq!(lost(None, Some(2)).await, 3);
    assert_eq!(current(&direct, NAME).await, None);
    assert_eq!(lost(Some("created again"), None).await, 4);
    assert_eq!(current(&direct, NAME).await, Some((4, "created again".to_owned())));
    assert_eq!(versions(&direct, NAME).await, [4, 3, 2, 1]);
    assert_eq!(documents.stats().failed_calls, 0);
}

#[tokio::test]
async fn a_conflict_whose_reply_is_lost_is_a_conflict() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let (documents, direct) = (connect(&proxy.url()).await, connect(&redis.url()).await);
    put(&direct, NAME, "first", None).await;
    put(&direct, NAME, "second", Some(1)).await;
    documents.history(NAME).await.expect("a connection");
    for expected in [None, Some(1), Some(3)] {
        proxy.drop_next_reply();
        let result = in_time(documents.put(NAME, "mine", expected, &by("bob"))).await;
        assert!(proxy.has_dropped());
        let is_conflict = matches!(
            result,
            Err(DocumentError::Conflict { expected: was, current: Some(2) }) if was == expected
        );
        assert!(is_conflict, "{expected:?}: {result:?}");
    }
    assert_eq!(current(&direct, NAME).await, Some((2, "second".to_owned())));
}

#[tokio::test]
async fn reads_whose_reply_is_lost_are_repeated() {
    let redis = Redis::start(&[]).await;
    let proxy = RedisProxy::to(&redis).await;
    let documents = connect(&proxy.url()).await;
    put(&documents, NAME, "text", None).await;
    proxy.drop_next_reply();
    assert_eq!(in_time(current(&documents, NAME)).await, Some((1, "text".to_owned())));
    assert!(proxy.has_dropped());
    proxy.drop_next_reply();
    let polled = in_time(documents.get_if_changed(NAME, Some(1))).await.expect("an answer");
    assert_eq!(polled, Polled::Unchanged);
    proxy.drop_next_reply();
    assert_eq!(in_time(versions(&documents, NAME)).await, [1]);
    proxy.drop_next_reply();
    assert_eq!(in_time(documents.list("rules/")).await.expect("a list"), [(NAME.to_owned(), 1)]);
    proxy.drop_next_reply();
    assert!(in_time(documents.get_version(NAME, 1)).await.expect("an answer").is_some());
    assert!(proxy.has_dropped());
}

/// Runs the change script with the revision, and so the change id, that a stored version has.
async fn copy_of(redis: &Redis, version: u64, expected: &str, text: Option<&str>) -> Vec<String> {
    let script = format!(
        "ARGV[4] = redis.call('HGET', KEYS[1], 'r{version}')\n{}{}",
        include_str!("../../scripts/documents/stored.lua"),
        include_str!("../../scripts/documents/change.lua")
    );
    let document = format!("tollgate:{{documents}}/d/{NAME}");
    let mut call =
        vec!["EVAL", &script, "2", &document, "tollgate:{documents}/names", NAME, expected, "20", ""];
    call.extend(text);
    redis.call(&call).await.texts()
}

/// The first of two copies may be executed last, when other changes have followed.
#[tokio::test]
async fn a_copy_that_arrives_late_changes_nothing() {
    let redis = Redis::start(&[]).await;
    let documents = connect(&redis.url()).await;
    put(&documents, NAME, "created", None).await;
    put(&documents, NAME, "replaced", Some(1)).await;
    documents.delete(NAME, 2, &by("ann")).await.expect("a deletion");
    // The document does not exist, as the creation expects; but it was made already.
    assert_eq!(copy_of(&redis, 1, "", Some("created")).await, ["1", "1"]);
    assert_eq!(copy_of(&redis, 2, "1", Some("replaced")).await, ["1", "2"]);
    assert_eq!(copy_of(&redis, 3, "2", None).await, ["1", "3"]);
    assert_eq!(current(&documents, NAME).await, None);
    assert_eq!(versions(&documents, NAME).await, [3, 2, 1]);
    put(&documents, NAME, "another", None).await;
    for (version, expected, text) in [(1, "", Some("created")), (2, "1", Some("replaced")), (3, "2", None)] {
        assert_eq!(copy_of(&redis, version, expected, text).await, ["1", &version.to_string()]);
    }
    assert_eq!(current(&documents, NAME).await, Some((4, "another".to_owned())));
    assert_eq!(documents.list("").await.expect("a list"), [(NAME.to_owned(), 4)]);
}
