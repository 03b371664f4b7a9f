//! Documents are created, replaced and rolled back.

use tollgate_core::documents::{Document, DocumentStore, Polled};

use super::Plan;
use crate::documents::fixture::{Fixture, by_ada};
use crate::documents::suite::{DocumentSubject, Requirement};

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("changes::absent", absent);
    plan.add("changes::create", create);
    plan.add("changes::replace", replace);
    plan.add("changes::same_text", same_text);
    plan.add("changes::roll_back", roll_back);
    plan.add_requiring(Requirement::AnotherClient, "changes::visible_to_another_client", visible);
}

async fn absent<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("absent");
    let everything = fixture.everything(&name).await;
    assert_eq!(everything.current, None);
    assert_eq!(everything.history, []);
    assert!(everything.versions.iter().all(Option::is_none), "{everything:?}");
    assert_eq!(everything.listed, []);
    assert_eq!(fixture.poll(&name, None).await, Polled::Missing);
}

async fn create<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    let revision = fixture.put(&name, "domain: shop", None).await;
    assert_eq!(revision, by_ada().revision(1, false));
    let document = Document { text: "domain: shop".to_owned(), revision: revision.clone() };
    assert_eq!(fixture.get(&name).await, Some(document.clone()));
    assert_eq!(fixture.get_version(&name, 1).await, Some(document));
    assert_eq!(fixture.history(&name).await, [revision]);
    assert_eq!(fixture.list("").await, [(name, 1)]);
}

async fn replace<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    fixture.put(&name, "first, which is longer", None).await;
    let second = by_ada().with_comment("shorter");
    let revision = fixture.store.put(&name, "second", Some(1), &second).await.expect("the second version");
    assert_eq!(revision, second.revision(2, false));
    assert_eq!(fixture.get(&name).await, Some(Document { text: "second".to_owned(), revision }));
    assert_eq!(fixture.list("").await, [(name, 2)]);
}

async fn same_text<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    fixture.put_all(&name, &["same", "same"]).await;
    assert_eq!(fixture.current(&name).await, Some(("same".to_owned(), 2)));
    assert_eq!(fixture.versions(&name).await, [2, 1]);
}

async fn roll_back<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    fixture.put_all(&name, &["good", "broken"]).await;
    let old = fixture.get_version(&name, 1).await.expect("the first version is kept");
    fixture.put(&name, &old.text, Some(2)).await;
    assert_eq!(fixture.current(&name).await, Some(("good".to_owned(), 3)));
}

/// Every client sees a change at once, and expects the versions of the others.
async fn visible<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    let other = fixture.subject.open_another(&fixture.store).await.expect("another client");
    assert_eq!(other.get(&name).await.expect("no document"), None);
    fixture.put(&name, "first", None).await;
    assert_eq!(other.get(&name).await.expect("a document"), fixture.get(&name).await);
    other.put(&name, "second", Some(1), &by_ada()).await.expect("the second version");
    assert_eq!(fixture.current(&name).await, Some(("second".to_owned(), 2)));
    assert_eq!(other.history(&name).await.expect("a history"), fixture.history(&name).await);
    fixture.delete(&name, 2).await;
    assert_eq!(other.get(&name).await.expect("no document"), None);
}
