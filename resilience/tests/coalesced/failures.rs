//! A call that fails, fails for the requests in it, and for no other.

use tollgate_core::store::Store;
use tollgate_core::{Effect, ErrorKind, Limit};

use crate::scripted::{Fault, Fixture, NOW, done, run_all_tasks, soon};

fn limit() -> Limit {
    Limit::per_hour(100).build("api").expect("valid")
}

#[tokio::test]
async fn a_failed_batch_fails_for_every_request_in_it() {
    let (fixture, limit) = (Fixture::holding([0, 1]).failing(1, Fault::Error), limit());
    let first = fixture.check(&limit, "first".into(), 1).await;
    let failing = [fixture.check(&limit, "a".into(), 1).await, fixture.check(&limit, "b".into(), 1).await];
    fixture.release(0);
    assert!(done(first).await.is_ok());
    run_all_tasks().await;
    let next = fixture.check(&limit, "c".into(), 1).await;
    fixture.release(1);
    for task in failing {
        let error = done(task).await.expect_err("injected");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Unavailable, Effect::None));
    }
    assert!(done(next).await.expect("a decision").is_allowed());
    assert_eq!(fixture.calls()[1..], [vec!["1×a:1", "1×b:1"], vec!["1×c:1"]]);
}

#[tokio::test]
async fn a_failed_direct_call_fails_for_its_caller_only() {
    let (fixture, limit) = (Fixture::holding([0]).failing(0, Fault::Error), limit());
    let failing = fixture.check(&limit, "a".into(), 1).await;
    let next = fixture.check(&limit, "b".into(), 1).await;
    fixture.release(0);
    assert!(done(failing).await.is_err());
    assert!(done(next).await.expect("a decision").is_allowed());
}

#[tokio::test]
async fn a_missing_verdict_is_an_error_with_unknown_effect() {
    let (fixture, limit) = (Fixture::holding([0]).failing(1, Fault::MissingVerdict), limit());
    let first = fixture.check(&limit, "first".into(), 1).await;
    let [first_of_run, second_of_run] =
        [fixture.check(&limit, "a".into(), 1).await, fixture.check(&limit, "a".into(), 1).await];
    fixture.release(0);
    assert!(done(first).await.is_ok());
    assert_eq!(done(first_of_run).await.expect("a decision").remaining(), 99);
    let error = done(second_of_run).await.expect_err("the verdict is missing");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Internal, Effect::Unknown));
}

#[tokio::test]
async fn a_panic_in_a_batch_is_an_error_and_frees_the_route() {
    let (fixture, limit) = (Fixture::holding([0, 1]).failing(1, Fault::Panic), limit());
    let first = fixture.check(&limit, "first".into(), 1).await;
    let panicked = fixture.check(&limit, "a".into(), 1).await;
    fixture.release(0);
    assert!(done(first).await.is_ok());
    run_all_tasks().await;
    let waiting = [fixture.check(&limit, "b".into(), 1).await, fixture.check(&limit, "b".into(), 1).await];
    fixture.release(1);
    let error = done(panicked).await.expect_err("the effect is unknown");
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Internal, Effect::Unknown));
    for task in waiting {
        assert!(done(task).await.expect("a decision").is_allowed());
    }
    assert_eq!(fixture.remaining(&limit, "b").await, 98);
    let calls = fixture.calls().len();
    assert!(soon(fixture.store.decide_one(&limit.charge("c"), &NOW)).await.is_ok());
    assert_eq!(fixture.calls()[calls..], [["direct c:1"]]);
}

#[tokio::test]
async fn a_panic_in_a_direct_call_reaches_its_caller_and_frees_the_route() {
    let (fixture, limit) = (Fixture::holding([0]).failing(0, Fault::Panic), limit());
    let panicking = fixture.check(&limit, "a".into(), 1).await;
    let waiting = fixture.check(&limit, "b".into(), 1).await;
    fixture.release(0);
    assert!(soon(panicking).await.is_err_and(|error| error.is_panic()));
    assert!(done(waiting).await.expect("a decision").is_allowed());
    run_all_tasks().await;
    assert!(soon(fixture.store.decide_one(&limit.charge("c"), &NOW)).await.is_ok());
    assert_eq!(fixture.calls()[1..], [["1×b:1"], ["direct c:1"]]);
}
