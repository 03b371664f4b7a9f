//! Readers poll for changes.

use tollgate_core::documents::Polled;

use super::Plan;
use crate::documents::fixture::Fixture;
use crate::documents::suite::DocumentSubject;

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("poll::unchanged_changed_missing", unchanged_changed_missing);
}

async fn unchanged_changed_missing<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    assert_eq!(fixture.poll(&name, None).await, Polled::Missing);
    assert_eq!(fixture.poll(&name, Some(1)).await, Polled::Missing);

    fixture.put(&name, "first", None).await;
    let first = fixture.get(&name).await.expect("a document");
    assert_eq!(fixture.poll(&name, None).await, Polled::Changed(first.clone()));
    assert_eq!(fixture.poll(&name, Some(1)).await, Polled::Unchanged);
    assert_eq!(fixture.poll(&name, Some(0)).await, Polled::Changed(first.clone()));
    assert_eq!(fixture.poll(&name, Some(2)).await, Polled::Changed(first), "a reader from the future");

    fixture.put(&name, "first", Some(1)).await;
    let second = fixture.get(&name).await.expect("a document");
    assert_eq!(fixture.poll(&name, Some(1)).await, Polled::Changed(second), "the text is the same");
    assert_eq!(fixture.poll(&name, Some(2)).await, Polled::Unchanged);

    fixture.delete(&name, 2).await;
    for known in [None, Some(1), Some(2), Some(3)] {
        assert_eq!(fixture.poll(&name, known).await, Polled::Missing, "after the deletion, known {known:?}");
    }
    fixture.put(&name, "again", None).await;
    let again = fixture.get(&name).await.expect("a document");
    assert_eq!(fixture.poll(&name, Some(2)).await, Polled::Changed(again));
}
