//! What a coalesced store counts.

use std::time::Duration;

use tollgate_core::Limit;
use tollgate_core::store::Store;
use tollgate_resilience::CoalescedStats;

use crate::scripted::{Fixture, NOW, done, run_all_tasks, soon};

fn limit() -> Limit {
    Limit::per_hour(100).build("api").expect("valid")
}

/// Calls, batches, batched requests, merged requests, overtakes, abandoned calls.
fn counted(fixture: &Fixture) -> [u64; 6] {
    let CoalescedStats {
        calls, batches, batched_requests, merged_requests, overtakes, abandoned_calls, ..
    } = fixture.store.stats();
    [calls, batches, batched_requests, merged_requests, overtakes, abandoned_calls]
}

#[tokio::test]
async fn batches_and_merged_requests_are_counted() {
    let (fixture, limit) = (Fixture::holding([0]), limit());
    assert_eq!(counted(&fixture), [0; 6]);
    let first = fixture.check(&limit, "first".into(), 1).await;
    let mut waiting = Vec::new();
    for key in ["a", "a", "b", "a"] {
        waiting.push(fixture.check(&limit, key.into(), 1).await);
    }
    assert_eq!(counted(&fixture), [1, 0, 0, 0, 0, 0], "a direct call");
    fixture.release(0);
    assert!(done(first).await.is_ok());
    for task in waiting {
        assert!(done(task).await.is_ok());
    }
    assert_eq!(fixture.calls()[1..], [["3×a:1", "1×b:1"]]);
    assert_eq!(counted(&fixture), [2, 1, 4, 2, 0, 0]);
    assert_eq!(fixture.store.clone().stats(), fixture.store.stats(), "clones count together");
}

#[tokio::test]
async fn overtakes_and_abandoned_calls_are_counted() {
    let (fixture, limit) = (Fixture::holding([0, 1]), limit());
    let hanging = fixture.check(&limit, "a".into(), 1).await;
    let waiting = fixture.check(&limit, "b".into(), 1).await;
    fixture.clock.advance(Duration::from_millis(10));
    let overtaking = fixture.check(&limit, "c".into(), 1).await;
    assert_eq!(counted(&fixture), [2, 1, 2, 0, 1, 0]);
    waiting.abort();
    overtaking.abort();
    run_all_tasks().await;
    assert_eq!((counted(&fixture), fixture.ended()), ([2, 1, 2, 0, 1, 1], 1));
    assert!(soon(fixture.store.decide_one(&limit.charge("d"), &NOW)).await.is_ok());
    assert_eq!(counted(&fixture), [3, 1, 2, 0, 1, 1]);
    fixture.release(0);
    assert!(done(hanging).await.is_ok());
}
