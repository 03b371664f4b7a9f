//! Requests over two places, without servers.

use alloc::sync::Arc;
use alloc::vec::Vec;
use std::collections::HashMap;
use std::sync::Mutex;

use super::*;
use crate::store::{State, settle, state_indexes};
use crate::{LeaseId, Limit};

const NOW: Time = Time::from_secs(1_790_000_000);

/// Keys that start with `a` live in one place, all others in the other.
#[derive(Default)]
struct TwoPlaces {
    states: Mutex<HashMap<(u64, Vec<u8>), State>>,
    calls: Mutex<Vec<(bool, usize)>>,
}

impl TwoPlaces {
    fn settle(&self, charges: &[Charge<'_>], now: Time) -> Verdict {
        let (indexes, count) = state_indexes(charges);
        let id = |charge: &Charge<'_>| (charge.limit().id(), charge.key().entity().to_vec());
        let mut all = self.states.lock().expect("not poisoned");
        let mut states = vec![State::default(); count];
        for (charge, index) in charges.iter().zip(&indexes) {
            states[*index] = all.get(&id(charge)).cloned().unwrap_or_default();
        }
        let verdict = settle(charges, &indexes, &mut states, now);
        for (charge, index) in charges.iter().zip(&indexes) {
            all.insert(id(charge), states[*index].clone());
        }
        verdict
    }

    fn calls(&self) -> Vec<(bool, usize)> {
        core::mem::take(&mut *self.calls.lock().expect("not poisoned"))
    }
}

impl Places for TwoPlaces {
    type Place = bool;

    fn place(&self, charge: &Charge<'_>) -> bool {
        charge.key().entity().starts_with(b"a")
    }

    fn check_run(&self, run: &Run<'_>) -> Result<(), StoreError> {
        run.request().supported()
    }

    async fn decide_runs(
        &self,
        place: &bool,
        runs: &[Run<'_>],
        now: Time,
    ) -> Vec<Result<RunVerdict, StoreError>> {
        let mut results = Vec::new();
        for run in runs {
            let charges = run.request().charges();
            self.calls.lock().expect("not poisoned").push((*place, charges.len()));
            results.push(Ok(RunVerdict::from_verdicts(vec![self.settle(charges, now)])));
        }
        results
    }

    async fn compensate(
        &self,
        _: &Part<'_, bool>,
        charges: &[Charge<'_>],
        _: Option<IdempotencyKey>,
        now: Time,
    ) -> Result<Option<Verdict>, StoreError> {
        Ok(Some(self.settle(charges, now)))
    }
}

fn decide(store: &Arc<TwoPlaces>, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(decide_across(store, Request::new(charges), NOW))
}

fn remaining(store: &TwoPlaces, charge: Charge<'_>) -> u32 {
    store.settle(&[charge.with_cost(0)], NOW).decisions()[0].remaining()
}

#[test]
fn a_denied_request_resets_and_releases_nothing() {
    let (api, jobs) = (Limit::per_hour(10).build("api"), Limit::concurrent(2).build("jobs"));
    let (api, jobs, store) = (api.expect("valid"), jobs.expect("valid"), Arc::new(TwoPlaces::default()));
    let slot = jobs.charge("alice").with_lease(LeaseId::new(7));
    assert!(decide(&store, &[api.charge("alice").with_cost(4), slot]).expect("a decision").is_allowed());
    assert!(decide(&store, &[api.charge("bob").with_cost(10)]).expect("a decision").is_allowed());
    for (action, charge) in [(Action::Reset, api.charge("alice")), (Action::Release, slot)] {
        let before = remaining(&store, charge.with_action(Action::Take { max_wait: None }));
        for take_first in [false, true] {
            let mut charges = [charge.with_action(action), api.charge("bob"), api.charge("andy")];
            if take_first {
                charges.swap(0, 1);
            }
            let denied = decide(&store, &charges).expect("a decision");
            assert!(denied.is_denied());
            let outcomes: Vec<_> = denied.decisions().iter().map(Decision::is_allowed).collect();
            assert_eq!(outcomes, if take_first { [false, true, true] } else { [true, false, true] });
            assert!(denied.decisions().iter().all(|decision| decision.granted() == 0));
            let after = remaining(&store, charge.with_action(Action::Take { max_wait: None }));
            assert_eq!((after, remaining(&store, api.charge("andy"))), (before, 10), "{action:?}");
        }
        // A place that only resets or releases.
        let alone = [charge.with_action(action), api.charge("bob")];
        assert!(decide(&store, &alone).expect("a decision").is_denied());
        let after = remaining(&store, charge.with_action(Action::Take { max_wait: None }));
        assert_eq!(after, before, "{action:?}");
        let charges = [charge.with_action(action), api.charge("carol")];
        assert!(decide(&store, &charges).expect("a decision").is_allowed());
        let after = remaining(&store, charge.with_action(Action::Take { max_wait: None }));
        assert!(after > before, "{action:?}: {after} after {before}");
    }
    assert_eq!(remaining(&store, api.charge("carol")), 8);
}

#[test]
fn places_are_called_together_unless_something_cannot_be_reversed() {
    let (api, store) = (Limit::per_hour(10).build("api").expect("valid"), Arc::new(TwoPlaces::default()));
    let takes = [api.charge("alice"), api.charge("bob")];
    assert!(decide(&store, &takes).expect("a decision").is_allowed());
    assert_eq!(store.calls(), [(true, 1), (false, 1)]);
    let reset = [api.charge("alice").with_action(Action::Reset), api.charge("andy"), api.charge("bob")];
    assert!(decide(&store, &reset).expect("a decision").is_allowed());
    assert_eq!(store.calls(), [(false, 1), (true, 2)], "the reset waits for the other place");
}

#[test]
fn two_places_that_may_deny_and_cannot_be_reversed_are_refused_before_anything_is_sent() {
    let (api, store) = (Limit::per_hour(10).build("api").expect("valid"), Arc::new(TwoPlaces::default()));
    let both = ["alice", "bob"].map(|key| [api.charge(key).with_action(Action::Reset), api.charge(key)]);
    let error = decide(&store, both.as_flattened()).expect_err("one reset could not be undone");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Unsupported, Effect::None));
    assert!(error.to_string().contains("requests of their own"), "{error}");
    assert!(store.calls().is_empty());
    let resets = ["alice", "bob"].map(|key| api.charge(key).with_action(Action::Reset));
    assert!(decide(&store, &resets).expect("resets are not denied").is_allowed());
}
