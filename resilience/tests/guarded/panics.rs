//! Bugs fail like stores do.

use std::sync::Arc;

use tollgate_core::store::{Capability, Export, ImmediateStore, Run, RunVerdict, Store};
use tollgate_core::{
    BreakerState, Charge, Clock, Decision, Key, Limit, Limiter, Request, Source, StoreError, Time, Verdict,
};
use tollgate_resilience::{Guarded, Local, OnFailure, Share};

use super::faulty::{Mode, Scene, half};

fn api() -> Limit {
    Limit::per_second(10).build("api").expect("valid")
}

#[tokio::test]
async fn a_store_that_panics_is_a_store_that_fails() {
    for mode in [Mode::Panics, Mode::PanicsLater] {
        let scene = Scene::new(|guarded| guarded.on_failure(half()).on_failure_of("shut", OnFailure::Deny));
        let (api, shut) = (api(), Limit::per_second(10).build("shut").expect("valid"));
        scene.faulty.is(mode);
        assert_eq!(scene.check(&api, "a").await.source(), Source::Fallback);
        assert!(scene.check(&shut, "a").await.is_denied());
        let charges = [api.charge("a"), shut.charge("a")];
        assert!(scene.decide(&charges).await.expect("an answer").is_denied());
        let run = [Run::new(Request::new(&charges[..1]), 2)];
        let answer = scene.guarded.decide_batch(&run, scene.clock.now()).await.remove(0);
        assert_eq!(answer.expect("an answer").passed(), 2);
        assert_eq!(scene.guarded.breaker(), BreakerState::Closed);
        let _ = scene.check(&api, "a").await;
        assert_eq!(scene.guarded.breaker(), BreakerState::Open);
        assert_eq!(scene.guarded.counts().panicked, 5);
        assert_eq!(scene.diary.about("fell back")[0], "fell back: api, panicked, fallback");
        scene.bring_back(&api).await;
        assert_eq!(scene.check(&api, "a").await.source(), Source::Store);
    }
}

#[tokio::test]
async fn a_rule_that_panics_follows_its_policy() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()).on_failure_of("plans", OnFailure::Deny));
    let limits = [api()];
    let now = scene.clock.now();
    let by = async |rule: &str, index: usize| {
        let verdict = scene.guarded.decide_by(rule, || [limits[index].charge("a")], now).await;
        let verdict = verdict.expect("an answer");
        (verdict.is_allowed(), verdict.decisions()[0].source())
    };
    assert_eq!(by("plans", 0).await, (true, Source::Store));
    assert_eq!(by("plans", 1).await, (false, Source::Policy));
    assert_eq!(by("others", 1).await, (true, Source::Policy));
    assert_eq!(scene.guarded.counts().panicked, 2);
    assert_eq!(scene.guarded.breaker(), BreakerState::Closed, "the store has done nothing");
    assert_eq!(
        scene.diary.about("fell back"),
        ["fell back: plans, panicked, policy", "fell back: others, panicked, policy"]
    );
}

/// A store with a bug.
#[derive(Debug)]
struct Buggy;

impl Store for Buggy {
    fn capability(&self) -> Capability {
        Capability::exact()
    }

    /// Before there is a call to wait for.
    fn decide(
        &self,
        request: Request<'_>,
        _: Time,
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
        assert!(request.charges().is_empty(), "a bug");
        std::future::ready(Ok(Verdict::new([], Time::EPOCH)))
    }

    async fn decide_batch(&self, _: &[Run<'_>], _: Time) -> Vec<Result<RunVerdict, StoreError>> {
        panic!("a bug")
    }

    fn decide_detached(&self, _: Request<'_>, _: Time) {
        panic!("a bug")
    }

    async fn export(&self, _: &Limit, _: Key<'_>, _: Time) -> Result<Export, StoreError> {
        panic!("a bug")
    }
}

impl ImmediateStore for Buggy {
    fn charge_now(&self, _: &Charge<'_>, _: &impl Clock) -> Decision {
        panic!("a bug")
    }

    fn decide_now(&self, _: Request<'_>, _: Time) -> Result<Verdict, StoreError> {
        panic!("a bug")
    }
}

#[tokio::test]
async fn another_store_that_panics_refuses() {
    let scene = Scene::new(|guarded| guarded.on_failure(Local::on(Buggy, Share::WHOLE)));
    let api = api();
    scene.open(&api).await;
    assert!(scene.check(&api, "a").await.is_denied());
    assert!(scene.decide(&[api.charge("a"), api.charge("b")]).await.expect("an answer").is_denied());
    assert!(scene.guarded.counts().panicked >= 2);
}

#[tokio::test]
async fn a_store_that_panics_before_it_waits_is_contained_too() {
    let guarded = Guarded::new(Buggy).on_failure(OnFailure::Deny);
    let (api, now) = (api(), Time::from_secs(1_790_000_000));
    assert!(guarded.decide_one(&api.charge("a"), &now).await.expect("an answer").is_denied());
    assert!(guarded.decide(Request::new(&[api.charge("a")]), now).await.expect("an answer").is_denied());
    assert_eq!(guarded.counts().panicked, 2);
}

#[test]
fn bugs_of_stores_that_never_wait_are_contained_without_a_runtime() {
    let guarded = Arc::new(Guarded::new(Buggy).on_failure_of("shut", OnFailure::Deny).opens_after(3, 3));
    let limiter = Limiter::new(Arc::clone(&guarded));
    let (api, shut) = (api(), Limit::per_second(10).build("shut").expect("valid"));
    assert!(limiter.check_now(&api, "a").is_allowed());
    assert!(limiter.check_now(&shut, "a").is_denied());
    assert!(limiter.check_all_now([api.charge("a"), shut.charge("a")]).expect("an answer").is_denied());
    assert_eq!(guarded.breaker(), BreakerState::Open);
    assert!(limiter.check_now(&api, "a").is_allowed());
    assert_eq!((guarded.counts().panicked, guarded.counts().not_asked), (3, 1));
    guarded.decide_detached(Request::new(&[]), Time::EPOCH);
}
