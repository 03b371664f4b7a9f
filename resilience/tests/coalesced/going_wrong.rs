//! A call that goes wrong does so for those in it, and for nobody else.

use tollgate_core::store::Store;
use tollgate_core::{Effect, ErrorKind, Limit};

use crate::scripted::{Fault, NOW, Stand, done, everybody_moves, left, soon};

fn limit() -> Limit {
    Limit::per_hour(100).build("api").expect("valid")
}

#[tokio::test]
async fn a_call_that_fails_fails_for_everybody_in_it() {
    let (stand, limit) = (Stand::holding([0, 1]).going_wrong(1, Fault::Fails), limit());
    let first = stand.check(&limit, "first".into(), 1).await;
    let fail = [stand.check(&limit, "a".into(), 1).await, stand.check(&limit, "b".into(), 1).await];
    stand.let_go(0);
    assert!(done(first).await.is_ok());
    everybody_moves().await;
    let next = stand.check(&limit, "c".into(), 1).await;
    stand.let_go(1);
    for task in fail {
        let error = done(task).await.expect_err("as told");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None));
    }
    assert!(done(next).await.expect("an answer").is_allowed());
    assert_eq!(stand.calls()[1..], [vec!["1×a:1", "1×b:1"], vec!["1×c:1"]]);
}

#[tokio::test]
async fn one_that_went_alone_fails_alone() {
    let (stand, limit) = (Stand::holding([0]).going_wrong(0, Fault::Fails), limit());
    let fails = stand.check(&limit, "a".into(), 1).await;
    let next = stand.check(&limit, "b".into(), 1).await;
    stand.let_go(0);
    assert!(done(fails).await.is_err());
    assert!(done(next).await.expect("an answer").is_allowed());
}

#[tokio::test]
async fn a_verdict_that_is_missing_is_told_as_an_unknown_effect() {
    let (stand, limit) = (Stand::holding([0]).going_wrong(1, Fault::FallsShort), limit());
    let first = stand.check(&limit, "first".into(), 1).await;
    let [one, another] = [stand.check(&limit, "a".into(), 1).await, stand.check(&limit, "a".into(), 1).await];
    stand.let_go(0);
    assert!(done(first).await.is_ok());
    assert_eq!(done(one).await.expect("an answer").remaining(), 99);
    let error = done(another).await.expect_err("the store has not said");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Internal, Effect::Unknown));
}

#[tokio::test]
async fn a_panic_in_a_batch_is_an_error_and_frees_the_lane() {
    let (stand, limit) = (Stand::holding([0, 1]).going_wrong(1, Fault::Panics), limit());
    let first = stand.check(&limit, "first".into(), 1).await;
    let lost = stand.check(&limit, "a".into(), 1).await;
    stand.let_go(0);
    assert!(done(first).await.is_ok());
    everybody_moves().await;
    let behind = [stand.check(&limit, "b".into(), 1).await, stand.check(&limit, "b".into(), 1).await];
    stand.let_go(1);
    let error = done(lost).await.expect_err("nobody knows");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Internal, Effect::Unknown));
    for task in behind {
        assert!(done(task).await.expect("an answer").is_allowed());
    }
    assert_eq!(left(&stand, &limit, "b").await, 98);
    let calls = stand.calls().len();
    assert!(soon(stand.store.decide_one(&limit.charge("c"), &NOW)).await.is_ok());
    assert_eq!(stand.calls()[calls..], [["alone c:1"]]);
}

#[tokio::test]
async fn a_panic_in_a_call_alone_is_its_callers_and_frees_the_lane() {
    let (stand, limit) = (Stand::holding([0]).going_wrong(0, Fault::Panics), limit());
    let panics = stand.check(&limit, "a".into(), 1).await;
    let behind = stand.check(&limit, "b".into(), 1).await;
    stand.let_go(0);
    assert!(soon(panics).await.is_err_and(|error| error.is_panic()));
    assert!(done(behind).await.expect("an answer").is_allowed());
    everybody_moves().await;
    assert!(soon(stand.store.decide_one(&limit.charge("c"), &NOW)).await.is_ok());
    assert_eq!(stand.calls()[1..], [["1×b:1"], ["alone c:1"]]);
}
