//! A call that is repeated with its operation id is answered, and not executed again.

use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, AlgorithmKind, IdempotencyKey, Limit, Outcome, Request, Verdict};

use super::Plan;
use crate::samples::Sample;
use crate::stand::{Stand, WHO};

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("operation_ids", repeated);
    plan.add("operation_ids::a_run_is_one_operation", run);
}

/// What a repetition must agree in with the first call; the other numbers may be of now.
fn facts(verdict: &Verdict) -> Vec<(Outcome, u32)> {
    verdict.decisions().iter().map(|told| (told.outcome(), told.granted())).collect()
}

async fn repeated<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    let id = IdempotencyKey::unique();
    let take = [stand.charge(&limit, WHO).with_cost(3)];
    let first = stand.decide_as(id, &take).await;
    let after = stand.peek(&limit).await;
    for _ in 0..5 {
        assert_eq!(facts(&stand.decide_as(id, &take).await), facts(&first), "answered as before");
    }
    assert_eq!(stand.peek(&limit).await, after, "and executed once");
    if limit.kind() != AlgorithmKind::Concurrency {
        let id = IdempotencyKey::unique();
        let back = [stand.charge(&limit, WHO).with_cost(2).with_action(Action::Refund { at: None })];
        assert!(stand.decide_as(id, &back).await.is_allowed());
        let after = stand.peek(&limit).await;
        assert!(stand.decide_as(id, &back).await.is_allowed());
        assert_eq!(stand.peek(&limit).await, after, "given back once");
    }
    let before = stand.peek(&limit).await;
    let _ = stand.decide_as(IdempotencyKey::unique(), &take).await;
    let moved = stand.peek(&limit).await;
    assert!(moved != before || before.is_denied(), "another id is another call");
}

/// An id names a run: its requests are executed as often as the run says, and a repetition not at all.
async fn run<S: Store>(stand: Stand<S>) {
    let limit = Limit::per_hour(3).build("api").expect("valid");
    let charges = [stand.charge(&limit, WHO)];
    let run = [Run::new(Request::new(&charges).with_idempotency_key(IdempotencyKey::unique()), 10)];
    for _ in 0..2 {
        let told = stand.store().decide_batch(&run, stand.now()).await.remove(0).expect("the store answers");
        assert_eq!(told.passed(), 3, "of ten");
    }
    assert_eq!(stand.peek(&limit).await.remaining(), 0);
}
