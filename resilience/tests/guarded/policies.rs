//! What is answered instead of the store, limit by limit.

use std::time::Duration;

use tollgate_core::{ErrorKind, Limit, Outcome, Source};
use tollgate_resilience::{Local, OnFailure, Share};
use tollgate_store_memory::MemoryStore;

use super::faulty::{Mode, Scene, half};

fn limit(name: &str) -> Limit {
    Limit::per_second(10).build(name).expect("valid")
}

#[tokio::test]
async fn every_limit_has_its_own() {
    let scene = Scene::new(|guarded| {
        guarded
            .on_failure(half())
            .on_failure_of("open", OnFailure::Allow)
            .on_failure_of("shut", OnFailure::Deny)
            .opens_after(64, 64)
    });
    let (usual, open, shut) = (limit("usual"), limit("open"), limit("shut"));
    for limit in [&usual, &open, &shut] {
        assert_eq!(scene.check(limit, "a").await.source(), Source::Store);
    }
    scene.faulty.is(Mode::Fails(ErrorKind::Unavailable));
    for _ in 0..20 {
        let passed = scene.check(&open, "a").await;
        assert_eq!((passed.is_allowed(), passed.source()), (true, Source::Policy));
        let refused = scene.check(&shut, "a").await;
        assert_eq!((refused.is_denied(), refused.source()), (true, Source::Policy));
        assert_eq!(
            refused.retry_after(),
            Some(Duration::from_millis(500)),
            "when the store may be asked again"
        );
    }
    let mut passed = 0;
    for _ in 0..10 {
        let decision = scene.check(&usual, "a").await;
        assert_eq!(decision.source(), Source::Fallback);
        passed += u32::from(decision.is_allowed());
    }
    assert_eq!(passed, 5, "half of ten");
    assert!(scene.check(&usual, "b").await.is_allowed(), "another key has a share of its own");
    let counts = scene.guarded.counts();
    assert_eq!((counts.allowed, counts.denied, counts.local, counts.failed), (20, 20, 11, 51));
    assert_eq!(scene.diary.about("fell back: open")[0], "fell back: open, unavailable, policy");
    assert_eq!(scene.diary.about("fell back").len(), 51);

    scene.faulty.is(Mode::Fine);
    assert_eq!(scene.check(&shut, "a").await.source(), Source::Store);
}

#[tokio::test]
async fn without_a_policy_it_passes() {
    let scene = Scene::new(|guarded| guarded);
    scene.faulty.is(Mode::Fails(ErrorKind::Refused));
    assert!(scene.check(&limit("api"), "a").await.is_allowed());
}

#[tokio::test]
async fn a_request_passes_if_all_its_policies_let_it_pass_and_takes_nothing_otherwise() {
    let scene = Scene::new(|guarded| {
        guarded
            .on_failure(half())
            .on_failure_of("open", OnFailure::Allow)
            .on_failure_of("shut", OnFailure::Deny)
            .on_failure_of("elsewhere", Local::on(MemoryStore::new(), Share::one_of(5)))
    });
    let (usual, open, shut, elsewhere) = (limit("usual"), limit("open"), limit("shut"), limit("elsewhere"));
    scene.open(&usual).await;

    let verdict = scene.decide(&[open.charge("a"), usual.charge("a").with_cost(2)]).await.expect("an answer");
    let sources: Vec<_> = verdict.decisions().iter().map(tollgate_core::Decision::source).collect();
    assert!(verdict.is_allowed());
    assert_eq!(sources, [Source::Policy, Source::Fallback]);
    assert_eq!(verdict.decisions()[1].remaining(), 3);

    let denied =
        scene.decide(&[usual.charge("a"), shut.charge("a"), open.charge("a")]).await.expect("an answer");
    assert_eq!((denied.is_denied(), denied.most_restrictive_index()), (true, Some(1)));
    let granted: Vec<_> = denied.decisions().iter().map(tollgate_core::Decision::granted).collect();
    assert_eq!(granted, [0, 0, 0]);

    // The first store has room, the second has not: what the first took is given back.
    let both = [usual.charge("a").with_cost(3), elsewhere.charge("a").with_cost(3), usual.charge("b")];
    let denied = scene.decide(&both).await.expect("an answer");
    assert_eq!((denied.is_denied(), denied.most_restrictive_index()), (true, Some(1)));
    assert_eq!(denied.decisions()[0].granted(), 0);
    let both = [usual.charge("a").with_cost(3), elsewhere.charge("a").with_cost(2)];
    assert!(scene.decide(&both).await.expect("an answer").is_allowed(), "nothing was kept");
    assert!(scene.decide(&both).await.expect("an answer").is_denied());
}

#[tokio::test]
async fn more_than_the_share_holds_is_not_told_to_be_too_much_for_ever() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let api = limit("api");
    scene.open(&api).await;
    let decision = scene.charge(api.charge("a").with_cost(8)).await.expect("an answer");
    assert_eq!(decision.outcome(), Outcome::Denied);
    assert!(decision.retry_after().is_some_and(|wait| !wait.is_zero()), "when the store is back");
    let decision = scene.charge(api.charge("a").with_cost(11)).await.expect("an answer");
    assert_eq!(decision.outcome(), Outcome::NeverFits, "more than the limit itself holds");
}

#[tokio::test]
async fn a_share_that_cannot_be_counted_is_none() {
    let scene = Scene::new(|guarded| guarded.on_failure(Local::on(MemoryStore::new(), Share::one_of(1_000))));
    let slow = Limit::per_day(1).build("slow").expect("valid");
    scene.open(&slow).await;
    let decision = scene.check(&slow, "a").await;
    assert_eq!((decision.is_denied(), decision.source()), (true, Source::Policy));
}

#[tokio::test]
async fn a_limit_that_changes_while_the_store_is_away_has_the_share_of_its_new_numbers() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    scene.open(&limit("api")).await;
    assert_eq!(scene.check(&limit("api"), "a").await.limit(), 5);
    let upgraded = Limit::per_second(100).build("api").expect("valid");
    assert_eq!(scene.check(&upgraded, "b").await.limit(), 50);
    assert_eq!(scene.check(&limit("api"), "c").await.limit(), 5);
}

#[tokio::test]
async fn what_is_wrong_with_the_question_is_an_error_and_no_failure() {
    let scene = Scene::new(|guarded| guarded.opens_after(1, 1));
    let window = Limit::per_second(10).fixed_window().build("window").expect("valid");
    let reserve = window.charge("a").with_max_wait(Duration::from_secs(1));
    let error = scene.charge(reserve).await.expect_err("windows cannot reserve");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    scene.faulty.is(Mode::Fails(ErrorKind::Unsupported));
    assert_eq!(scene.charge(window.charge("a")).await.expect_err("passed on").kind(), ErrorKind::Unsupported);
    assert_eq!(scene.guarded.counts().failed, 0);

    // One key's state that nobody understands says nothing about the others'.
    scene.faulty.is(Mode::Fails(ErrorKind::Corrupt));
    assert_eq!(scene.check(&window, "a").await.source(), Source::Policy);
    assert_eq!(scene.guarded.breaker(), tollgate_core::BreakerState::Closed);

    scene.faulty.is(Mode::Fails(ErrorKind::Unavailable));
    let _ = scene.check(&window, "a").await;
    assert_eq!(scene.guarded.breaker(), tollgate_core::BreakerState::Open);
    let error = scene.charge(reserve).await.expect_err("windows cannot reserve here either");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
