//! The last versions are kept, with their author, time, comment and text.

use std::time::Duration;

use tollgate_core::Time;
use tollgate_core::documents::{Change, DocumentStore};

use super::Plan;
use crate::documents::fixture::{Fixture, NOW};
use crate::documents::suite::{DocumentSubject, Requirement};

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("history::newest_first", newest_first);
    plan.add("history::says_who_when_and_why", says_who_when_and_why);
    plan.add("history::times_are_exact", times_are_exact);
    plan.add("history::is_bounded", is_bounded);
    plan.add("history::counts_deletions", counts_deletions);
    plan.add("history::of_one_document_only", of_one_document_only);
    plan.add_requiring(Requirement::CountedVersions, "history::dropped_versions_take_no_room", take_no_room);
}

async fn newest_first<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    let changes = [("ada", 1, "create"), ("grace", 2, ""), ("ada", 3, "back again")];
    let kept = fixture.subject.history().min(3);
    let mut expected = Vec::new();
    for (author, version, comment) in changes {
        let change = Change::by(author, NOW + Duration::from_nanos(version)).with_comment(comment);
        let current = (version > 1).then_some(version - 1);
        fixture.store.put(&name, author, current, &change).await.expect("a new version");
        expected.insert(0, change.revision(version, false));
    }
    expected.truncate(kept);
    assert_eq!(fixture.history(&name).await, expected);
}

/// Authors and comments are any text, and are kept byte for byte.
async fn says_who_when_and_why<T: DocumentSubject>(fixture: Fixture<T>) {
    let texts = [
        "",
        "a\nb\r\nc",
        "\ttab ",
        "quote \" ' ` \\ \u{1b}",
        "ünï😀",
        "--- # : {} [] %41",
        "\0",
        "version: 9\n\nx",
        " ",
    ];
    for (index, text) in texts.into_iter().enumerate() {
        let name = fixture.name(&format!("{index}"));
        for (author, comment) in [(text, "plain"), ("plain", text)] {
            let expected = fixture.get(&name).await.map(|document| document.revision.version);
            let change = Change::by(author, NOW).with_comment(comment);
            let revision = fixture.store.put(&name, "text", expected, &change).await;
            let revision = revision.unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(revision, change.revision(revision.version, false));
            assert_eq!(fixture.history(&name).await.first(), Some(&revision));
            assert_eq!(fixture.get(&name).await.expect("a document").revision, revision);
        }
    }
}

/// The time is the caller's, and is kept to the nanosecond. It need not grow: clocks of editors differ.
async fn times_are_exact<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    let times = [NOW, Time::MAX, Time::EPOCH, Time::from_nanos(1), Time::from_nanos((1 << 53) + 1)];
    for (version, time) in (0..).zip(times) {
        let expected = (version > 0).then_some(version);
        let change = Change::by("ada", time);
        fixture.store.put(&name, "text", expected, &change).await.expect("a new version");
        assert_eq!(fixture.get(&name).await.expect("a document").revision.time, time);
    }
}

async fn is_bounded<T: DocumentSubject>(fixture: Fixture<T>) {
    let (name, kept) = (fixture.name("rules"), fixture.subject.history() as u64);
    let mut expected = None;
    for version in 1..=2 * kept + 1 {
        expected = Some(fixture.put(&name, &format!("text {version}"), expected).await.version);
        let oldest = version.saturating_sub(kept) + 1;
        assert_eq!(fixture.versions(&name).await, (oldest..=version).rev().collect::<Vec<_>>());
        for old in 1..=version {
            let text = fixture.get_version(&name, old).await.map(|document| document.text);
            let kept_text = (old >= oldest).then(|| format!("text {old}"));
            assert_eq!(text, kept_text, "version {old} when {version} is the current one");
        }
        assert_eq!(fixture.current(&name).await, Some((format!("text {version}"), version)));
    }
}

/// A deletion counts as one version, and what was before it is dropped when its turn comes.
async fn counts_deletions<T: DocumentSubject>(fixture: Fixture<T>) {
    let (name, kept) = (fixture.name("rules"), fixture.subject.history() as u64);
    let mut expected = None;
    for version in 1..=kept {
        expected = Some(fixture.put(&name, &format!("text {version}"), expected).await.version);
    }
    fixture.delete(&name, kept).await;
    assert_eq!(fixture.versions(&name).await, (2..=kept + 1).rev().collect::<Vec<_>>());
    assert_eq!(fixture.get_version(&name, 1).await, None);
    let last = fixture.get_version(&name, kept).await.expect("the last version with a text");
    assert_eq!(last.text, format!("text {kept}"));
    assert!(fixture.history(&name).await[0].deleted, "the newest revision is the deletion");
}

async fn of_one_document_only<T: DocumentSubject>(fixture: Fixture<T>) {
    let (rules, longer) = (fixture.name("rules"), fixture.name("rules/2"));
    fixture.put(&rules, "one", None).await;
    fixture.put_all(&longer, &["two", "three"]).await;
    assert_eq!(fixture.versions(&rules).await, [1]);
    assert_eq!(fixture.versions(&longer).await, [2, 1]);
    fixture.delete(&rules, 1).await;
    assert_eq!(fixture.current(&longer).await, Some(("three".to_owned(), 2)));
}

async fn take_no_room<T: DocumentSubject>(fixture: Fixture<T>) {
    let (name, kept) = (fixture.name("rules"), fixture.subject.history());
    let mut expected = None;
    for _ in 0..3 * kept {
        expected = Some(fixture.put(&name, "text", expected).await.version);
    }
    let held = fixture.subject.held_versions(&fixture.store, &name).await.expect("a number of versions");
    assert_eq!(held, kept, "versions that the store holds");
}
