//! Idle state expires by itself, as soon as it equals a fresh one and never earlier.

use std::time::Duration;

use tollgate_core::store::Store;

use super::Plan;
use crate::fixture::Fixture;
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("expiry", expiry);
}

pub(super) fn plan_growth<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("expired_states_take_no_room", growth);
}

/// Keys come and go. The store may keep some expired states until it needs the room, but not most of them.
async fn growth<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    const ROUNDS: usize = 40;
    const KEYS: usize = 50;
    for round in 0..ROUNDS {
        for key in 0..KEYS {
            let entity = format!("round {round}, key {key}");
            assert!(fixture.one(fixture.charge(&limit, &entity)).await.is_allowed());
        }
        fixture.advance(Duration::from_secs(60));
    }
    let (held, used, most) = (fixture.held_states().await, ROUNDS * KEYS, ROUNDS * KEYS / 4);
    assert!(held <= most, "the store holds {held} states of {used} expired keys, expected at most {most}");
}

async fn expiry<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    assert_eq!(fixture.export(&limit).await, None, "an unused key has no state");
    let fresh = fixture.peek(&limit).await;
    assert_eq!(fixture.export(&limit).await, None, "a peek creates no state");
    for cost in [1, limit.capacity()] {
        let taken = fixture.take(&limit, cost).await;
        assert!(taken.is_allowed());
        let idle = taken.reset_after();
        assert!(!idle.is_zero());
        fixture.advance(idle.saturating_sub(Duration::from_nanos(1)));
        assert!(fixture.export(&limit).await.is_some(), "a nanosecond early the state is still there");
        fixture.advance(Duration::from_nanos(1));
        assert_eq!(fixture.export(&limit).await, None, "after {idle:?} the state has expired");
        assert_eq!(fixture.peek(&limit).await, fresh);
    }
}
