//! What another store granted is told to the store when it is back.

use std::time::Duration;

use tollgate_core::store::ImmediateStore;
use tollgate_core::{Action, BreakerState, Clock, ErrorKind, Limit, LimitBuilder, Source, Time};
use tollgate_resilience::{Local, Share};
use tollgate_store_memory::MemoryStore;

use super::faulty::{Faulty, Mode, Scene, half};

fn hourly(with: impl FnOnce(LimitBuilder) -> LimitBuilder) -> Limit {
    with(Limit::per_hour(100)).build("hourly").expect("valid")
}

async fn passes(scene: &Scene, limit: &Limit, who: &str, count: u32) {
    for _ in 0..count {
        assert!(scene.check(limit, who).await.is_allowed());
    }
}

#[tokio::test]
async fn long_windows_go_on_where_the_other_store_left_them() {
    for limit in [
        hourly(LimitBuilder::fixed_window),
        hourly(LimitBuilder::sliding_window),
        hourly(LimitBuilder::sliding_log),
        hourly(|limit| limit.sliding_counter(6)),
        hourly(LimitBuilder::refill_by_interval),
    ] {
        let scene = Scene::new(|guarded| guarded.on_failure(half()));
        passes(&scene, &limit, "a", 30).await;
        scene.open(&limit).await;
        passes(&scene, &limit, "a", 20).await;
        passes(&scene, &limit, "b", 50).await;
        assert!(scene.check(&limit, "b").await.is_denied(), "half of it");
        scene.bring_back(&limit).await;
        assert_eq!(scene.left(&limit, "a"), 50, "{limit:?}");
        assert_eq!(scene.left(&limit, "b"), 50, "{limit:?}");
        passes(&scene, &limit, "a", 50).await;
        assert!(scene.check(&limit, "a").await.is_denied(), "exact again");
        assert_eq!(scene.guarded.counts().handed_over, 70);
        assert_eq!(scene.diary.about("handed over"), ["handed over: 2, lost 0"]);
    }
}

#[tokio::test]
async fn what_was_given_back_is_not_told() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let limit = hourly(LimitBuilder::fixed_window);
    passes(&scene, &limit, "a", 30).await;
    scene.open(&limit).await;
    passes(&scene, &limit, "a", 10).await;
    let refund = |who, cost| limit.charge(who).with_cost(cost).with_action(Action::Refund { at: None });
    assert!(scene.charge(refund("a", 4)).await.expect("booked").is_allowed());
    passes(&scene, &limit, "b", 3).await;
    assert!(scene.charge(refund("b", 3)).await.expect("booked").is_allowed());
    scene.bring_back(&limit).await;
    assert_eq!((scene.left(&limit, "a"), scene.left(&limit, "b")), (64, 100));
}

#[tokio::test]
async fn it_is_told_before_the_store_decides_again() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let limit = hourly(LimitBuilder::fixed_window);
    scene.open(&limit).await;
    passes(&scene, &limit, "a", 10).await;
    scene.faulty.is(Mode::Fine);
    scene.clock.advance(Duration::from_secs(1));
    for _ in 0..2 {
        assert_eq!(scene.check(&limit, "b").await.source(), Source::Store, "a probe");
    }
    // The task that tells has not run yet.
    assert_eq!(scene.guarded.breaker(), BreakerState::HalfOpen);
    assert_eq!(scene.check(&limit, "a").await.source(), Source::Fallback);
    scene.bring_back(&limit).await;
    assert_eq!(scene.left(&limit, "a"), 89, "the eleventh, too");
}

#[tokio::test]
async fn it_is_booked_at_the_instant_at_which_it_was_granted() {
    // The store decides by a clock of its own, an hour and a half ahead.
    let ahead = Duration::from_secs(5_400);
    let scene = Scene::on(Faulty::ahead(ahead), |guarded| guarded.on_failure(half()));
    let log = hourly(LimitBuilder::sliding_log);
    scene.open(&log).await;
    passes(&scene, &log, "a", 10).await;
    scene.clock.advance(Duration::from_secs(1_800));
    passes(&scene, &log, "a", 5).await;
    scene.bring_back(&log).await;
    assert_eq!(scene.left(&log, "a"), 85);
    scene.clock.advance(Duration::from_secs(1_800));
    assert_eq!(scene.left(&log, "a"), 95, "the first ten are an hour ago");
    scene.clock.advance(Duration::from_secs(1_800));
    assert_eq!(scene.left(&log, "a"), 100);
}

#[tokio::test]
async fn short_limits_have_nothing_to_tell() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let short = Limit::per_second(10).build("short").expect("valid");
    scene.open(&short).await;
    passes(&scene, &short, "a", 5).await;
    scene.bring_back(&short).await;
    assert_eq!(scene.guarded.counts().handed_over, 0);
    assert_eq!(scene.diary.about("handed over").len(), 0);
}

#[tokio::test]
async fn the_list_is_bounded_and_what_does_not_fit_is_counted() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()).hands_over(10, Duration::from_secs(60)));
    let limit = hourly(LimitBuilder::fixed_window);
    scene.open(&limit).await;
    for who in 0..15 {
        passes(&scene, &limit, &who.to_string(), 3).await;
    }
    assert_eq!(scene.guarded.counts().lost, 15);
    scene.bring_back(&limit).await;
    assert_eq!(scene.guarded.counts().handed_over, 30);
    assert_eq!(scene.diary.about("handed over"), ["handed over: 10, lost 15"]);
    let missing: u32 = (0..15).map(|who| 100 - scene.left(&limit, &who.to_string())).sum();
    assert_eq!(missing, 30);
}

#[tokio::test]
async fn many_keys_are_told_in_few_calls() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let limit = hourly(LimitBuilder::fixed_window);
    scene.open(&limit).await;
    for who in 0..1_000 {
        passes(&scene, &limit, &who.to_string(), 1).await;
    }
    let calls = scene.faulty.calls();
    scene.bring_back(&limit).await;
    assert!(scene.faulty.calls() - calls < 25, "{} calls", scene.faulty.calls() - calls);
    assert_eq!(scene.guarded.counts().handed_over, 1_000);
    assert!((0..1_000).all(|who| scene.left(&limit, &who.to_string()) == 99));
}

#[tokio::test]
async fn a_telling_that_fails_is_repeated_and_counts_once() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()).closes_after(1));
    let limit = hourly(LimitBuilder::fixed_window);
    scene.open(&limit).await;
    passes(&scene, &limit, "a", 10).await;
    scene.faulty.is(Mode::Fine);
    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(scene.check(&limit, "b").await.source(), Source::Store);
    // Gone again before the task could tell it.
    scene.faulty.is(Mode::Fails(ErrorKind::Unavailable));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.guarded.breaker(), BreakerState::Open);
    passes(&scene, &limit, "a", 10).await;
    scene.bring_back(&limit).await;
    assert_eq!((scene.left(&limit, "a"), scene.guarded.counts().handed_over), (80, 20));
}

#[tokio::test]
async fn a_telling_whose_answer_is_lost_counts_once() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()).closes_after(1));
    let limit = hourly(LimitBuilder::fixed_window);
    scene.open(&limit).await;
    passes(&scene, &limit, "a", 10).await;
    scene.faulty.is(Mode::LosesAnswers);
    scene.clock.advance(Duration::from_secs(1));
    assert_eq!(scene.check(&limit, "b").await.source(), Source::Store);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!((scene.left(&limit, "a"), scene.guarded.counts().handed_over), (90, 0));
    passes(&scene, &limit, "a", 10).await;
    scene.bring_back(&limit).await;
    assert_eq!((scene.left(&limit, "a"), scene.guarded.counts().handed_over), (80, 20));
}

#[test]
fn a_telling_that_is_cut_off_with_its_runtime_is_not_lost() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()).closes_after(1));
    let limit = hourly(LimitBuilder::fixed_window);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime().block_on(async {
        scene.open(&limit).await;
        passes(&scene, &limit, "a", 10).await;
        scene.faulty.is(Mode::Fine);
        scene.clock.advance(Duration::from_secs(1));
        assert_eq!(scene.check(&limit, "b").await.source(), Source::Store);
        scene.faulty.is(Mode::Hangs);
        tokio::task::yield_now().await;
    });
    assert_eq!(scene.guarded.breaker(), BreakerState::HalfOpen, "it was being told");
    runtime().block_on(scene.bring_back(&limit));
    assert_eq!((scene.left(&limit, "a"), scene.guarded.counts().handed_over), (90, 10));
}

#[tokio::test]
async fn a_call_that_failed_alone_is_told_with_the_next_that_succeeds() {
    let scene = Scene::new(|guarded| guarded.on_failure(Local::on(MemoryStore::new(), Share::WHOLE)));
    let limit = hourly(LimitBuilder::fixed_window);
    passes(&scene, &limit, "a", 10).await;
    scene.faulty.is(Mode::Fails(ErrorKind::Unavailable));
    passes(&scene, &limit, "a", 1).await;
    scene.faulty.is(Mode::Fine);
    passes(&scene, &limit, "a", 1).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.left(&limit, "a"), 88);
    assert_eq!(scene.guarded.breaker(), BreakerState::Closed);
}

#[tokio::test]
async fn a_denied_request_leaves_nothing_to_tell() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let (limit, narrow) =
        (hourly(LimitBuilder::fixed_window), Limit::per_hour(2).build("narrow").expect("valid"));
    scene.open(&limit).await;
    let both = [limit.charge("a"), narrow.charge("a")];
    assert!(scene.decide(&both).await.expect("an answer").is_allowed());
    assert!(scene.decide(&both).await.expect("an answer").is_denied());
    scene.bring_back(&limit).await;
    assert_eq!((scene.left(&limit, "a"), scene.left(&narrow, "a")), (99, 1));
}

#[tokio::test]
async fn what_was_granted_over_a_long_time_is_all_told_before_the_store_decides_again() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let log = hourly(LimitBuilder::sliding_log);
    scene.open(&log).await;
    for _ in 0..10 {
        for who in 0..100 {
            passes(&scene, &log, &who.to_string(), 1).await;
        }
        scene.clock.advance(Duration::from_secs(300));
    }
    scene.bring_back(&log).await;
    assert_eq!(scene.guarded.counts().handed_over, 1_000);
    assert!((0..100).all(|who| scene.left(&log, &who.to_string()) == 90));
    assert_eq!(scene.diary.about("handed over"), ["handed over: 100, lost 0"], "keys, not amounts");
}

#[tokio::test]
async fn a_key_that_nobody_understands_is_counted_as_lost_and_holds_nobody_up() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let limit = hourly(LimitBuilder::fixed_window);
    scene.faulty.spoil("spoilt");
    for _ in 0..20 {
        passes(&scene, &limit, "spoilt", 1).await;
        passes(&scene, &limit, "a", 1).await;
        tokio::task::yield_now().await;
    }
    let calls = scene.faulty.calls();
    assert!(calls <= 80, "{calls} calls for forty checks");
    assert_eq!(scene.guarded.breaker(), BreakerState::Closed);
    scene.open(&limit).await;
    passes(&scene, &limit, "spoilt", 5).await;
    scene.bring_back(&limit).await;
    let counts = scene.guarded.counts();
    assert_eq!((counts.lost, counts.handed_over), (25, 0));
    assert_eq!(scene.diary.about("handed over").last().map(String::as_str), Some("handed over: 0, lost 5"));
}

#[tokio::test]
async fn what_was_given_back_does_not_move_into_a_later_window() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()));
    let window = Limit::per(100, Duration::from_secs(1_600)).fixed_window().build("window").expect("valid");
    // So that a window ends 200 seconds from now.
    let into = scene.clock.now().since(Time::EPOCH).as_secs() % 1_600;
    scene.clock.advance(Duration::from_secs(2 * 1_600 - into - 200));
    scene.open(&window).await;
    passes(&scene, &window, "a", 50).await;
    scene.clock.advance(Duration::from_secs(150));
    let refund = window.charge("a").with_cost(50).with_action(Action::Refund { at: None });
    assert!(scene.charge(refund).await.expect("booked").is_allowed());
    scene.clock.advance(Duration::from_secs(60));
    passes(&scene, &window, "a", 1).await;
    // Another process has used most of the new window.
    let others = window.charge("a").with_cost(80);
    assert!(scene.faulty.memory().charge_now(&others, &scene.clock).is_allowed());
    scene.bring_back(&window).await;
    assert_eq!(scene.left(&window, "a"), 19);
}

#[tokio::test]
async fn keys_of_long_ago_make_room_for_those_of_now() {
    let scene = Scene::new(|guarded| guarded.on_failure(half()).hands_over(10, Duration::from_secs(10)));
    let short = Limit::per(10, Duration::from_secs(20)).fixed_window().build("short").expect("valid");
    scene.open(&short).await;
    for who in 0..10 {
        passes(&scene, &short, &who.to_string(), 5).await;
    }
    scene.clock.advance(Duration::from_secs(3_600));
    for who in 100..110 {
        passes(&scene, &short, &who.to_string(), 5).await;
    }
    assert_eq!(scene.guarded.counts().lost, 0);
}

#[tokio::test]
async fn the_amounts_of_one_key_are_bounded() {
    let scene =
        Scene::new(|guarded| guarded.on_failure(Local::on(MemoryStore::new(), Share::WHOLE)).closes_after(1));
    let daily = Limit::per_day(1_000_000).build("daily").expect("valid");
    scene.open(&daily).await;
    for _ in 0..200 {
        passes(&scene, &daily, "a", 1).await;
        // Back for a moment, and gone before it was told.
        scene.clock.advance(Duration::from_secs(8));
        scene.faulty.is(Mode::LosesAnswers);
        let _ = scene.check(&daily, "b").await;
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(scene.guarded.counts().handed_over, 0);
    let lost = scene.guarded.counts().lost;
    scene.bring_back(&daily).await;
    let counts = scene.guarded.counts();
    assert!(counts.handed_over <= 64, "{counts:?}");
    assert_eq!(counts.handed_over + lost.max(counts.lost), 200, "{counts:?}");
}
