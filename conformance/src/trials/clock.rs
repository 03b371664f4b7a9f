//! A clock that runs backwards never adds tokens and never causes a panic.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Limit, Time};

use super::Plan;
use crate::fixture::Fixture;
use crate::pure::Pure;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("clock_backwards", backwards);
    plan.each("clock_extremes", extremes);
}

async fn backwards<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    fixture.exhaust(&limit).await;
    let left = fixture.peek(&limit).await.remaining();
    for span in [1, 1_000, 1_000_000, 1_000_000_000] {
        fixture.back(Duration::from_nanos(span));
        let decision = fixture.take(&limit, 1).await;
        assert!(decision.is_denied(), "{span} ns back added tokens: {decision:?}");
        assert!(decision.remaining() <= left, "{span} ns back added tokens: {decision:?}");
    }
}

async fn extremes<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    let instants = [Time::MAX, Time::EPOCH, Time::from_nanos(1), fixture.now(), Time::MAX, fixture.now()];
    for (visit, now) in instants.into_iter().enumerate() {
        fixture.set(now);
        let (mut pure, new_key) = (Pure::default(), format!("visit {visit}"));
        for cost in [0, 1, limit.capacity(), Limit::MAX_COUNT] {
            // A key that has seen every instant gets some decision; a new key gets that of the pure function.
            let _ = fixture.take(&limit, cost).await;
            let charge = [fixture.charge(&limit, &new_key).with_cost(cost)];
            let _ = fixture.agrees(&mut pure, &charge, &format!("cost {cost} of a new key")).await;
        }
    }
}
