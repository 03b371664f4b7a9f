//! A call that is repeated with its idempotency key gets the same result, and is not executed again.

use tollgate_core::store::{Run, Store};
use tollgate_core::{Action, AlgorithmKind, IdempotencyKey, Limit, Outcome, Request, Verdict};

use super::Plan;
use crate::fixture::{ENTITY, Fixture};
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("idempotency_keys", repeated);
    plan.add("idempotency_keys::a_key_covers_a_whole_run", run);
}

/// Returns the fields that a repetition repeats. The others may be current.
fn repeated_fields(verdict: &Verdict) -> Vec<(Outcome, u32)> {
    verdict.decisions().iter().map(|decision| (decision.outcome(), decision.granted())).collect()
}

async fn repeated<S: Store>(fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let key = IdempotencyKey::unique();
    let take = [fixture.charge(&limit, ENTITY).with_cost(3)];
    let first = repeated_fields(&fixture.decide_with_key(key, &take).await);
    let after = fixture.peek(&limit).await;
    for _ in 0..5 {
        assert_eq!(repeated_fields(&fixture.decide_with_key(key, &take).await), first, "the same result");
    }
    assert_eq!(fixture.peek(&limit).await, after, "executed once");
    if limit.kind() != AlgorithmKind::Concurrency {
        let key = IdempotencyKey::unique();
        let refund = [fixture.charge(&limit, ENTITY).with_cost(2).with_action(Action::Refund { at: None })];
        assert!(fixture.decide_with_key(key, &refund).await.is_allowed());
        let after = fixture.peek(&limit).await;
        assert!(fixture.decide_with_key(key, &refund).await.is_allowed());
        assert_eq!(fixture.peek(&limit).await, after, "refunded once");
    }
    let before = fixture.peek(&limit).await;
    let _ = fixture.decide_with_key(IdempotencyKey::unique(), &take).await;
    let after = fixture.peek(&limit).await;
    assert!(after != before || before.is_denied(), "another key is another call");
}

/// The requests of a run are executed as often as the run says, and not at all in a repetition of the run.
async fn run<S: Store>(fixture: Fixture<S>) {
    let limit = Limit::per_hour(3).build("api").expect("valid");
    let charges = [fixture.charge(&limit, ENTITY)];
    let run = [Run::new(Request::new(&charges).with_idempotency_key(IdempotencyKey::unique()), 10)];
    for _ in 0..2 {
        let result = fixture.store().decide_batch(&run, fixture.now()).await.remove(0);
        assert_eq!(result.expect("the store decides").passed(), 3, "of ten");
    }
    assert_eq!(fixture.peek(&limit).await.remaining(), 0);
}
