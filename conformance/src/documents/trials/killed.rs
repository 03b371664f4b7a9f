//! Writers that are killed between their steps.

use super::Plan;
use crate::documents::fixture::Fixture;
use crate::documents::suite::{DocumentSubject, KilledPut, Requirement};

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add_requiring(Requirement::KilledWriters, "killed_writer::of_a_new_document", of_a_new_document);
    plan.add_requiring(Requirement::KilledWriters, "killed_writer::of_a_replacement", of_a_replacement);
    plan.add_requiring(
        Requirement::KilledWriters,
        "killed_writer::of_a_deleted_document",
        of_a_deleted_document,
    );
}

async fn of_a_new_document<T: DocumentSubject>(fixture: Fixture<T>) {
    after_every_step(&fixture, &[]).await;
}

/// Of one that has as many versions as are kept, so that the put also drops one.
async fn of_a_replacement<T: DocumentSubject>(fixture: Fixture<T>) {
    let versions = vec![true; fixture.subject.history()];
    after_every_step(&fixture, &versions).await;
}

async fn of_a_deleted_document<T: DocumentSubject>(fixture: Fixture<T>) {
    after_every_step(&fixture, &[true, false]).await;
}

/// Kills a writer after each of its steps, on a document with these versions (false is a deletion). Whatever it leaves
/// behind, readers see the version before or the new one in full, and the next changes succeed.
async fn after_every_step<T: DocumentSubject>(fixture: &Fixture<T>, versions: &[bool]) {
    for steps in 0..100 {
        let name = fixture.name(&format!("{steps}"));
        let mut expected = None;
        for (index, is_text) in versions.iter().enumerate() {
            if *is_text {
                expected = Some(fixture.put(&name, "old", expected).await.version);
            } else {
                fixture.delete(&name, index as u64).await;
                expected = None;
            }
        }
        let change = KilledPut { name: &name, text: "new", expected };
        if !fixture.subject.kill_writer(&fixture.store, change, steps).await {
            assert!(steps > 0, "a writer that can be killed before its first step");
            return;
        }
        let before = versions.len() as u64;
        expect_old_or_new(fixture, &name, before, expected, steps).await;
    }
    panic!("a put has less than 100 steps");
}

async fn expect_old_or_new<T: DocumentSubject>(
    fixture: &Fixture<T>,
    name: &str,
    before: u64,
    expected: Option<u64>,
    steps: usize,
) {
    let seen = fixture.current(name).await;
    let (old, new) =
        (expected.map(|version| ("old".to_owned(), version)), Some(("new".to_owned(), before + 1)));
    assert!(seen == old || seen == new, "{seen:?} after a writer was killed after {steps} steps");
    let last = if seen == new { before + 1 } else { before };
    let history = fixture.versions(name).await;
    assert_eq!(history.first().copied().unwrap_or(0), last, "the newest of {history:?} after {steps} steps");
    let listed = fixture.list(name.rsplit('/').next().unwrap_or(name)).await;
    let listed: Vec<_> = listed.into_iter().filter(|(listed, _)| listed == name).collect();
    assert_eq!(listed.first().map(|(_, version)| *version), seen.as_ref().map(|(_, version)| *version));
    assert_eq!(fixture.get_version(name, last + 1).await, None, "no version after the current one");

    // The next changes succeed, and what the writer left behind does not become a version later.
    let mut current = seen.map(|(_, version)| version);
    for next in last + 1..=last + 2 * fixture.subject.history() as u64 {
        current = Some(fixture.put(name, &format!("next {next}"), current).await.version);
        assert_eq!(current, Some(next), "after a writer was killed after {steps} steps");
        assert_eq!(fixture.current(name).await, Some((format!("next {next}"), next)));
    }
    let kept = fixture.versions(name).await;
    assert_eq!(
        kept.len(),
        fixture.subject.history(),
        "{kept:?} after a writer was killed after {steps} steps"
    );
    if let Some(held) = fixture.subject.held_versions(&fixture.store, name).await {
        assert_eq!(held, kept.len(), "versions that are held after a writer was killed after {steps} steps");
    }
}
