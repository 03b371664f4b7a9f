//! No call takes longer than the deadline.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::{Run, Store};
use tollgate_core::{BreakerState, Clock, ErrorKind, IdempotencyKey, Key, Limit, Request, Source, Time};
use tollgate_resilience::{Guarded, OnFailure};
use tollgate_store_memory::MemoryStore;

use super::faulty::{Fault, Fixture};

/// Measures a call in the runtime's virtual time, which advances only while all tasks wait.
#[expect(clippy::disallowed_methods, reason = "the runtime's virtual time")]
async fn measured<T>(call: impl Future<Output = T>) -> (Duration, T) {
    let start = Instant::now();
    let result = call.await;
    (start.elapsed(), result)
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_call_has_the_deadline() {
    let deadline = Duration::from_millis(20);
    let fixture = Fixture::new(|builder| builder.failure_threshold(64, 64));
    let limit = Limit::per_second(10).build("api").expect("valid");
    let (guarded, now, key) = (&fixture.guarded, fixture.clock.now(), Key::from("a"));
    fixture.faulty.inject(Fault::Hang);

    let (took, decision) = measured(fixture.check(&limit, "a")).await;
    assert_eq!((took, decision.source()), (deadline, Source::Policy));
    let charges = [limit.charge("a"), limit.charge("b")];
    let (took, verdict) = measured(fixture.decide(&charges)).await;
    assert_eq!((took, verdict.expect("a decision").is_allowed()), (deadline, true));
    let run = [Run::new(Request::new(&charges), 3)];
    let (took, mut results) = measured(guarded.decide_batch(&run, now)).await;
    assert_eq!((took, results.remove(0).expect("a decision").passed()), (deadline, 3));
    let (took, export) = measured(guarded.export(&limit, key, now)).await;
    assert_eq!((took, export.expect_err("no policy applies").kind()), (deadline, ErrorKind::Timeout));

    fixture.faulty.inject(Fault::None);
    let _ = fixture.check(&limit, "a").await;
    fixture.faulty.inject(Fault::Hang);
    let (took, applied) = measured(guarded.apply_deltas(Request::new(&charges), now)).await;
    assert_eq!((took, applied.expect_err("no policy applies").kind()), (deadline, ErrorKind::Timeout));
    assert_eq!(guarded.stats().timed_out_calls, 5);
    assert_eq!(guarded.stats().failed_calls, 5);
}

/// A store may do nothing there, so that it does not show whether the store answers.
#[tokio::test(start_paused = true)]
async fn forgetting_has_the_deadline_and_no_effect_on_the_breaker() {
    let deadline = Duration::from_millis(20);
    let fixture = Fixture::new(|builder| builder);
    let limit = Limit::per_second(10).build("api").expect("valid");
    let forget = async || {
        let answered = [(Key::from("a"), IdempotencyKey::unique())];
        measured(fixture.guarded.forget_idempotency_keys(&answered)).await.0
    };
    for (fault, took) in
        [(Fault::None, Duration::ZERO), (Fault::Panic, Duration::ZERO), (Fault::Hang, deadline)]
    {
        fixture.faulty.inject(fault);
        for _ in 0..20 {
            let calls = fixture.faulty.calls();
            assert_eq!(forget().await, took, "{fault:?}");
            assert_eq!(fixture.faulty.calls(), calls + 1, "forwarded");
        }
        assert_eq!(fixture.guarded.breaker_state(), BreakerState::Closed, "{fault:?}");
    }
    fixture.open_breaker(&limit).await;
    fixture.faulty.inject(Fault::None);
    fixture.clock.advance(Duration::from_secs(8));
    let calls = fixture.faulty.calls();
    for _ in 0..20 {
        forget().await;
    }
    assert_eq!(fixture.faulty.calls(), calls, "not forwarded");
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Open, "no probe");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_can_be_configured() {
    let fixture = Fixture::new(|builder| builder.deadline(Duration::from_millis(7)));
    let limit = Limit::per_second(10).build("api").expect("valid");
    fixture.faulty.inject(Fault::Hang);
    assert_eq!(measured(fixture.check(&limit, "a")).await.0, Duration::from_millis(7));
}

#[test]
fn a_store_that_never_waits_needs_no_runtime() {
    let guarded = Guarded::builder(MemoryStore::new()).on_failure(OnFailure::Deny).build().expect("valid");
    let limit = Limit::per_second(10).build("api").expect("valid");
    let (charge, now) = (limit.charge("a"), Time::from_secs(1_790_000_000));
    let mut call = pin!(guarded.decide_one(&charge, &now));
    let Poll::Ready(decision) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the memory store does not wait")
    };
    assert_eq!(decision.expect("a decision").source(), Source::Store);
}
