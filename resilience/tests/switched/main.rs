//! What switches do to charges, requests and batches, and which calls reach the store.

mod batches;
mod lists;
mod off;
mod recording;
mod shadow;
mod state;
mod threads;

use recording::{NOW, RecordingStore, ready};
use tollgate_core::store::{ImmediateStore, Store};
use tollgate_core::{Charge, Decision, Limit, Request, Verdict};
use tollgate_resilience::Switched;

fn switched() -> Switched<RecordingStore> {
    Switched::new(RecordingStore::new())
}

fn limit(name: &str, capacity: u32) -> Limit {
    Limit::per_hour(capacity).build(name).expect("valid")
}

type Decide = fn(&Switched<RecordingStore>, &[Charge<'_>]) -> Verdict;

/// Decides a request, with and without waiting. Both decisions must be the same.
const DECIDE: [Decide; 2] = [
    |store, charges| ready(store.decide(Request::new(charges), NOW)).expect("a decision"),
    |store, charges| store.decide_now(Request::new(charges), NOW).expect("a decision"),
];

type DecideOne = fn(&Switched<RecordingStore>, &Charge<'_>) -> Decision;

/// Decides a single charge, by every method.
const DECIDE_ONE: [DecideOne; 4] = [
    |store, charge| ready(store.decide_one(charge, &NOW)).expect("a decision"),
    |store, charge| store.charge_now(charge, &NOW),
    |store, charge| DECIDE[0](store, &[*charge]).decisions()[0],
    |store, charge| DECIDE[1](store, &[*charge]).decisions()[0],
];
