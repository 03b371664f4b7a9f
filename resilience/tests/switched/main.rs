//! What switches do to charges, requests and batches, and what the store is asked meanwhile.

mod batches;
mod lists;
mod off;
mod recorded;
mod shadow;
mod state;
mod threads;

use recorded::{NOW, Recorded, ready};
use tollgate_core::store::{ImmediateStore, Store};
use tollgate_core::{Charge, Decision, Limit, Request, Verdict};
use tollgate_resilience::Switched;

fn switched() -> Switched<Recorded> {
    Switched::new(Recorded::new())
}

fn limit(name: &str, capacity: u32) -> Limit {
    Limit::per_hour(capacity).build(name).expect("valid")
}

type Ask = fn(&Switched<Recorded>, &[Charge<'_>]) -> Verdict;

/// A request, with and without waiting: both must be told the same.
const BOTH: [Ask; 2] = [
    |store, charges| ready(store.decide(Request::new(charges), NOW)).expect("answered"),
    |store, charges| store.decide_now(Request::new(charges), NOW).expect("answered"),
];

type AskOne = fn(&Switched<Recorded>, &Charge<'_>) -> Decision;

/// A single charge, by all ways there are.
const EVERY_WAY: [AskOne; 4] = [
    |store, charge| ready(store.decide_one(charge, &NOW)).expect("answered"),
    |store, charge| store.charge_now(charge, &NOW),
    |store, charge| BOTH[0](store, &[*charge]).decisions()[0],
    |store, charge| BOTH[1](store, &[*charge]).decisions()[0],
];
