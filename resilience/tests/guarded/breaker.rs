//! A store that fails is left alone, and asked again when it is back.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{BreakerState, ErrorKind, Limit, Source};

use super::faulty::{Mode, Scene, half};

fn api() -> Limit {
    Limit::per_second(10).build("api").expect("valid")
}

#[tokio::test]
async fn it_goes_from_closed_to_open_to_half_open_and_back() {
    let scene = Scene::new(|guarded| guarded);
    let api = api();
    scene.faulty.is(Mode::Fails(ErrorKind::Timeout));
    for _ in 0..5 {
        assert_eq!(scene.guarded.breaker(), BreakerState::Closed);
        let _ = scene.check(&api, "a").await;
    }
    assert_eq!(scene.guarded.breaker(), BreakerState::Open, "five of the last ten");
    let calls = scene.faulty.calls();
    for _ in 0..100 {
        assert_eq!(scene.check(&api, "a").await.source(), Source::Policy);
    }
    scene.clock.advance(Duration::from_millis(249));
    let _ = scene.check(&api, "a").await;
    assert_eq!(scene.faulty.calls(), calls, "a dead store is not asked on every request");
    assert_eq!(scene.guarded.counts().not_asked, 101);

    scene.clock.advance(Duration::from_millis(251));
    let _ = scene.check(&api, "a").await;
    assert_eq!(scene.faulty.calls(), calls + 1, "one probe");
    assert_eq!(scene.guarded.breaker(), BreakerState::Open, "which failed");
    scene.clock.advance(Duration::from_millis(499));
    let _ = scene.check(&api, "a").await;
    assert_eq!(scene.faulty.calls(), calls + 1, "the pause has doubled");

    scene.faulty.is(Mode::Fine);
    scene.clock.advance(Duration::from_millis(501));
    assert_eq!(scene.check(&api, "a").await.source(), Source::Store, "a probe's answer counts");
    assert_eq!(scene.guarded.breaker(), BreakerState::HalfOpen);
    let _ = scene.check(&api, "a").await;
    assert_eq!(scene.guarded.breaker(), BreakerState::Closed);
    assert_eq!(
        scene.diary.about("breaker"),
        ["open", "half-open", "open", "half-open", "closed"].map(|state| format!("breaker: {state}"))
    );
    assert_eq!(scene.guarded.counts().opened, 2);
    assert_eq!(scene.diary.about("called: timeout").len(), 6);
}

#[tokio::test(start_paused = true)]
async fn of_many_callers_one_finds_out() {
    let scene = Arc::new(Scene::new(|guarded| guarded));
    let api = api();
    scene.open(&api).await;
    scene.faulty.is(Mode::Hangs);
    let calls = scene.faulty.calls();
    scene.clock.advance(Duration::from_secs(1));
    let mut callers = JoinSet::new();
    for _ in 0..1_000 {
        let (scene, api) = (Arc::clone(&scene), api.clone());
        callers.spawn(async move { scene.check(&api, "a").await.source() });
    }
    let sources = callers.join_all().await;
    assert_eq!(scene.faulty.calls(), calls + 1);
    assert!(sources.iter().all(|source| *source == Source::Policy));
    assert_eq!(scene.guarded.counts().late, 1);
}

#[tokio::test]
async fn a_probe_whose_caller_goes_away_is_no_outcome() {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use tollgate_core::store::Store;
    let scene = Scene::new(|guarded| guarded);
    let api = api();
    scene.open(&api).await;
    scene.clock.advance(Duration::from_secs(1));
    scene.faulty.is(Mode::Hangs);
    {
        let charge = api.charge("a");
        let mut call = pin!(scene.guarded.decide_one(&charge, &scene.clock));
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(scene.check(&api, "a").await.source(), Source::Policy, "another is at it");
    }
    scene.faulty.is(Mode::Fine);
    assert_eq!(scene.check(&api, "a").await.source(), Source::Store, "the next one finds out");
}

#[tokio::test]
async fn a_batch_is_one_call_and_fails_if_a_part_does() {
    use tollgate_core::store::{Run, Store};
    use tollgate_core::{Clock, Request};
    let scene = Scene::new(|guarded| guarded.on_failure(half()).opens_after(2, 2));
    let api = api();
    let charges = [api.charge("a")];
    let runs = [Run::new(Request::new(&charges), 8), Run::new(Request::new(&charges), 1)];
    let ask = async || {
        let answers = scene.guarded.decide_batch(&runs, scene.clock.now()).await;
        answers.into_iter().map(|answer| answer.expect("an answer").passed()).collect::<Vec<_>>()
    };
    assert_eq!(ask().await, [8, 1]);
    scene.faulty.is(Mode::Fails(ErrorKind::Unavailable));
    assert_eq!(ask().await, [5, 0], "the share");
    assert_eq!(scene.guarded.breaker(), BreakerState::Closed, "one call");
    ask().await;
    assert_eq!(scene.guarded.breaker(), BreakerState::Open);
    let calls = scene.faulty.calls();
    assert_eq!(ask().await, [0, 0]);
    assert_eq!(scene.faulty.calls(), calls);
}

#[tokio::test]
async fn what_never_reached_the_store_does_not_show_that_it_is_back() {
    use tollgate_core::Request;
    use tollgate_core::store::{Run, Store};
    let scene = Scene::new(|guarded| guarded);
    let window = Limit::per_second(10).fixed_window().build("window").expect("valid");
    scene.open(&window).await;
    scene.clock.advance(Duration::from_secs(1));
    scene.faulty.is(Mode::Fails(ErrorKind::Unsupported));
    for _ in 0..3 {
        let reserve = window.charge("a").with_max_wait(Duration::from_secs(1));
        assert_eq!(scene.charge(reserve).await.expect_err("refused").kind(), ErrorKind::Unsupported);
        assert!(scene.decide(&[]).await.expect("nothing to decide").is_allowed());
        let nothing = [Run::new(Request::new(&[]), 2)];
        let now = tollgate_core::Clock::now(&scene.clock);
        assert_eq!(scene.guarded.decide_batch(&nothing, now).await[0].as_ref().expect("nothing").passed(), 2);
    }
    assert_eq!(scene.guarded.breaker(), BreakerState::HalfOpen);
    scene.faulty.is(Mode::Fine);
    scene.bring_back(&window).await;
}
