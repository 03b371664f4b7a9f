//! Concurrent editors: exactly one of them wins each version.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate_core::documents::{DocumentError, DocumentStore, Revision};

use super::Plan;
use crate::documents::fixture::{Fixture, by_ada};
use crate::documents::suite::{DocumentSubject, Requirement};

/// How many editors change a document at the same time.
const EDITORS: usize = 8;

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("editors::no_update_is_lost", no_update_is_lost);
    plan.add_requiring(Requirement::AnotherClient, "editors::of_several_clients", of_several_clients);
    plan.add("editors::one_creates", one_creates);
    plan.add("editors::one_replaces_or_deletes", one_replaces_or_deletes);
    plan.add("editors::readers_see_whole_versions", readers_see_whole_versions);
}

async fn no_update_is_lost<T: DocumentSubject>(fixture: Fixture<T>) {
    let stores = vec![Arc::clone(&fixture.store); EDITORS];
    count_together(&fixture, stores).await;
}

async fn of_several_clients<T: DocumentSubject>(fixture: Fixture<T>) {
    let mut stores = Vec::new();
    for _ in 0..EDITORS {
        let other = fixture.subject.open_another(&fixture.store).await;
        stores.push(Arc::new(other.expect("another client")));
    }
    count_together(&fixture, stores).await;
}

/// Lets an editor per store add one to a number, again and again, and checks that every addition counts once.
async fn count_together<T: DocumentSubject>(fixture: &Fixture<T>, stores: Vec<Arc<T::Store>>) {
    let (name, changes) = (fixture.name("count"), fixture.subject.changes_per_editor());
    let all = stores.len() * changes;
    let start = Arc::new(Barrier::new(stores.len()));
    let mut editors = JoinSet::new();
    for store in stores {
        let (name, start) = (name.clone(), Arc::clone(&start));
        editors.spawn(async move {
            start.wait().await;
            let mut won = Vec::new();
            while won.len() < changes {
                won.push(add_one(&*store, &name).await);
            }
            won
        });
    }
    let won: Vec<_> = editors.join_all().await.into_iter().flatten().collect();
    let distinct: BTreeSet<_> = won.iter().copied().collect();
    assert_eq!(distinct.len(), all, "each version is won by one editor: {won:?}");
    assert_eq!(distinct.last(), Some(&(all as u64)), "versions grow by one per change");
    assert_eq!(fixture.current(&name).await, Some((all.to_string(), all as u64)), "(number, version)");
}

/// Adds one to the number in a document, and repeats it on a conflict. Returns the version that it made.
async fn add_one(store: &impl DocumentStore, name: &str) -> u64 {
    loop {
        let current = store.get(name).await.expect("a document, or none");
        let expected = current.as_ref().map(|document| document.revision.version);
        let number = current.map_or(0, |document| document.text.parse::<u64>().expect("a number"));
        match store.put(name, &(number + 1).to_string(), expected, &by_ada()).await {
            Ok(revision) => {
                assert_eq!(revision.version, expected.unwrap_or(0) + 1, "the version after the expected one");
                return revision.version;
            }
            Err(DocumentError::Conflict { expected: said, current }) => {
                assert_eq!(said, expected, "the expected version of the conflict");
                assert!(current > expected, "a conflict of {expected:?} with {current:?}");
            }
            Err(error) => panic!("neither a version nor a conflict: {error}"),
        }
    }
}

/// Checks that one of several changes won, and returns its revision. The others are conflicts.
fn only_winner(results: Vec<Result<Revision, DocumentError>>) -> Revision {
    let mut winners = Vec::new();
    for result in results {
        match result {
            Ok(revision) => winners.push(revision),
            Err(DocumentError::Conflict { .. }) => {}
            Err(error) => panic!("neither a version nor a conflict: {error}"),
        }
    }
    assert_eq!(winners.len(), 1, "one winner: {winners:?}");
    winners.remove(0)
}

async fn one_creates<T: DocumentSubject>(fixture: Fixture<T>) {
    for round in 0..fixture.subject.changes_per_editor() {
        let name = fixture.name(&format!("{round}"));
        let start = Arc::new(Barrier::new(EDITORS));
        let mut editors = JoinSet::new();
        for editor in 0..EDITORS {
            let (store, name, start) = (Arc::clone(&fixture.store), name.clone(), Arc::clone(&start));
            editors.spawn(async move {
                start.wait().await;
                let change = tollgate_core::documents::Change { author: format!("{editor}"), ..by_ada() };
                store.put(&name, &format!("{editor}"), None, &change).await
            });
        }
        let winner = only_winner(editors.join_all().await);
        let document = fixture.get(&name).await.expect("a document");
        assert_eq!(document.text, winner.author, "the text is the winner's");
        assert_eq!(document.revision, winner);
        assert_eq!(fixture.versions(&name).await, [1]);
    }
}

async fn one_replaces_or_deletes<T: DocumentSubject>(fixture: Fixture<T>) {
    for round in 0..fixture.subject.changes_per_editor() {
        let name = fixture.name(&format!("{round}"));
        fixture.put(&name, "first", None).await;
        let start = Arc::new(Barrier::new(EDITORS));
        let mut editors = JoinSet::new();
        for editor in 0..EDITORS {
            let (store, name, start) = (Arc::clone(&fixture.store), name.clone(), Arc::clone(&start));
            editors.spawn(async move {
                start.wait().await;
                if editor % 2 == 0 {
                    store.put(&name, "second", Some(1), &by_ada()).await
                } else {
                    store.delete(&name, 1, &by_ada()).await
                }
            });
        }
        let winner = only_winner(editors.join_all().await);
        assert_eq!(winner.version, 2);
        let expected = (!winner.deleted).then(|| ("second".to_owned(), 2));
        assert_eq!(fixture.current(&name).await, expected);
        assert_eq!(fixture.versions(&name).await, [2, 1]);
    }
}

/// Returns the text of a version: another length each time, so that a mixture of two is noticed.
fn text_of(version: u64) -> String {
    format!("{version} ").repeat(1 + usize::try_from(version % 5).unwrap_or(0) * 3_000)
}

async fn readers_see_whole_versions<T: DocumentSubject>(fixture: Fixture<T>) {
    let (name, changes) = (fixture.name("rules"), fixture.subject.changes_per_editor() as u64);
    fixture.put(&name, &text_of(1), None).await;
    let (mut readers, is_done) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
    for _ in 0..EDITORS {
        let (store, name, is_done) = (Arc::clone(&fixture.store), name.clone(), Arc::clone(&is_done));
        readers.spawn(async move {
            let mut seen = 0;
            while seen <= changes {
                let is_last = is_done.load(Ordering::SeqCst);
                let document = store.get(&name).await.expect("a document").expect("it is never deleted");
                let version = document.revision.version;
                assert!(version >= seen, "version {version} after version {seen}");
                assert!(
                    document.text == text_of(version),
                    "version {version} in part: {:.40}…",
                    document.text
                );
                let history = store.history(&name).await.expect("a history");
                assert!(history[0].version >= version, "{history:?} after version {version}");
                assert!(history.windows(2).all(|pair| pair[0].version == pair[1].version + 1), "{history:?}");
                let listed = store.list(&name).await.expect("a list");
                assert!(listed.len() == 1 && listed[0].1 >= version, "{listed:?} after version {version}");
                seen = version;
                assert!(!is_last || seen > changes, "version {version} after the last change");
                tokio::task::yield_now().await;
            }
        });
    }
    for version in 1..=changes {
        fixture.put(&name, &text_of(version + 1), Some(version)).await;
    }
    is_done.store(true, Ordering::SeqCst);
    readers.join_all().await;
}
