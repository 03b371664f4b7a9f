//! Large texts: they are kept, refused, or too slow for the timeout; and they are not sent without need.

use std::time::Duration;

use tollgate_core::documents::{DocumentError, DocumentStore, MAX_DOCUMENT_SIZE, Polled};
use tollgate_core::{Effect, ErrorKind};
use tollgate_store_redis::Config;
use tollgate_testkit::{Redis, in_time};

use crate::{NAME, by, connect, put, store_error, versions};

#[tokio::test]
async fn the_largest_texts_are_kept_and_larger_ones_are_refused() {
    let redis = Redis::start(&[]).await;
    let config = Config::new(redis.url()).call_timeout(Duration::from_secs(60)).document_history(3);
    let documents = config.connect_documents().await.expect("a store");
    let largest = |letter: &str| letter.repeat(MAX_DOCUMENT_SIZE);
    let mut expected = None;
    for letter in ["a", "b", "c", "d"] {
        expected = Some(put(&documents, NAME, &largest(letter), expected).await.version);
    }
    let document = documents.get(NAME).await.expect("an answer").expect("a document");
    assert!(document.text == largest("d"), "another text");
    let old = documents.get_version(NAME, 2).await.expect("an answer").expect("a kept version");
    assert!(old.text == largest("b"), "another text");
    assert_eq!(versions(&documents, NAME).await, [4, 3, 2]);
    let too_large = documents.put(NAME, &(largest("e") + "!"), expected, &by("ann")).await;
    assert!(matches!(too_large, Err(DocumentError::TooLarge { size }) if size == MAX_DOCUMENT_SIZE + 1));
    assert_eq!(versions(&documents, NAME).await, [4, 3, 2]);
}

/// Returns how many bytes the server has sent.
async fn bytes_sent(redis: &Redis) -> u64 {
    let stats = redis.call(&["INFO", "stats"]).await;
    stats.field("total_net_output_bytes").and_then(|bytes| bytes.parse().ok()).expect("a number")
}

#[tokio::test]
async fn polls_lists_histories_and_conflicts_do_not_send_texts() {
    const SIZE: usize = 1_000_000;
    let redis = Redis::start(&[]).await;
    let documents = connect(&redis.url()).await;
    put(&documents, NAME, &"x".repeat(SIZE), None).await;
    let before = bytes_sent(&redis).await;
    for _ in 0..10 {
        let polled = documents.get_if_changed(NAME, Some(1)).await.expect("an answer");
        assert_eq!(polled, Polled::Unchanged);
        assert_eq!(versions(&documents, NAME).await, [1]);
        assert_eq!(documents.list("").await.expect("a list").len(), 1);
        assert!(documents.put(NAME, "mine", None, &by("bob")).await.is_err());
    }
    let unchanged = bytes_sent(&redis).await - before;
    assert!(unchanged < 50_000, "{unchanged} bytes");
    let polled = documents.get_if_changed(NAME, Some(2)).await.expect("an answer");
    assert!(matches!(polled, Polled::Changed(document) if document.text.len() == SIZE));
    assert!(bytes_sent(&redis).await - before > 1_000_000, "the text");
}

#[tokio::test]
async fn a_large_text_that_is_too_slow_for_the_timeout_comes_with_advice() {
    let redis = Redis::start(&[]).await;
    let config = Config::new(redis.url()).call_timeout(Duration::from_millis(200)).require_reachable();
    let documents = config.connect_documents().await.expect("a reachable server");
    redis.freeze().await;
    let result = in_time(documents.put(NAME, &"x".repeat(2_000_000), None, &by("ann"))).await;
    let error = store_error(result);
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, Effect::Unknown), "{error}");
    for part in ["2000000 bytes", "Config::call_timeout", "may have taken effect"] {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
    redis.thaw().await;
}
