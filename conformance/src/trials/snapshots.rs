//! States can be exported: the pure function decides by an exported state as the store does by its own.

use std::time::Duration;

use tollgate_core::store::{Snapshot, State, Store};

use super::Plan;
use crate::samples::Sample;
use crate::stand::Stand;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("snapshots", snapshots);
}

async fn snapshots<S: Store>(mut stand: Stand<S>, Sample { limit, .. }: Sample) {
    assert!(stand.export(&limit).await.is_none(), "a fresh state is not exported");
    for cost in [limit.capacity() - 2, 1, 1, 1] {
        let _ = stand.take(&limit, cost).await;
        let snapshot = stand.export(&limit).await.expect("there is something to remember");
        assert_eq!((snapshot.version(), snapshot.kind()), (Snapshot::VERSION, limit.kind()));
        let mut state = State::from_snapshot(&limit, &snapshot).expect("a good snapshot");
        let peek = limit.charge("anybody").with_cost(0);
        assert_eq!(stand.peek(&limit).await, state.apply(&peek, stand.now()));
        stand.advance(Duration::from_millis(3));
    }
}
