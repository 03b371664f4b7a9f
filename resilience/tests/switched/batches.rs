//! Batches: every run is answered in its place and as often as it says, with one call.

use tollgate_core::store::{Run, RunVerdict, Store};
use tollgate_core::{Action, Decision, IdempotencyKey, Outcome, Request, Source, StoreError};

use crate::recorded::{Call, NOW, asked, ready, unavailable};
use crate::{limit, switched};

const ID: IdempotencyKey = IdempotencyKey::new(42);
/// Where the ids of watched charges begin.
const WATCHED: u32 = 1 << 31;

/// The granted amounts of every request of a run, and whether it passed.
fn granted(answer: &Result<RunVerdict, StoreError>) -> Vec<(bool, Vec<u32>)> {
    let verdicts = answer.as_ref().expect("answered").verdicts().iter();
    verdicts
        .map(|verdict| (verdict.is_allowed(), verdict.decisions().iter().map(Decision::granted).collect()))
        .collect()
}

#[test]
fn runs_are_answered_in_place_with_one_call() {
    let (store, api, daily) = (switched(), limit("api", 3), limit("daily", 10));
    store.switches().off("daily");
    store.switches().deny("bad");
    let (plain, off, barred) = ([api.charge("a")], [daily.charge("a")], [api.charge("bad")]);
    let mixed = [daily.charge("a").with_cost(7), api.charge("a")];
    let runs = [
        Run::new(Request::new(&off), 3),
        Run::new(Request::new(&plain), 2),
        Run::new(Request::new(&barred), 2),
        Run::new(Request::new(&mixed).with_idempotency_key(ID), 2),
        Run::new(Request::new(&off), 0),
    ];
    let told = ready(store.decide_batch(&runs, NOW));
    assert_eq!(told.len(), 5);
    assert_eq!(granted(&told[0]), vec![(true, vec![1]); 3]);
    assert_eq!(granted(&told[1]), vec![(true, vec![1]); 2]);
    assert_eq!(granted(&told[2]), vec![(false, vec![0]); 2]);
    let barred = told[2].as_ref().expect("answered").verdicts()[1].decisions()[0];
    assert_eq!((barred.outcome(), barred.source()), (Outcome::DenyListed, Source::Switch));
    assert_eq!(granted(&told[3]), [(true, vec![7, 1]), (false, vec![0, 0])]);
    assert_eq!(granted(&told[4]), []);
    let asked = vec![(asked(["api"]), 2), (asked(["api"]).named(ID), 2)];
    assert_eq!(store.store().calls(), [Call::Batch(asked)]);
}

#[test]
fn a_batch_that_is_off_makes_no_call() {
    let (store, api) = (switched(), limit("api", 3));
    store.switches().all_off();
    let charges = [api.charge("a")];
    let told = ready(store.decide_batch(&[Run::new(Request::new(&charges), 9)], NOW));
    assert_eq!(granted(&told[0]), vec![(true, vec![1]); 9]);
    assert_eq!(store.store().calls(), []);
}

#[test]
fn a_batch_that_is_not_concerned_goes_as_it_is() {
    let (store, api) = (switched(), limit("api", 3));
    store.switches().off("another");
    let charges = [api.charge("a")];
    let told = ready(store.decide_batch(&[Run::new(Request::new(&charges), 4)], NOW));
    assert_eq!(told[0].as_ref().expect("answered").passed(), 3);
    assert_eq!(store.store().calls(), [Call::Batch(vec![(asked(["api"]), 4)])]);
}

#[test]
fn watched_charges_of_a_run_are_counted_as_often_and_given_back_where_the_rest_is_denied() {
    let (store, api, new) = (switched(), limit("api", 3), limit("new", 4));
    store.switches().shadow("new");
    let charges = [new.charge("a"), api.charge("a")];
    let run = Run::new(Request::new(&charges).with_idempotency_key(ID), 5);
    let told = ready(store.decide_batch(&[run], NOW));
    let right: Vec<_> =
        [true, true, true, false, false].map(|passed| (passed, vec![u32::from(passed); 2])).to_vec();
    assert_eq!(granted(&told[0]), right);
    let runs = vec![(asked(["api"]).named(ID), 5), (asked(["new"]).named(ID.part(WATCHED)), 5)];
    let back = asked(["new"]).named(ID.part(u32::MAX));
    assert_eq!(store.store().calls(), [Call::Batch(runs), Call::Detached(back)]);
    // Four fitted, and one of them was of a request that did not pass.
    assert_eq!((store.store().left(&new, "a"), store.store().left(&api, "a")), (1, 0));
    let report = store.switches().shadow_report("new").expect("watched");
    assert_eq!((report.evaluated, report.would_deny), (5, 1));
}

#[test]
fn a_run_that_fails_fails_alone() {
    let (store, api, new, bad) = (switched(), limit("api", 9), limit("new", 9), limit("bad", 9));
    store.switches().shadow("new");
    store.store().fail("bad", unavailable());
    let (failing, unsupported) =
        ([new.charge("a"), bad.charge("a")], [api.charge("a").with_action(Action::Renew)]);
    let fine = [new.charge("a"), api.charge("a")];
    let runs = [&failing[..], &unsupported, &fine].map(|charges| Run::new(Request::new(charges), 1));
    let told = ready(store.decide_batch(&runs, NOW));
    assert!(told[0].is_err() && told[1].is_err());
    assert_eq!(granted(&told[2]), [(true, vec![1, 1])]);
    assert_eq!(store.store().left(&new, "a"), 8, "what went with the failed one is back");
}
