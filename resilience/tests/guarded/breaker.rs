//! The circuit breaker: a store that fails is not called, and probed until it answers again.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{BreakerState, ErrorKind, Limit, Source};

use super::faulty::{Fault, Fixture, half};

fn api() -> Limit {
    Limit::per_second(10).build("api").expect("valid")
}

#[tokio::test]
async fn the_breaker_goes_from_closed_to_open_to_half_open_and_back() {
    let fixture = Fixture::new(|builder| builder);
    let api = api();
    fixture.faulty.inject(Fault::Error(ErrorKind::Timeout));
    for _ in 0..5 {
        assert_eq!(fixture.guarded.breaker_state(), BreakerState::Closed);
        let _ = fixture.check(&api, "a").await;
    }
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Open, "five of the last ten");
    let calls = fixture.faulty.calls();
    for _ in 0..100 {
        assert_eq!(fixture.check(&api, "a").await.source(), Source::Policy);
    }
    fixture.clock.advance(Duration::from_millis(249));
    let _ = fixture.check(&api, "a").await;
    assert_eq!(fixture.faulty.calls(), calls, "a dead store is not called for every request");
    assert_eq!(fixture.guarded.stats().not_permitted_calls, 101);

    fixture.clock.advance(Duration::from_millis(251));
    let _ = fixture.check(&api, "a").await;
    assert_eq!(fixture.faulty.calls(), calls + 1, "one probe");
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Open, "the probe failed");
    fixture.clock.advance(Duration::from_millis(499));
    let _ = fixture.check(&api, "a").await;
    assert_eq!(fixture.faulty.calls(), calls + 1, "the open time has doubled");

    fixture.faulty.inject(Fault::None);
    fixture.clock.advance(Duration::from_millis(501));
    assert_eq!(fixture.check(&api, "a").await.source(), Source::Store, "the decision of a probe is used");
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::HalfOpen);
    let _ = fixture.check(&api, "a").await;
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Closed);
    assert_eq!(
        fixture.events.starting_with("breaker"),
        ["open", "half-open", "open", "half-open", "closed"]
            .map(|state| format!("breaker: {state} of store"))
    );
    assert_eq!(fixture.guarded.stats().opened, 2);
    assert_eq!(fixture.events.starting_with("called: timeout").len(), 6);
}

#[tokio::test(start_paused = true)]
async fn of_many_callers_one_is_the_probe() {
    let fixture = Arc::new(Fixture::new(|builder| builder));
    let api = api();
    fixture.open_breaker(&api).await;
    fixture.faulty.inject(Fault::Hang);
    let calls = fixture.faulty.calls();
    fixture.clock.advance(Duration::from_secs(1));
    let mut callers = JoinSet::new();
    for _ in 0..1_000 {
        let (fixture, api) = (Arc::clone(&fixture), api.clone());
        callers.spawn(async move { fixture.check(&api, "a").await.source() });
    }
    let sources = callers.join_all().await;
    assert_eq!(fixture.faulty.calls(), calls + 1);
    assert!(sources.iter().all(|source| *source == Source::Policy));
    assert_eq!(fixture.guarded.stats().timed_out_calls, 1);
}

#[tokio::test]
async fn a_probe_whose_caller_is_cancelled_has_no_outcome() {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use tollgate_core::store::Store;
    let fixture = Fixture::new(|builder| builder);
    let api = api();
    fixture.open_breaker(&api).await;
    fixture.clock.advance(Duration::from_secs(1));
    fixture.faulty.inject(Fault::Hang);
    {
        let charge = api.charge("a");
        let mut call = pin!(fixture.guarded.decide_one(&charge, &fixture.clock));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(fixture.check(&api, "a").await.source(), Source::Policy, "another probe is in flight");
    }
    fixture.faulty.inject(Fault::None);
    assert_eq!(fixture.check(&api, "a").await.source(), Source::Store, "the next call is the probe");
}

#[tokio::test]
async fn a_batch_is_one_call_and_fails_if_one_run_fails() {
    use tollgate_core::store::{Run, Store};
    use tollgate_core::{Clock, Request};
    let fixture = Fixture::new(|builder| builder.on_failure(half()).failure_threshold(2, 2));
    let api = api();
    let charges = [api.charge("a")];
    let runs = [Run::new(Request::new(&charges), 8), Run::new(Request::new(&charges), 1)];
    let decide = async || {
        let results = fixture.guarded.decide_batch(&runs, fixture.clock.now()).await;
        results.into_iter().map(|result| result.expect("a decision").passed()).collect::<Vec<_>>()
    };
    assert_eq!(decide().await, [8, 1]);
    fixture.faulty.inject(Fault::Error(ErrorKind::Unavailable));
    assert_eq!(decide().await, [5, 0], "the share");
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Closed, "one call");
    decide().await;
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Open);
    let calls = fixture.faulty.calls();
    assert_eq!(decide().await, [0, 0]);
    assert_eq!(fixture.faulty.calls(), calls);
}

#[tokio::test]
async fn requests_that_do_not_reach_the_store_are_no_successful_probes() {
    use tollgate_core::Request;
    use tollgate_core::store::{Run, Store};
    let fixture = Fixture::new(|builder| builder);
    let window = Limit::per_second(10).fixed_window().build("window").expect("valid");
    fixture.open_breaker(&window).await;
    fixture.clock.advance(Duration::from_secs(1));
    fixture.faulty.inject(Fault::Error(ErrorKind::Unsupported));
    for _ in 0..3 {
        let reserve = window.charge("a").with_max_wait(Duration::from_secs(1));
        assert_eq!(fixture.charge(reserve).await.expect_err("unsupported").kind(), ErrorKind::Unsupported);
        assert!(fixture.decide(&[]).await.expect("nothing to decide").is_allowed());
        let empty = [Run::new(Request::new(&[]), 2)];
        let now = tollgate_core::Clock::now(&fixture.clock);
        assert_eq!(fixture.guarded.decide_batch(&empty, now).await[0].as_ref().expect("nothing").passed(), 2);
    }
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::HalfOpen);
    fixture.faulty.inject(Fault::None);
    fixture.recover(&window).await;
}
