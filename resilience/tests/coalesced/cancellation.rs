//! Cancelled callers do not affect others.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tollgate_core::Limit;
use tollgate_core::store::Store;

use crate::scripted::{Fixture, NOW, done, run_all_tasks, soon};

fn limit() -> Limit {
    Limit::per_hour(100).build("api").expect("valid")
}

#[tokio::test]
async fn a_cancelled_direct_call_is_followed_by_the_next() {
    let (fixture, limit) = (Fixture::holding([0]), limit());
    let direct = fixture.check(&limit, "a".into(), 1).await;
    let waiting = fixture.check(&limit, "b".into(), 1).await;
    direct.abort();
    assert!(done(waiting).await.expect("a decision").is_allowed());
    assert_eq!(fixture.calls(), [["direct a:1"], ["1×b:1"]]);
}

#[tokio::test]
async fn a_request_that_is_cancelled_before_it_is_sent_is_not_sent() {
    let (fixture, limit) = (Fixture::holding([0]), limit());
    let first = fixture.check(&limit, "first".into(), 1).await;
    let cancelled = fixture.check(&limit, "a".into(), 50).await;
    let waiting = fixture.check(&limit, "a".into(), 1).await;
    cancelled.abort();
    run_all_tasks().await;
    fixture.release(0);
    assert_eq!(done(waiting).await.expect("a decision").remaining(), 99);
    assert_eq!(fixture.calls()[1..], [["1×a:1"]]);
    assert!(done(first).await.is_ok());
}

#[tokio::test]
async fn a_batch_whose_requests_are_all_cancelled_is_not_sent() {
    let (fixture, limit) = (Fixture::holding([0]), limit());
    let first = fixture.check(&limit, "first".into(), 1).await;
    let cancelled = fixture.check(&limit, "a".into(), 1).await;
    cancelled.abort();
    run_all_tasks().await;
    fixture.release(0);
    assert!(done(first).await.is_ok());
    run_all_tasks().await;
    assert_eq!(fixture.calls().len(), 1, "there is nothing to send");
    assert!(soon(fixture.store.decide_one(&limit.charge("b"), &NOW)).await.is_ok());
    assert_eq!(fixture.calls()[1..], [["direct b:1"]], "the route is free");
}

#[tokio::test]
async fn a_request_that_is_cancelled_in_flight_affects_no_other() {
    let (fixture, limit) = (Fixture::holding([0, 1]), limit());
    let first = fixture.check(&limit, "first".into(), 1).await;
    let cancelled = fixture.check(&limit, "a".into(), 1).await;
    let waiting = fixture.check(&limit, "a".into(), 1).await;
    fixture.release(0);
    assert!(done(first).await.is_ok());
    run_all_tasks().await;
    assert_eq!(fixture.calls()[1..], [["2×a:1"]]);
    cancelled.abort();
    run_all_tasks().await;
    assert_eq!(fixture.ended(), 1, "a caller still waits for the second call");
    fixture.release(1);
    assert_eq!(done(waiting).await.expect("a decision").remaining(), 98, "its own decision");
    assert_eq!(fixture.remaining(&limit, "a").await, 98);
}

#[tokio::test]
async fn a_call_without_waiting_callers_is_abandoned_and_frees_its_route() {
    let (fixture, limit) = (Fixture::holding([0, 1]), limit());
    let first = fixture.check(&limit, "first".into(), 1).await;
    let cancelled = [fixture.check(&limit, "a".into(), 1).await, fixture.check(&limit, "b".into(), 1).await];
    fixture.release(0);
    assert!(done(first).await.is_ok());
    run_all_tasks().await;
    let next = fixture.check(&limit, "c".into(), 1).await;
    for task in cancelled {
        task.abort();
    }
    assert!(done(next).await.expect("a decision").is_allowed(), "the next call starts");
    assert_eq!(fixture.calls()[1..], [vec!["1×a:1", "1×b:1"], vec!["1×c:1"]]);
    run_all_tasks().await;
    assert_eq!(fixture.ended(), 3);
    assert!(soon(fixture.store.decide_one(&limit.charge("d"), &NOW)).await.is_ok());
    assert_eq!(fixture.calls()[3..], [["direct d:1"]]);
}

#[test]
fn without_a_runtime_waiting_callers_call_the_store_themselves() {
    let (fixture, limit) = (Fixture::holding([0]), limit());
    let (first, second) = (limit.charge("a"), limit.charge("b"));
    let mut direct = pin!(fixture.store.decide_one(&first, &NOW));
    let mut waiting = pin!(fixture.store.decide_one(&second, &NOW));
    let mut context = Context::from_waker(Waker::noop());
    assert!(
        direct.as_mut().poll(&mut context).is_pending() && waiting.as_mut().poll(&mut context).is_pending()
    );
    assert_eq!(fixture.calls(), [["direct a:1"]]);
    fixture.release(0);
    assert!(matches!(direct.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    assert!(matches!(waiting.as_mut().poll(&mut context), Poll::Ready(Ok(_))));
    assert_eq!(fixture.calls()[1..], [["direct b:1"]]);
    assert_eq!((fixture.store.stats().calls, fixture.store.stats().batches), (2, 0));
}

/// It is neither polled nor dropped.
#[tokio::test]
async fn a_caller_that_is_not_polled_delays_no_other() {
    let (fixture, limit) = (Fixture::holding([0]), limit());
    let first = fixture.check(&limit, "first".into(), 1).await;
    let charge = limit.charge("a");
    let mut unpolled = pin!(fixture.store.decide_one(&charge, &NOW));
    poll_fn(|context| {
        assert!(unpolled.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    let waiting = fixture.check(&limit, "b".into(), 1).await;
    fixture.release(0);
    assert!(done(first).await.is_ok() && done(waiting).await.is_ok());
    assert!(soon(unpolled).await.expect("a decision").is_allowed());
}
