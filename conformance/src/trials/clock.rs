//! Time that runs backwards never gives anything back and never panics.

use std::time::Duration;

use tollgate_core::{MAX_COUNT, Store, Time};

use super::Plan;
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
    for now in [Time::MAX, Time::EPOCH, Time::from_nanos(1), stand.now(), Time::MAX, stand.now()] {
        stand.set(now);
        for cost in [0, 1, limit.capacity(), MAX_COUNT] {
            let _ = stand.take(&limit, cost).await;
        }
    }
}
