//! Documents on real servers that fail, restart, refuse, migrate or are large. What every document store must do is in
//! the conformance suite (`conformance_documents`), killed processes are in `killed_writers`.
//!
//! - `lost_replies`: changes whose reply is lost, and copies of them that arrive late
//! - `outages`: servers that restart or fail over
//! - `refusals`: servers that are full, do not permit a command, or hold values of other programs
//! - `large`: texts of 16 MiB, and texts that are not sent
//! - `lists`: more names than one call returns
//! - `placement`: keys, clusters and shards
//! - `configuration`: history and invalid options

mod configuration;
mod large;
mod lists;
mod lost_replies;
mod outages;
mod placement;
mod refusals;

use tollgate_core::documents::{Change, DocumentError, DocumentStore, Revision};
use tollgate_core::{StoreError, Time};
use tollgate_store_redis::{Config, RedisDocuments};
use tollgate_testkit::Redis;

pub(crate) const NAME: &str = "rules/shop";

pub(crate) fn by(author: &str) -> Change {
    Change::by(author, Time::from_secs(1_790_000_000)).with_comment("why not")
}

pub(crate) async fn connect(url: &str) -> RedisDocuments {
    Config::new(url).require_reachable().connect_documents().await.expect("a reachable server")
}

pub(crate) async fn put(
    documents: &RedisDocuments,
    name: &str,
    text: &str,
    expected: Option<u64>,
) -> Revision {
    documents.put(name, text, expected, &by("ann")).await.expect("a new version")
}

/// Returns the current version and text.
pub(crate) async fn current(documents: &RedisDocuments, name: &str) -> Option<(u64, String)> {
    let document = documents.get(name).await.expect("an answer")?;
    Some((document.revision.version, document.text))
}

/// Returns the kept versions, the newest first.
pub(crate) async fn versions(documents: &RedisDocuments, name: &str) -> Vec<u64> {
    let history = documents.history(name).await.expect("a history");
    history.iter().map(|revision| revision.version).collect()
}

/// Returns the error of a store that failed.
#[track_caller]
pub(crate) fn store_error<T: std::fmt::Debug>(result: Result<T, DocumentError>) -> StoreError {
    match result.expect_err("an error") {
        DocumentError::Store(error) => error,
        other => panic!("not an error of the store: {other:?}"),
    }
}

/// Returns all keys with their contents, as far as they are text.
pub(crate) async fn dump(redis: &Redis) -> Vec<(String, Vec<String>)> {
    let mut keys = redis.call(&["KEYS", "*"]).await.texts();
    keys.sort();
    let mut dumped = Vec::new();
    for key in keys {
        let kind = redis.call(&["TYPE", &key]).await.text();
        let content = match kind.as_str() {
            "hash" => redis.call(&["HGETALL", &key]).await.texts(),
            "zset" => redis.call(&["ZRANGE", &key, "0", "-1"]).await.texts(),
            _ => vec![redis.call(&["GET", &key]).await.text()],
        };
        dumped.push((key, content));
    }
    dumped
}
