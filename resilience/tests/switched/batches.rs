//! Batches: every run has its result at its position, with one call.

use tollgate_core::store::{Run, RunVerdict, Store};
use tollgate_core::{Action, Decision, IdempotencyKey, Outcome, Request, Source, StoreError};

use crate::recording::{Call, NOW, ready, requested, unavailable};
use crate::{limit, switched};

const KEY: IdempotencyKey = IdempotencyKey::new(42);
/// The part of the idempotency key of the first shadowed charge.
const SHADOWED_PART: u32 = 1 << 31;

/// Returns whether each request of a run passed, and what its charges were granted.
fn granted(result: &Result<RunVerdict, StoreError>) -> Vec<(bool, Vec<u32>)> {
    let verdicts = result.as_ref().expect("a decision").verdicts().iter();
    verdicts
        .map(|verdict| (verdict.is_allowed(), verdict.decisions().iter().map(Decision::granted).collect()))
        .collect()
}

#[test]
fn runs_keep_their_positions_with_one_call() {
    let (store, api, daily) = (switched(), limit("api", 3), limit("daily", 10));
    store.switches().off("daily");
    store.switches().deny("bad");
    let (plain, off, deny_listed) = ([api.charge("a")], [daily.charge("a")], [api.charge("bad")]);
    let mixed = [daily.charge("a").with_cost(7), api.charge("a")];
    let runs = [
        Run::new(Request::new(&off), 3),
        Run::new(Request::new(&plain), 2),
        Run::new(Request::new(&deny_listed), 2),
        Run::new(Request::new(&mixed).with_idempotency_key(KEY), 2),
        Run::new(Request::new(&off), 0),
    ];
    let results = ready(store.decide_batch(&runs, NOW));
    assert_eq!(results.len(), 5);
    assert_eq!(granted(&results[0]), vec![(true, vec![1]); 3]);
    assert_eq!(granted(&results[1]), vec![(true, vec![1]); 2]);
    assert_eq!(granted(&results[2]), vec![(false, vec![0]); 2]);
    let denied = results[2].as_ref().expect("a decision").verdicts()[1].decisions()[0];
    assert_eq!((denied.outcome(), denied.source()), (Outcome::DenyListed, Source::Switch));
    assert_eq!(granted(&results[3]), [(true, vec![7, 1]), (false, vec![0, 0])]);
    assert_eq!(granted(&results[4]), []);
    let runs = vec![(requested(["api"]), 2), (requested(["api"]).with_key(KEY), 2)];
    assert_eq!(store.store().calls(), [Call::Batch(runs)]);
}

#[test]
fn a_batch_of_limits_that_are_off_makes_no_call() {
    let (store, api) = (switched(), limit("api", 3));
    store.switches().all_off();
    let charges = [api.charge("a")];
    let results = ready(store.decide_batch(&[Run::new(Request::new(&charges), 9)], NOW));
    assert_eq!(granted(&results[0]), vec![(true, vec![1]); 9]);
    assert_eq!(store.store().calls(), []);
}

#[test]
fn a_batch_without_switched_limits_is_forwarded() {
    let (store, api) = (switched(), limit("api", 3));
    store.switches().off("another");
    let charges = [api.charge("a")];
    let results = ready(store.decide_batch(&[Run::new(Request::new(&charges), 4)], NOW));
    assert_eq!(results[0].as_ref().expect("a decision").passed(), 3);
    assert_eq!(store.store().calls(), [Call::Batch(vec![(requested(["api"]), 4)])]);
}

#[test]
fn shadowed_charges_of_a_run_are_counted_and_refunded_if_the_rest_is_denied() {
    let (store, api, new) = (switched(), limit("api", 3), limit("new", 4));
    store.switches().shadow("new");
    let charges = [new.charge("a"), api.charge("a")];
    let run = Run::new(Request::new(&charges).with_idempotency_key(KEY), 5);
    let results = ready(store.decide_batch(&[run], NOW));
    let expected: Vec<_> =
        [true, true, true, false, false].map(|passed| (passed, vec![u32::from(passed); 2])).to_vec();
    assert_eq!(granted(&results[0]), expected);
    let runs = vec![
        (requested(["api"]).with_key(KEY), 5),
        (requested(["new"]).with_key(KEY.part(SHADOWED_PART)), 5),
    ];
    let refund = requested(["new"]).with_key(KEY.part(u32::MAX));
    assert_eq!(store.store().calls(), [Call::Batch(runs), Call::Detached(refund)]);
    // Four fitted, and the request of one of them did not pass.
    assert_eq!((store.store().remaining(&new, "a"), store.store().remaining(&api, "a")), (1, 0));
    let stats = store.stats().shadow["new"];
    assert_eq!((stats.evaluated, stats.would_deny), (5, 1));
}

#[test]
fn a_failed_run_does_not_affect_others() {
    let (store, api, new, bad) = (switched(), limit("api", 9), limit("new", 9), limit("bad", 9));
    store.switches().shadow("new");
    store.store().fail("bad", unavailable());
    let (failing, unsupported) =
        ([new.charge("a"), bad.charge("a")], [api.charge("a").with_action(Action::Renew)]);
    let fine = [new.charge("a"), api.charge("a")];
    let runs = [&failing[..], &unsupported, &fine].map(|charges| Run::new(Request::new(charges), 1));
    let results = ready(store.decide_batch(&runs, NOW));
    assert!(results[0].is_err() && results[1].is_err());
    assert_eq!(granted(&results[2]), [(true, vec![1, 1])]);
    assert_eq!(store.store().remaining(&new, "a"), 8, "the shadowed charge of the failed run is refunded");
}
