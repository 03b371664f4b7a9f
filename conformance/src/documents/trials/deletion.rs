//! A deletion is a version without text, so that versions only grow.

use super::Plan;
use crate::documents::fixture::{Fixture, by_ada};
use crate::documents::suite::DocumentSubject;

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("deletion::is_a_version", is_a_version);
    plan.add("deletion::versions_grow", versions_grow);
    plan.add("deletion::of_the_only_kept_version", of_the_only_kept_version);
}

async fn is_a_version<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    let created = fixture.put(&name, "text", None).await;
    let deletion = fixture.delete(&name, 1).await;
    assert_eq!(deletion, by_ada().revision(2, true));
    assert_eq!(fixture.get(&name).await, None);
    assert_eq!(fixture.get_version(&name, 2).await, None, "a deletion has no text");
    let before = fixture.get_version(&name, 1).await.expect("the version before is kept");
    assert_eq!((before.text.as_str(), before.revision), ("text", created.clone()));
    assert_eq!(fixture.history(&name).await, [deletion, created]);
}

/// An editor who has version 1 in front of him must not replace another version 1.
async fn versions_grow<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("rules");
    for round in 0..4 {
        let text = format!("round {round}");
        let created = fixture.put(&name, &text, None).await;
        assert_eq!(created.version, 3 * round + 1);
        assert_eq!(fixture.current(&name).await, Some((text, 3 * round + 1)));
        assert_eq!(fixture.put(&name, "changed", Some(created.version)).await.version, 3 * round + 2);
        assert_eq!(fixture.delete(&name, 3 * round + 2).await.version, 3 * round + 3);
    }
}

/// Also when every version before the deletion has been dropped, the versions go on from it.
async fn of_the_only_kept_version<T: DocumentSubject>(fixture: Fixture<T>) {
    let (name, kept) = (fixture.name("rules"), fixture.subject.history() as u64);
    let version = 4 * kept;
    for made in (0..version).step_by(2) {
        assert_eq!(fixture.put(&name, "text", None).await.version, made + 1);
        assert_eq!(fixture.delete(&name, made + 1).await.version, made + 2);
    }
    let expected: Vec<_> = (version - kept + 1..=version).rev().collect();
    assert_eq!(fixture.versions(&name).await, expected);
    assert_eq!(fixture.put(&name, "again", None).await.version, version + 1);
}
