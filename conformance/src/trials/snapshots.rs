//! States can be exported: by an exported state, the pure function decides as the store does.

use std::time::Duration;

use tollgate_core::store::{Snapshot, State, Store};

use super::Plan;
use crate::compare::assert_decided;
use crate::fixture::{ENTITY, Fixture};
use crate::samples::Sample;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("snapshots", snapshots);
}

async fn snapshots<S: Store>(mut fixture: Fixture<S>, Sample { limit, .. }: Sample) {
    assert!(fixture.export(&limit).await.is_none(), "a fresh state is not exported");
    for cost in [limit.capacity() - 2, 1, 1, 1] {
        let _ = fixture.take(&limit, cost).await;
        let snapshot = fixture.export(&limit).await.expect("a state that is not fresh");
        assert_eq!((snapshot.version(), snapshot.kind()), (Snapshot::VERSION, limit.kind()));
        let mut state = State::from_snapshot(&limit, &snapshot).expect("a valid snapshot");
        let peek = fixture.charge(&limit, ENTITY).with_cost(0);
        let (decided, by_snapshot) = (fixture.one(peek).await, state.apply(&peek, fixture.now()));
        assert_decided(&[decided], &[by_snapshot], &[peek], fixture.now(), "by the exported state");
        fixture.advance(Duration::from_millis(3));
    }
}
