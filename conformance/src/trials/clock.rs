//! Time that runs backwards never gives anything back and never panics.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Limit, Time};

use super::Plan;
use crate::pure::Pure;
use crate::samples::Sample;
use crate::stand::Stand;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("clock_backwards", backwards);
    plan.each("clock_extremes", extremes);
}

async fn backwards<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    stand.exhaust(&limit).await;
    let left = stand.peek(&limit).await.remaining();
    for span in [1, 1_000, 1_000_000, 1_000_000_000] {
        stand.back(Duration::from_nanos(span));
        let told = stand.take(&limit, 1).await;
        assert!(told.is_denied(), "{span} ns back gave something: {told:?}");
        assert!(told.remaining() <= left, "{span} ns back gave something: {told:?}");
    }
}

async fn extremes<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    let instants = [Time::MAX, Time::EPOCH, Time::from_nanos(1), stand.now(), Time::MAX, stand.now()];
    for (visit, now) in instants.into_iter().enumerate() {
        stand.set(now);
        let (mut pure, alone) = (Pure::default(), format!("only on visit {visit}"));
        for cost in [0, 1, limit.capacity(), Limit::MAX_COUNT] {
            // Whoever has seen every instant is answered somehow; whoever knows only this one, as ever.
            let _ = stand.take(&limit, cost).await;
            let charge = [stand.charge(&limit, &alone).with_cost(cost)];
            assert_eq!(stand.decide(&charge).await, pure.decide(&charge, now), "cost {cost} at {now}");
        }
    }
}
