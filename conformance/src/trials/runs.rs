//! A batch answers as its requests one by one would be answered, in order.

use tollgate_core::Request;
use tollgate_core::store::{Run, RunVerdict, State, Store};

use super::Plan;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::stand::{Stand, WHO};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("batch", batch);
    plan.each("batch_replayed_from_states", replayed);
}

/// A store that sends only states back can give every caller of a run its own verdict.
async fn replayed<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    let charges = [stand.charge(&limit, WHO).with_cost(2)];
    let run = Run::new(Request::new(&charges), 9);
    let told = stand.store().decide_batch(&[run], stand.now()).await.remove(0).expect("the store answers");
    assert_eq!(told, RunVerdict::replay(&run, &mut [State::default()], stand.now()));
    assert!(told.passed() < 9 && told.verdicts().len() == 9);
}

async fn batch<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    let (one, three) = ([stand.charge(&limit, WHO)], [stand.charge(&limit, WHO).with_cost(3)]);
    let another = [stand.charge(&limit, "another").with_cost(2)];
    let unsupported =
        [stand.charge(&limit, WHO).with_action(match limit.refusal(tollgate_core::Action::Renew) {
            Some(_) => tollgate_core::Action::Renew,
            None => tollgate_core::Action::Debit { at: None },
        })];
    let plan: [(&[_], u32); 7] =
        [(&one, 3), (&another, 2), (&three, 2), (&unsupported, 1), (&one, 7), (&another, 0), (&another, 9)];
    let runs: Vec<_> = plan.iter().map(|(charges, count)| Run::new(Request::new(charges), *count)).collect();
    let told = stand.store().decide_batch(&runs, stand.now()).await;
    assert_eq!(told.len(), plan.len(), "one answer per run");
    let mut pure = Pure::default();
    for ((charges, count), told) in plan.into_iter().zip(told) {
        if charges[0].supported().is_err() {
            assert!(told.is_err(), "a run that fails fails alone");
            continue;
        }
        let right = (0..count).map(|_| pure.decide(charges, stand.now())).collect();
        let right = RunVerdict::from_verdicts(right);
        assert_eq!(told.expect("the store answers"), right);
    }
}
