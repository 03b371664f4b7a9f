//! The suite for document stores notices faults: each test runs it on a store that has one of them.

mod faulty;

use faulty::Fault;
use tollgate_conformance::document_failures;

/// Checks that a fault makes these trials fail.
fn assert_noticed(fault: Fault, trials: &[&str]) {
    let failures = document_failures(fault, "");
    for trial in trials {
        assert!(
            failures.iter().any(|(name, _)| name == trial),
            "{fault:?} passes {trial}, and fails {failures:#?}"
        );
    }
}

#[test]
fn a_store_without_a_fault_passes() {
    let failures = document_failures(Fault::None, "");
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn missing_comparisons_are_noticed() {
    assert_noticed(
        Fault::ComparesNothing,
        &[
            "conflict::of_a_stale_version",
            "conflict::of_a_version_to_come",
            "conflict::of_an_absent_document",
            "conflict::of_a_present_document",
            "conflict::of_a_deleted_document",
            "conflict::of_a_deletion",
            "editors::one_creates",
            "editors::one_replaces_or_deletes",
        ],
    );
    assert_noticed(Fault::CreatesOverPresent, &["conflict::of_a_present_document", "editors::one_creates"]);
    assert_noticed(
        Fault::ConflictWithoutCurrent,
        &["conflict::of_a_stale_version", "conflict::of_a_deletion"],
    );
    assert_noticed(
        Fault::ConflictChanges,
        &["conflict::of_a_stale_version", "conflict::of_a_present_document"],
    );
}

/// A race is noticed every time, not sometimes.
#[test]
fn a_store_that_unlocks_before_it_writes_is_noticed() {
    for run in 0..10 {
        let failures = document_failures(Fault::UnlocksBeforeWriting, "editors::");
        assert!(!failures.is_empty(), "run {run}");
    }
}

#[test]
fn deletions_that_are_no_versions_are_noticed() {
    assert_noticed(
        Fault::ReusesVersions,
        &["deletion::is_a_version", "deletion::versions_grow", "deletion::of_the_only_kept_version"],
    );
    assert_noticed(Fault::DeletionIsCurrent, &["deletion::versions_grow", "conflict::of_a_deleted_document"]);
    assert_noticed(Fault::DeletionHasText, &["deletion::is_a_version"]);
    assert_noticed(Fault::PollsDeleted, &["poll::unchanged_changed_missing"]);
    assert_noticed(Fault::NeverUnchanged, &["poll::unchanged_changed_missing"]);
}

#[test]
fn wrong_lists_are_noticed() {
    assert_noticed(Fault::ListsDeleted, &["list::without_deleted_ones"]);
    assert_noticed(Fault::IgnoresPrefix, &["list::by_prefix", "list::prefixes_end_anywhere", "list::many"]);
    assert_noticed(Fault::PrefixIsPattern, &["list::wildcards_are_text"]);
    assert_noticed(Fault::SortsByLowerCase, &["list::is_sorted"]);
}

#[test]
fn wrong_histories_are_noticed() {
    assert_noticed(
        Fault::KeepsAll,
        &["history::is_bounded", "history::counts_deletions", "history::dropped_versions_take_no_room"],
    );
    assert_noticed(Fault::HidesOld, &["history::dropped_versions_take_no_room"]);
    assert_noticed(Fault::KeepsOneLess, &["history::is_bounded", "history::counts_deletions"]);
    assert_noticed(Fault::OldestFirst, &["history::newest_first", "deletion::is_a_version"]);
    assert_noticed(Fault::HistoryOfPrefix, &["history::of_one_document_only"]);
    assert_noticed(Fault::LosesComments, &["history::newest_first", "history::says_who_when_and_why"]);
    assert_noticed(Fault::RoundsTimes, &["history::newest_first", "history::times_are_exact"]);
}

#[test]
fn names_that_are_changed_are_noticed() {
    assert_noticed(Fault::IgnoresCase, &["names::that_look_alike", "names::of_512_bytes"]);
    assert_noticed(Fault::ResolvesPaths, &["names::that_look_alike", "names::hostile"]);
    assert_noticed(Fault::CutsNames, &["names::of_512_bytes"]);
    assert_noticed(Fault::ReadsInvalidNames, &["names::invalid"]);
}

#[test]
fn texts_that_are_changed_are_noticed() {
    assert_noticed(Fault::ChangesLineEnds, &["texts::byte_for_byte"]);
    assert_noticed(Fault::EndsLines, &["texts::byte_for_byte", "texts::a_megabyte"]);
    assert_noticed(Fault::StoresLargeTexts, &["texts::too_large"]);
}

#[test]
fn traces_of_killed_writers_are_noticed() {
    let trials = [
        "killed_writer::of_a_new_document",
        "killed_writer::of_a_replacement",
        "killed_writer::of_a_deleted_document",
    ];
    assert_noticed(Fault::KilledLeavesHalf, &trials);
    assert_noticed(Fault::KilledBlocks, &trials);
}
