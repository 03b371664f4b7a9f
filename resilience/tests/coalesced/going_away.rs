//! Callers that go away lose nothing for others, and hang nobody.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate_core::Limit;
use tollgate_core::store::Store;

use crate::scripted::{NOW, Stand, done, everybody_moves, left, soon};

fn limit() -> Limit {
    Limit::per_hour(100).build("api").expect("valid")
}

#[tokio::test]
async fn one_that_went_alone() {
    let (stand, limit) = (Stand::holding([0]), limit());
    let alone = stand.check(&limit, "a".into(), 1).await;
    let waits = stand.check(&limit, "b".into(), 1).await;
    alone.abort();
    assert!(done(waits).await.expect("an answer").is_allowed());
    assert_eq!(stand.calls(), [["alone a:1"], ["1×b:1"]]);
}

#[tokio::test]
async fn one_that_was_not_sent_yet_takes_its_request_along() {
    let (stand, limit) = (Stand::holding([0]), limit());
    let first = stand.check(&limit, "first".into(), 1).await;
    let goes = stand.check(&limit, "a".into(), 50).await;
    let stays = stand.check(&limit, "a".into(), 1).await;
    goes.abort();
    everybody_moves().await;
    stand.let_go(0);
    assert_eq!(done(stays).await.expect("an answer").remaining(), 99);
    assert_eq!(stand.calls()[1..], [["1×a:1"]]);
    assert!(done(first).await.is_ok());
}

#[tokio::test]
async fn all_that_were_not_sent_yet() {
    let (stand, limit) = (Stand::holding([0]), limit());
    let first = stand.check(&limit, "first".into(), 1).await;
    let goes = stand.check(&limit, "a".into(), 1).await;
    goes.abort();
    everybody_moves().await;
    stand.let_go(0);
    assert!(done(first).await.is_ok());
    everybody_moves().await;
    assert_eq!(stand.calls().len(), 1, "nobody wants the second call");
    assert!(soon(stand.store.decide_one(&limit.charge("b"), &NOW)).await.is_ok());
    assert_eq!(stand.calls()[1..], [["alone b:1"]], "and the lane is free");
}

#[tokio::test]
async fn one_of_those_under_way() {
    let (stand, limit) = (Stand::holding([0, 1]), limit());
    let first = stand.check(&limit, "first".into(), 1).await;
    let goes = stand.check(&limit, "a".into(), 1).await;
    let stays = stand.check(&limit, "a".into(), 1).await;
    stand.let_go(0);
    assert!(done(first).await.is_ok());
    everybody_moves().await;
    assert_eq!(stand.calls()[1..], [["2×a:1"]]);
    goes.abort();
    everybody_moves().await;
    assert_eq!(stand.ended(), 1, "somebody still waits for the second call");
    stand.let_go(1);
    assert_eq!(done(stays).await.expect("an answer").remaining(), 98, "its own answer");
    assert_eq!(left(&stand, &limit, "a").await, 98);
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_given_up_and_frees_its_lane() {
    let (stand, limit) = (Stand::holding([0, 1]), limit());
    let first = stand.check(&limit, "first".into(), 1).await;
    let gone = [stand.check(&limit, "a".into(), 1).await, stand.check(&limit, "b".into(), 1).await];
    stand.let_go(0);
    assert!(done(first).await.is_ok());
    everybody_moves().await;
    let behind = stand.check(&limit, "c".into(), 1).await;
    for task in gone {
        task.abort();
    }
    assert!(done(behind).await.expect("an answer").is_allowed(), "the next call begins");
    assert_eq!(stand.calls()[1..], [vec!["1×a:1", "1×b:1"], vec!["1×c:1"]]);
    everybody_moves().await;
    assert_eq!(stand.ended(), 3);
    assert!(soon(stand.store.decide_one(&limit.charge("d"), &NOW)).await.is_ok());
    assert_eq!(stand.calls()[3..], [["alone d:1"]]);
}

/// Whoever polls these futures, it is not tokio.
#[test]
fn without_a_runtime_those_who_waited_ask_themselves() {
    let (stand, limit) = (Stand::holding([0]), limit());
    let (one, another) = (limit.charge("a"), limit.charge("b"));
    let mut alone = pin!(stand.store.decide_one(&one, &NOW));
    let mut waits = pin!(stand.store.decide_one(&another, &NOW));
    let mut context = Context::from_waker(Waker::noop());
    assert!(alone.as_mut().poll(&mut context).is_pending() && waits.as_mut().poll(&mut context).is_pending());
    assert_eq!(stand.calls(), [["alone a:1"]]);
    stand.let_go(0);
    assert!(matches!(alone.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    assert!(matches!(waits.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    assert_eq!(stand.calls()[1..], [["alone b:1"]]);
}

/// A caller that is not polled any more, but not dropped either, keeps nobody waiting.
#[tokio::test]
async fn one_that_stands_still() {
    let (stand, limit) = (Stand::holding([0]), limit());
    let first = stand.check(&limit, "first".into(), 1).await;
    let charge = limit.charge("a");
    let mut still = pin!(stand.store.decide_one(&charge, &NOW));
    poll_fn(|context| {
        assert!(still.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    let waits = stand.check(&limit, "b".into(), 1).await;
    stand.let_go(0);
    assert!(done(first).await.is_ok() && done(waits).await.is_ok());
    assert!(soon(still).await.expect("an answer").is_allowed());
}
