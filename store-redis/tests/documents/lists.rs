//! Lists of more names than one call returns.

use futures_util::future::join_all;
use tollgate_core::documents::DocumentStore;
use tollgate_testkit::Redis;

use crate::{by, connect, put};

#[tokio::test]
async fn long_lists_are_complete_and_sorted() {
    let redis = Redis::start(&[]).await;
    let documents = connect(&redis.url()).await;
    // Two pages and a part of a third.
    let names: Vec<_> = (0..4_500).map(|number| format!("plans/user:{number}")).collect();
    for some in names.chunks(500) {
        join_all(some.iter().map(|name| put(&documents, name, "pro", None))).await;
    }
    put(&documents, "rules/shop", "domain: shop", None).await;
    put(&documents, "plans/user:7", "free", Some(1)).await;
    documents.delete("plans/user:8", 1, &by("ann")).await.expect("a deletion");
    let before = documents.stats().calls;
    let listed = documents.list("plans/").await.expect("a list");
    assert_eq!(documents.stats().calls - before, 3, "pages of 2,000");
    let mut expected: Vec<_> = names
        .into_iter()
        .filter(|name| name != "plans/user:8")
        .map(|name| {
            let version = if name == "plans/user:7" { 2 } else { 1 };
            (name, version)
        })
        .collect();
    expected.sort();
    assert_eq!(listed, expected);
    assert_eq!(
        documents.list("plans/user:44").await.expect("a list").len(),
        111,
        "44, 440 to 449, and 4400 to 4499"
    );
    assert_eq!(documents.list("").await.expect("a list").len(), 4_500);
}

/// A page that ends exactly at the last name is followed by an empty one.
#[tokio::test]
async fn a_list_of_exactly_one_page_is_complete() {
    let redis = Redis::start(&[]).await;
    let documents = connect(&redis.url()).await;
    let names: Vec<_> = (0..2_000).map(|number| format!("{number:04}")).collect();
    for some in names.chunks(500) {
        join_all(some.iter().map(|name| put(&documents, name, "", None))).await;
    }
    let listed = documents.list("").await.expect("a list");
    assert!(listed.iter().map(|(name, _)| name).eq(&names), "{} names", listed.len());
}
