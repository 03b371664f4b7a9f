//! A call that hangs holds nobody up for long.

use std::time::Duration;

use tollgate_core::Limit;
use tollgate_core::store::Store;

use crate::scripted::{NOW, Stand, done, everybody_moves, soon};

const PATIENCE: Duration = Duration::from_millis(10);

fn limit() -> Limit {
    Limit::per_hour(1_000).build("api").expect("valid")
}

#[tokio::test]
async fn an_arrival_overtakes_a_call_that_takes_too_long() {
    let (stand, limit) = (Stand::holding([0]), limit());
    let hangs = stand.check(&limit, "a".into(), 1).await;
    stand.clock.advance(PATIENCE.saturating_sub(Duration::from_nanos(1)));
    let waits = stand.check(&limit, "b".into(), 1).await;
    assert_eq!(stand.calls(), [["alone a:1"]], "not yet");
    stand.clock.advance(Duration::from_nanos(1));
    let overtakes = stand.check(&limit, "c".into(), 1).await;
    assert_eq!(stand.calls()[1..], [["1×b:1", "1×c:1"]]);
    assert!(done(waits).await.is_ok() && done(overtakes).await.is_ok());
    // What was overtaken is not waited for again.
    assert!(soon(stand.store.decide_one(&limit.charge("d"), &NOW)).await.is_ok());
    assert_eq!(stand.calls()[2..], [["alone d:1"]]);
    assert!(!hangs.is_finished());
    stand.let_go(0);
    assert!(done(hangs).await.is_ok(), "late, but answered");
}

#[tokio::test]
async fn those_behind_a_call_that_overtook_another_are_next_after_it() {
    let (stand, limit) = (Stand::holding([0, 1]), limit());
    let hangs = stand.check(&limit, "a".into(), 1).await;
    stand.clock.advance(PATIENCE);
    let overtakes = stand.check(&limit, "b".into(), 1).await;
    let waits = stand.check(&limit, "c".into(), 1).await;
    assert_eq!(stand.calls(), [["alone a:1"], ["alone b:1"]]);
    stand.let_go(1);
    assert!(done(overtakes).await.is_ok() && done(waits).await.is_ok());
    assert_eq!(stand.calls()[2..], [["1×c:1"]]);
    stand.let_go(0);
    assert!(done(hangs).await.is_ok());
}

#[tokio::test]
async fn a_store_that_answers_nobody_is_not_asked_without_end() {
    let (stand, limit) = (Stand::holding(0..100), limit());
    let mut tasks = Vec::new();
    for _ in 0..40 {
        tasks.push(stand.check(&limit, "a".into(), 1).await);
        stand.clock.advance(PATIENCE);
    }
    assert_eq!(stand.calls().len(), 16);
    for call in 0..100 {
        stand.let_go(call);
    }
    for task in tasks {
        assert!(done(task).await.expect("an answer").is_allowed());
    }
    assert_eq!(stand.calls()[16..], [["24×a:1"]]);
}

#[tokio::test]
async fn patience_can_be_set() {
    let (stand, limit) = (Stand::holding([0]), limit());
    let stand = Stand { store: stand.store.clone().patience(Duration::ZERO), ..stand };
    let hangs = stand.check(&limit, "a".into(), 1).await;
    assert!(soon(stand.store.decide_one(&limit.charge("b"), &NOW)).await.is_ok(), "at once");
    stand.let_go(0);
    everybody_moves().await;
    assert!(hangs.is_finished());
}
