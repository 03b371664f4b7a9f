//! A batch is decided as its requests one by one would be, in order.

use tollgate_core::store::{Run, RunVerdict, State, Store};
use tollgate_core::{Action, Request};

use super::Plan;
use crate::compare::assert_run_decided;
use crate::fixture::{ENTITY, Fixture};
use crate::pure::Pure;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("batch", batch);
    plan.each("batch_replayed_from_states", replayed);
}

/// A store whose server returns only states can still return a verdict for every request of a run.
async fn replayed<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let charges = [fixture.charge(&limit, ENTITY).with_cost(2)];
    let run = Run::new(Request::new(&charges), 9);
    let result = fixture.store().decide_batch(&[run], fixture.now()).await.remove(0);
    let result = result.expect("the store decides");
    assert_run_decided(&result, &charges, 9, &mut Pure::default(), fixture.now());
    let replayed = RunVerdict::replay(&run, &mut [State::default()], fixture.now());
    assert!(result == replayed, "the store returned {result:?}, expected {replayed:?}");
    assert!(result.passed() < 9 && result.verdicts().len() == 9);
}

async fn batch<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let (one, three) = ([fixture.charge(&limit, ENTITY)], [fixture.charge(&limit, ENTITY).with_cost(3)]);
    let another = [fixture.charge(&limit, "another").with_cost(2)];
    let unsupported = [fixture.charge(&limit, ENTITY).with_action(match limit.refusal(Action::Renew) {
        Some(_) => Action::Renew,
        None => Action::Debit { at: None },
    })];
    let plan: [(&[_], u32); 7] =
        [(&one, 3), (&another, 2), (&three, 2), (&unsupported, 1), (&one, 7), (&another, 0), (&another, 9)];
    let runs: Vec<_> = plan.iter().map(|(charges, count)| Run::new(Request::new(charges), *count)).collect();
    let results = fixture.store().decide_batch(&runs, fixture.now()).await;
    assert_eq!(results.len(), plan.len(), "one result per run");
    let mut pure = Pure::default();
    for ((charges, count), result) in plan.into_iter().zip(results) {
        if charges[0].supported().is_err() {
            assert!(result.is_err(), "only the run that is not supported fails");
            continue;
        }
        let result = result.expect("the store decides");
        assert_run_decided(&result, charges, count, &mut pure, fixture.now());
    }
}
