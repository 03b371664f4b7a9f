//! States can be exported and merged: the tighter of both, and twice is once.

use tollgate_core::{ErrorKind, Snapshot, Store};

use super::Plan;
use crate::samples::{Sample, samples};
use crate::stand::Stand;

pub(super) fn plan<S: Store + 'static>(plan: &mut Plan<S>) {
    plan.each("snapshots", snapshots);
    plan.each("snapshots_refuse_nonsense", nonsense);
}

async fn snapshots<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    assert!(stand.take(&limit, limit.capacity() - 2).await.is_allowed());
    let seen = stand.peek(&limit).await;
    let snapshot = stand.export(&limit).await.expect("there is something to remember");
    assert_eq!((snapshot.version(), snapshot.kind()), (Snapshot::VERSION, limit.kind()));
    for _ in 0..2 {
        stand.merge(&limit, "another", &snapshot).await.expect("a good snapshot");
        assert_eq!(
            stand.one(stand.charge(&limit, "another").cost(0)).await,
            seen,
            "merging twice changes nothing"
        );
    }
    // A view that knows less does not loosen one that knows more.
    let little = stand.charge(&limit, "little");
    assert!(stand.one(little).await.is_allowed());
    let before = stand.one(little.cost(0)).await;
    assert!(before.remaining() >= seen.remaining());
    stand.merge(&limit, "little", &snapshot).await.expect("a good snapshot");
    let merged = stand.one(little.cost(0)).await;
    assert!(merged.remaining() <= seen.remaining().min(before.remaining()), "{merged:?}");
}

async fn nonsense<S: Store>(stand: Stand<S>, Sample { limit, .. }: Sample) {
    let before = stand.peek(&limit).await;
    let other =
        samples().into_iter().find(|sample| sample.limit.kind() != limit.kind()).expect("another kind");
    for bad in [
        Snapshot::from_parts(Snapshot::VERSION + 1, limit.kind(), vec![0, 0, 0]),
        Snapshot::from_parts(Snapshot::VERSION, other.limit.kind(), vec![0, 0, 0]),
        Snapshot::from_parts(Snapshot::VERSION, limit.kind(), vec![]),
        Snapshot::from_parts(Snapshot::VERSION, limit.kind(), vec![u64::MAX; 7]),
    ] {
        // Seven words are too many for some algorithms, and senseless for the others.
        let error = stand.merge(&limit, crate::stand::WHO, &bad).await.expect_err("nonsense");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    }
    assert_eq!(stand.peek(&limit).await, before);
}
