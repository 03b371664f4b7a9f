//! Documents are listed by prefix.

use super::Plan;
use crate::documents::fixture::Fixture;
use crate::documents::suite::DocumentSubject;
use tollgate_core::documents::{DocumentStore, MAX_DOCUMENT_NAME};

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("list::by_prefix", by_prefix);
    plan.add("list::is_sorted", is_sorted);
    plan.add("list::without_deleted_ones", without_deleted_ones);
    plan.add("list::wildcards_are_text", wildcards_are_text);
    plan.add("list::prefixes_end_anywhere", prefixes_end_anywhere);
    plan.add("list::everything", everything);
    plan.add("list::impossible_prefixes", impossible_prefixes);
    plan.add("list::many", many);
}

/// Creates documents, and returns their names.
async fn create<T: DocumentSubject>(fixture: &Fixture<T>, suffixes: &[&str]) -> Vec<String> {
    let names: Vec<_> = suffixes.iter().map(|suffix| fixture.name(suffix)).collect();
    for name in &names {
        fixture.put(name, name, None).await;
    }
    names
}

/// Checks which documents a prefix lists.
async fn expect<T: DocumentSubject>(fixture: &Fixture<T>, prefix: &str, suffixes: &[&str]) {
    let expected: Vec<_> = suffixes.iter().map(|suffix| (fixture.name(suffix), 1)).collect();
    assert_eq!(fixture.list(prefix).await, expected, "the documents of {prefix:?}");
}

async fn by_prefix<T: DocumentSubject>(fixture: Fixture<T>) {
    create(&fixture, &["rules/a", "rules/b", "rules", "plans/a", "ruler", "my/rules/a"]).await;
    expect(&fixture, "rules/", &["rules/a", "rules/b"]).await;
    expect(&fixture, "rules", &["rules", "rules/a", "rules/b"]).await;
    expect(&fixture, "rule", &["ruler", "rules", "rules/a", "rules/b"]).await;
    expect(&fixture, "Rules", &[]).await;
    expect(&fixture, "rules/a/", &[]).await;
    fixture.put(&fixture.name("rules/b"), "changed", Some(1)).await;
    assert_eq!(fixture.list("rules/b").await, [(fixture.name("rules/b"), 2)], "its current version");
}

/// Sorted by bytes: not by locale, and not by an encoding of the names.
async fn is_sorted<T: DocumentSubject>(fixture: Fixture<T>) {
    let mut suffixes =
        ["b", "a", "B", "a/b", "a-b", "a b", "a.b", "aa", "é", "z", "~", "a%", "10", "9", "𝄞", "\u{ffee}"];
    create(&fixture, &suffixes).await;
    suffixes.sort_unstable();
    expect(&fixture, "", &suffixes).await;
}

async fn without_deleted_ones<T: DocumentSubject>(fixture: Fixture<T>) {
    let names = create(&fixture, &["a", "b", "c"]).await;
    fixture.delete(&names[1], 1).await;
    expect(&fixture, "", &["a", "c"]).await;
    fixture.put(&names[1], "again", None).await;
    let versions: Vec<_> = fixture.list("").await.into_iter().map(|(_, version)| version).collect();
    assert_eq!(versions, [1, 3, 1]);
}

async fn wildcards_are_text<T: DocumentSubject>(fixture: Fixture<T>) {
    let wildcards = ["*", "?", "[", "[a-z]", "%", "_", "\\", ".*", "^", "{a,b}", "%2A", "'", "\""];
    let mut suffixes: Vec<_> = wildcards.iter().map(|wildcard| format!("{wildcard}x")).collect();
    suffixes.extend(["a", "ax", "aax", "bx"].map(str::to_owned));
    create(&fixture, &suffixes.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for wildcard in wildcards {
        let mut expected: Vec<_> = suffixes.iter().filter(|suffix| suffix.starts_with(wildcard)).collect();
        expected.sort_unstable();
        expect(&fixture, wildcard, &expected.into_iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
}

/// The prefix is text, not a path: it may end within a word, at a slash, or be the name itself.
async fn prefixes_end_anywhere<T: DocumentSubject>(fixture: Fixture<T>) {
    create(&fixture, &["déjà/vu", "deja/vu"]).await;
    for prefix in ["d", "de", "dej", "deja", "deja/", "deja/v", "deja/vu"] {
        let expected: &[&str] = if prefix == "d" { &["deja/vu", "déjà/vu"] } else { &["deja/vu"] };
        expect(&fixture, prefix, expected).await;
    }
    expect(&fixture, "deja/vu/", &[]).await;
    expect(&fixture, "déjà", &["déjà/vu"]).await;
}

/// An empty prefix lists every document, among them those of other trials.
async fn everything<T: DocumentSubject>(fixture: Fixture<T>) {
    let names = create(&fixture, &["a", "b"]).await;
    let listed = fixture.store.list("").await.expect("every document");
    let found: Vec<_> = listed.iter().map(|(name, _)| name).filter(|name| names.contains(name)).collect();
    assert_eq!(found, [&names[0], &names[1]]);
    assert!(listed.is_sorted_by(|left, right| left.0 < right.0), "sorted, and each once: {listed:?}");
}

async fn impossible_prefixes<T: DocumentSubject>(fixture: Fixture<T>) {
    create(&fixture, &["a"]).await;
    expect(&fixture, "\n", &[]).await;
    expect(&fixture, "\0", &[]).await;
    expect(&fixture, &"a".repeat(MAX_DOCUMENT_NAME + 1), &[]).await;
}

/// More than fit on a page of a server's answer.
async fn many<T: DocumentSubject>(fixture: Fixture<T>) {
    let suffixes: Vec<_> = (100..250).map(|number| format!("{number}")).collect();
    let suffixes: Vec<_> = suffixes.iter().map(String::as_str).collect();
    create(&fixture, &suffixes).await;
    expect(&fixture, "", &suffixes).await;
    expect(&fixture, "20", &suffixes[100..110]).await;
}
