//! A call that hangs delays no other for long.

use std::time::Duration;

use tollgate_core::Limit;
use tollgate_core::store::Store;

use crate::scripted::{Fixture, NOW, done, run_all_tasks, soon};

const OVERTAKE_AFTER: Duration = Duration::from_millis(10);

fn limit() -> Limit {
    Limit::per_hour(1_000).build("api").expect("valid")
}

#[tokio::test]
async fn a_request_overtakes_a_call_that_takes_too_long() {
    let (fixture, limit) = (Fixture::holding([0]), limit());
    let hanging = fixture.check(&limit, "a".into(), 1).await;
    fixture.clock.advance(OVERTAKE_AFTER.saturating_sub(Duration::from_nanos(1)));
    let waiting = fixture.check(&limit, "b".into(), 1).await;
    assert_eq!(fixture.calls(), [["direct a:1"]], "not yet");
    fixture.clock.advance(Duration::from_nanos(1));
    let overtaking = fixture.check(&limit, "c".into(), 1).await;
    assert_eq!(fixture.calls()[1..], [["1×b:1", "1×c:1"]]);
    assert!(done(waiting).await.is_ok() && done(overtaking).await.is_ok());
    // No request waits for the overtaken call again.
    assert!(soon(fixture.store.decide_one(&limit.charge("d"), &NOW)).await.is_ok());
    assert_eq!(fixture.calls()[2..], [["direct d:1"]]);
    assert!(!hanging.is_finished());
    fixture.release(0);
    assert!(done(hanging).await.is_ok(), "late, but decided");
}

#[tokio::test]
async fn requests_behind_an_overtaking_call_are_sent_after_it() {
    let (fixture, limit) = (Fixture::holding([0, 1]), limit());
    let hanging = fixture.check(&limit, "a".into(), 1).await;
    fixture.clock.advance(OVERTAKE_AFTER);
    let overtaking = fixture.check(&limit, "b".into(), 1).await;
    let waiting = fixture.check(&limit, "c".into(), 1).await;
    assert_eq!(fixture.calls(), [["direct a:1"], ["direct b:1"]]);
    fixture.release(1);
    assert!(done(overtaking).await.is_ok() && done(waiting).await.is_ok());
    assert_eq!(fixture.calls()[2..], [["1×c:1"]]);
    fixture.release(0);
    assert!(done(hanging).await.is_ok());
}

#[tokio::test]
async fn the_number_of_hanging_calls_is_bounded() {
    let (fixture, limit) = (Fixture::holding(0..100), limit());
    let mut tasks = Vec::new();
    for _ in 0..40 {
        tasks.push(fixture.check(&limit, "a".into(), 1).await);
        fixture.clock.advance(OVERTAKE_AFTER);
    }
    assert_eq!(fixture.calls().len(), 16);
    for call in 0..100 {
        fixture.release(call);
    }
    for task in tasks {
        assert!(done(task).await.expect("a decision").is_allowed());
    }
    assert_eq!(fixture.calls()[16..], [["24×a:1"]]);
}

#[tokio::test]
async fn the_age_can_be_configured() {
    let fixture = Fixture::configured([0], |builder| builder.overtake_after(Duration::ZERO));
    let limit = limit();
    let hanging = fixture.check(&limit, "a".into(), 1).await;
    assert!(soon(fixture.store.decide_one(&limit.charge("b"), &NOW)).await.is_ok(), "at once");
    fixture.release(0);
    run_all_tasks().await;
    assert!(hanging.is_finished());
}
