//! The suite notices faults that are easy to have and hard to see: each test runs it on a store that has one of them.

mod faulty;

use faulty::Fault;
use tollgate_conformance::failures;

/// Returns the names of the trials that a fault makes fail.
fn failed(fault: Fault, filter: &str) -> Vec<String> {
    failures(fault, filter).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_store_without_a_fault_passes() {
    let failures = failures(Fault::None, "");
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_store_that_grows_is_noticed() {
    let failed = failed(Fault::KeepsExpired, "expired_states_take_no_room");
    assert!(failed.len() >= 18, "under every algorithm: {failed:?}");
}

#[test]
fn a_store_that_wipes_all_states_is_noticed() {
    assert_eq!(failed(Fault::WipesAtHundred, "key_isolation"), ["key_isolation::many_keys"]);
}

/// A race is noticed every time, not sometimes.
#[test]
fn a_store_that_unlocks_before_it_writes_is_noticed() {
    for run in 0..10 {
        let failed = failed(Fault::UnlocksBeforeWriting, "no_update_is_lost");
        assert_eq!(failed, ["concurrent_callers::no_update_is_lost"], "run {run}");
    }
}

#[test]
fn a_log_whose_entries_end_late_is_noticed() {
    let failed = failed(Fault::LogEndsLate, "boundary_of_several_instants");
    for trial in ["sliding_log", "sliding_log_with_gap", "of_a_long_log"] {
        assert!(failed.iter().any(|name| name.ends_with(trial)), "{trial} passes, these fail: {failed:?}");
    }
}

#[test]
fn a_store_that_does_not_encode_braces_is_noticed() {
    let failed = failed(Fault::BracesNotEncoded, "key_isolation");
    assert_eq!(failed, ["key_isolation::names_that_look_alike"]);
}

#[test]
fn a_state_with_the_parameters_of_another_charge_is_noticed() {
    let failed = failed(Fault::FirstParameters, "live_change_in_one_request");
    assert!(failed.iter().any(|name| name.ends_with("token_bucket")), "{failed:?}");
}

#[test]
fn a_store_that_only_claims_idempotency_is_noticed() {
    assert!(!failed(Fault::ClaimsIdempotency, "idempotency_keys").is_empty());
    assert!(!failed(Fault::ClaimsIdempotency, "deltas_are_applied_once").is_empty());
}

#[test]
fn a_store_that_forgets_states_with_deltas_is_noticed() {
    let failed = failed(Fault::ForgetsStates, "forgotten_deltas");
    assert!(failed.len() >= 17, "under every algorithm with deltas: {failed:?}");
}

/// The contract lets a store drop the state of a bucket that is full again, so the trials accept it.
#[test]
fn a_store_that_forgets_fresh_states_passes() {
    for behaviour in ["deltas", "debit", "refund", "expiry", "any_store", "single_charge"] {
        let failures = failures(Fault::ForgetsFresh, behaviour);
        assert!(failures.is_empty(), "{failures:#?}");
    }
}

/// A message says what the store decided and what was expected, for which charge, under which limit, and when.
#[test]
fn a_failure_shows_both_sides_the_charge_and_the_time() {
    let failures = failures(Fault::LogEndsLate, "boundary_of_several_instants::sliding_log");
    let message = &failures.first().expect("a failure").1;
    for part in [
        "decided by the store: Decision",
        "expected:             Decision",
        "at 1790000001.",
        "`sliding_log` (sliding log, 10 per 1s, capacity 10)",
        "\"user:42\"",
        "the last calls of the store",
    ] {
        assert!(message.contains(part), "no {part:?} in:\n{message}");
    }
}
