//! Servers that refuse a change: it is refused as a whole.

use std::sync::{Arc, Mutex};

use tollgate_core::documents::{DocumentError, DocumentStore};
use tollgate_core::{Effect, ErrorKind, Event, Observer, StoreError};
use tollgate_store_redis::{Config, RedisDocuments};
use tollgate_testkit::{Redis, in_time, until};

use crate::{NAME, by, connect, current, dump, put, store_error, versions};

const PASSWORD: &str = "open-sesame";

#[track_caller]
fn assert_refused(error: &StoreError, kind: ErrorKind, part: &str) {
    assert_eq!((error.kind(), error.effect()), (kind, Effect::None), "{error}");
    assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    assert!(!error.to_string().contains(NAME), "{error}");
}

/// Puts, replaces and deletes, and returns the errors.
async fn change_everything(documents: &RedisDocuments) -> Vec<StoreError> {
    let change = by("bob");
    vec![
        store_error(in_time(documents.put("another", "text", None, &change)).await),
        store_error(in_time(documents.put(NAME, "other text", Some(2), &change)).await),
        store_error(in_time(documents.delete(NAME, 2, &change)).await),
    ]
}

/// Returns a store with two versions of a document, of which both are kept.
async fn with_two_versions(redis: &Redis) -> RedisDocuments {
    let config = Config::new(redis.url()).document_history(2).require_reachable();
    let documents = config.connect_documents().await.expect("a reachable server");
    put(&documents, NAME, "first", None).await;
    put(&documents, NAME, "second", Some(1)).await;
    documents
}

#[tokio::test]
async fn a_full_server_changes_nothing_and_still_reads() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]).await;
    let documents = with_two_versions(&redis).await;
    let before = dump(&redis).await;
    // Less than it uses already.
    redis.call(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for error in change_everything(&documents).await {
        assert_refused(&error, ErrorKind::Full, "maxmemory");
    }
    assert_eq!(dump(&redis).await, before);
    assert_eq!(current(&documents, NAME).await, Some((2, "second".to_owned())));
    let conflict = documents.put(NAME, "text", None, &by("bob")).await;
    assert!(matches!(conflict, Err(DocumentError::Conflict { .. })), "{conflict:?}");
    redis.call(&["CONFIG", "SET", "maxmemory", "0"]).await;
    put(&documents, NAME, "third", Some(2)).await;
    assert_eq!(versions(&documents, NAME).await, [3, 2]);
}

#[tokio::test]
async fn policies_that_evict_keys_with_a_time_to_live_keep_documents() {
    let redis = Redis::start(&["--maxmemory-policy", "volatile-random"]).await;
    let documents = with_two_versions(&redis).await;
    for key in redis.call(&["KEYS", "*"]).await.texts() {
        assert_eq!(redis.call(&["TTL", &key]).await.text(), "-1", "{key} expires");
    }
    redis.call(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for error in change_everything(&documents).await {
        assert_refused(&error, ErrorKind::Full, "maxmemory");
    }
    assert_eq!(versions(&documents, NAME).await, [2, 1]);
}

#[tokio::test]
async fn servers_that_may_evict_documents_are_reported() {
    let redis = Redis::start(&["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"]).await;
    let documents = connect(&redis.url()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer: Arc<dyn Observer> = {
        let seen = Arc::clone(&seen);
        Arc::new(move |event: Event<'_>| seen.lock().expect("no panic").push(format!("{event:?}")))
    };
    documents.attach_observer(&observer);
    until("the server is reported", async || !seen.lock().expect("no panic").is_empty()).await;
    let seen = seen.lock().expect("no panic").clone();
    assert!(seen.len() == 1 && seen[0].contains("an evicted document is lost with its history"), "{seen:?}");
    assert_eq!(documents.stats().evicting_servers, 1);
}

/// Returns the commands that documents need, as the crate's documentation lists them.
fn documented_commands(document: &'static str) -> Vec<&'static str> {
    let from = document.find("Documents need").expect("the paragraph");
    let list = document[from..].split("```").nth(1).expect("the list");
    list.split_whitespace().filter(|word| word.starts_with('+')).collect()
}

#[test]
fn the_readme_lists_the_same_permissions() {
    let readme = documented_commands(include_str!("../../README.md"));
    assert_eq!(readme, documented_commands(include_str!("../../src/lib.rs")));
}

/// Returns a store whose user has only these permissions.
async fn with_permissions(redis: &Redis, commands: &[&str]) -> RedisDocuments {
    let user = ["ACL", "SETUSER", "editor", "reset", "on", ">open-sesame", "~tollgate:*"];
    redis.call(&[&user[..], commands].concat()).await;
    let url = format!("redis://editor:{PASSWORD}@{}", redis.address());
    let config = Config::new(url).document_history(2).require_reachable();
    in_time(config.connect_documents()).await.expect("connecting needs no permission")
}

/// Makes calls of all kinds, from the second version of a document.
async fn call_everything(documents: &RedisDocuments) -> Result<(), DocumentError> {
    documents.put(NAME, "third", Some(2), &by("ann")).await?;
    documents.delete(NAME, 3, &by("ann")).await?;
    documents.put(NAME, "fifth", None, &by("ann")).await?;
    documents.get(NAME).await?;
    documents.get_version(NAME, 4).await?;
    documents.history(NAME).await?;
    documents.list("").await.map(drop)
}

#[tokio::test]
async fn the_documented_permissions_are_enough_and_necessary() {
    let redis = Redis::start(&[]).await;
    let commands = documented_commands(include_str!("../../src/lib.rs"));
    for missing in std::iter::once(None).chain(commands.iter().map(Some)) {
        redis.call(&["FLUSHALL"]).await;
        redis.call(&["SCRIPT", "FLUSH"]).await;
        with_two_versions(&redis).await;
        redis.call(&["SCRIPT", "FLUSH"]).await;
        let before = dump(&redis).await;
        let rest: Vec<_> = commands.iter().filter(|command| Some(*command) != missing).copied().collect();
        let documents = with_permissions(&redis, &rest).await;
        let result = in_time(call_everything(&documents)).await;
        let Some(missing) = missing else {
            assert!(result.is_ok(), "{result:?}");
            continue;
        };
        if *missing == "+zrangebylex" {
            // Only lists need it.
            let error = store_error(documents.list("").await);
            assert_refused(&error, ErrorKind::Refused, "documentation lists them");
            continue;
        }
        let error = store_error(result);
        assert_refused(&error, ErrorKind::Refused, "documentation lists them");
        assert_eq!(dump(&redis).await, before, "half a change without {missing}");
    }
}

/// A change is refused as a whole, whichever of the two keys is not what it should be.
#[tokio::test]
async fn values_of_other_programs_are_errors_and_stay() {
    let redis = Redis::start(&[]).await;
    let (document, names) = (crate::placement::key(NAME), crate::placement::NAMES);
    for (key, value) in [
        (document.as_str(), vec!["SET", &document, "a string"]),
        (names, vec!["SET", names, "a string"]),
        (
            document.as_str(),
            vec!["HSET", &document, "latest", "2", "oldest", "1", "r2", "\u{2}another format"],
        ),
        (document.as_str(), vec!["HSET", &document, "latest", "2", "oldest", "1"]),
    ] {
        redis.call(&["FLUSHALL"]).await;
        let documents = with_two_versions(&redis).await;
        redis.call(&["DEL", key]).await;
        redis.call(&value).await;
        let before = dump(&redis).await;
        for error in [
            store_error(documents.put(NAME, "other", Some(2), &by("bob")).await),
            store_error(documents.delete(NAME, 2, &by("bob")).await),
        ] {
            assert_refused(&error, ErrorKind::Corrupt, "holds a value of another program or another version");
        }
        if key == names {
            assert_refused(&store_error(documents.list("").await), ErrorKind::Corrupt, "another program");
        } else {
            let errors = [store_error(documents.get(NAME).await), store_error(documents.history(NAME).await)];
            for error in errors {
                assert_refused(&error, ErrorKind::Corrupt, "another program");
            }
        }
        assert_eq!(dump(&redis).await, before);
    }
}

#[tokio::test]
async fn damaged_documents_are_errors() {
    let redis = Redis::start(&[]).await;
    let documents = with_two_versions(&redis).await;
    let key = crate::placement::key(NAME);
    redis.call(&["HSET", &key, "r1", "\u{1}short"]).await;
    for error in
        [store_error(documents.get_version(NAME, 1).await), store_error(documents.history(NAME).await)]
    {
        assert_refused(&error, ErrorKind::Corrupt, "another program");
    }
    redis.call(&["ZADD", crate::placement::NAMES, "0", "no version"]).await;
    assert_refused(&store_error(documents.list("").await), ErrorKind::Corrupt, "another program");
    assert_eq!(current(&documents, NAME).await, Some((2, "second".to_owned())), "the others are readable");
}
