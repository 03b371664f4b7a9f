//! A panic is a failure of the store.

use std::sync::Arc;

use tollgate_core::store::{Capability, Export, ImmediateStore, Run, RunVerdict, Store};
use tollgate_core::{
    BreakerState, Charge, Clock, Decision, Key, Limit, Limiter, Request, Source, StoreError, Time, Verdict,
};
use tollgate_resilience::{FallbackStore, Guarded, OnFailure, Share};

use super::faulty::{Fault, Fixture, half};

fn api() -> Limit {
    Limit::per_second(10).build("api").expect("valid")
}

#[tokio::test]
async fn a_panic_of_the_store_is_a_failed_call() {
    for fault in [Fault::Panic, Fault::PanicAfterWaiting] {
        let (api, closed) = (api(), Limit::per_second(10).build("closed").expect("valid"));
        let fixture =
            Fixture::new(|builder| builder.on_failure(half()).on_failure_of(&closed, OnFailure::Deny));
        fixture.faulty.inject(fault);
        assert_eq!(fixture.check(&api, "a").await.source(), Source::Fallback);
        assert!(fixture.check(&closed, "a").await.is_denied());
        let charges = [api.charge("a"), closed.charge("a")];
        assert!(fixture.decide(&charges).await.expect("a decision").is_denied());
        let run = [Run::new(Request::new(&charges[..1]), 2)];
        let result = fixture.guarded.decide_batch(&run, fixture.clock.now()).await.remove(0);
        assert_eq!(result.expect("a decision").passed(), 2);
        assert_eq!(fixture.guarded.breaker_state(), BreakerState::Closed);
        let _ = fixture.check(&api, "a").await;
        assert_eq!(fixture.guarded.breaker_state(), BreakerState::Open);
        assert_eq!(fixture.guarded.stats().panics, 5);
        assert_eq!(fixture.events.starting_with("fell back")[0], "fell back: api, panicked, fallback");
        fixture.recover(&api).await;
        assert_eq!(fixture.check(&api, "a").await.source(), Source::Store);
    }
}

/// A store that always panics.
#[derive(Debug)]
struct PanickingStore;

impl Store for PanickingStore {
    fn capability(&self) -> Capability {
        Capability::exact()
    }

    /// Panics before it returns a future.
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

impl ImmediateStore for PanickingStore {
    fn charge_now(&self, _: &Charge<'_>, _: &impl Clock) -> Decision {
        panic!("a bug")
    }

    fn decide_now(&self, _: Request<'_>, _: Time) -> Result<Verdict, StoreError> {
        panic!("a bug")
    }
}

#[tokio::test]
async fn a_panic_of_the_fallback_store_denies() {
    let fixture =
        Fixture::new(|builder| builder.on_failure(FallbackStore::new(PanickingStore, Share::one_of(1))));
    let api = api();
    fixture.open_breaker(&api).await;
    assert!(fixture.check(&api, "a").await.is_denied());
    assert!(fixture.decide(&[api.charge("a"), api.charge("b")]).await.expect("a decision").is_denied());
    assert!(fixture.guarded.stats().panics >= 2);
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_caught() {
    let guarded = Guarded::builder(PanickingStore).on_failure(OnFailure::Deny).build().expect("valid");
    let (api, now) = (api(), Time::from_secs(1_790_000_000));
    assert!(guarded.decide_one(&api.charge("a"), &now).await.expect("a decision").is_denied());
    assert!(guarded.decide(Request::new(&[api.charge("a")]), now).await.expect("a decision").is_denied());
    assert_eq!(guarded.stats().panics, 2);
}

#[test]
fn panics_of_immediate_stores_are_caught_without_a_runtime() {
    let (api, closed) = (api(), Limit::per_second(10).build("closed").expect("valid"));
    let builder = Guarded::builder(PanickingStore).on_failure_of(&closed, OnFailure::Deny);
    let guarded = Arc::new(builder.failure_threshold(3, 3).build().expect("valid"));
    let limiter = Limiter::new(Arc::clone(&guarded));
    assert!(limiter.check_now(&api, "a").is_allowed());
    assert!(limiter.check_now(&closed, "a").is_denied());
    assert!(limiter.check_all_now([api.charge("a"), closed.charge("a")]).expect("a decision").is_denied());
    assert_eq!(guarded.breaker_state(), BreakerState::Open);
    assert!(limiter.check_now(&api, "a").is_allowed());
    assert_eq!((guarded.stats().panics, guarded.stats().not_permitted_calls), (3, 1));
    guarded.decide_detached(Request::new(&[]), Time::EPOCH);
}
