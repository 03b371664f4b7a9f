//! A change that expects another version than the current one is a conflict, and changes nothing.

use super::Plan;
use crate::documents::fixture::Fixture;
use crate::documents::suite::DocumentSubject;

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("conflict::of_a_stale_version", of_a_stale_version);
    plan.add("conflict::of_a_version_to_come", of_a_version_to_come);
    plan.add("conflict::of_an_absent_document", of_an_absent_document);
    plan.add("conflict::of_a_present_document", of_a_present_document);
    plan.add("conflict::of_a_deleted_document", of_a_deleted_document);
    plan.add("conflict::of_a_deletion", of_a_deletion);
}

async fn of_a_stale_version<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    fixture.put_all(&name, &["first", "second"]).await;
    for text in ["third", "second", ""] {
        fixture.expect_put_conflict(&name, text, Some(1), Some(2)).await;
    }
    fixture.put(&name, "third", Some(2)).await;
    assert_eq!(fixture.current(&name).await, Some(("third".to_owned(), 3)));
}

async fn of_a_version_to_come<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    fixture.put(&name, "first", None).await;
    for expected in [0, 2, 3, u64::MAX] {
        fixture.expect_put_conflict(&name, "next", Some(expected), Some(1)).await;
    }
}

async fn of_an_absent_document<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    for expected in [0, 1, 7] {
        fixture.expect_put_conflict(&name, "text", Some(expected), None).await;
    }
    assert_eq!(fixture.put(&name, "text", None).await.version, 1);
}

async fn of_a_present_document<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    fixture.put(&name, "first", None).await;
    fixture.expect_put_conflict(&name, "another", None, Some(1)).await;
}

/// The current version of a deleted document is none, so a change on the deletion's own version is a conflict, too.
async fn of_a_deleted_document<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    fixture.put(&name, "first", None).await;
    assert_eq!(fixture.delete(&name, 1).await.version, 2);
    for expected in [1, 2, 3] {
        fixture.expect_put_conflict(&name, "next", Some(expected), None).await;
        fixture.expect_delete_conflict(&name, expected, None).await;
    }
}

async fn of_a_deletion<T: DocumentSubject>(fixture: Fixture<T>) {
    let (name, absent) = (fixture.name("rules"), fixture.name("absent"));
    fixture.put_all(&name, &["first", "second"]).await;
    for expected in [0, 1, 3] {
        fixture.expect_delete_conflict(&name, expected, Some(2)).await;
    }
    fixture.expect_delete_conflict(&absent, 1, None).await;
}
