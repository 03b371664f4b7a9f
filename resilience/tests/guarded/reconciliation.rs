//! Reconciliation: after an outage, the store receives what the fallback store granted.

use std::time::Duration;

use tollgate_core::store::ImmediateStore;
use tollgate_core::{Action, BreakerState, Clock, ErrorKind, Limit, LimitBuilder, Source, Time};
use tollgate_resilience::{FallbackStore, Share};
use tollgate_store_memory::MemoryStore;

use super::faulty::{Fault, FaultyStore, Fixture, half};

pub(crate) fn hourly(with: impl FnOnce(LimitBuilder) -> LimitBuilder) -> Limit {
    with(Limit::per_hour(100)).build("hourly").expect("valid")
}

pub(crate) async fn passes(fixture: &Fixture, limit: &Limit, key: &str, count: u32) {
    for _ in 0..count {
        assert!(fixture.check(limit, key).await.is_allowed());
    }
}

#[tokio::test]
async fn the_store_continues_where_the_fallback_store_ended() {
    for limit in [
        hourly(LimitBuilder::fixed_window),
        hourly(|limit| limit.fixed_window().anchored()),
        hourly(LimitBuilder::sliding_window),
        hourly(LimitBuilder::sliding_log),
        hourly(|limit| limit.sliding_counter(6)),
        hourly(LimitBuilder::refill_by_interval),
    ] {
        let fixture = Fixture::new(|builder| builder.on_failure(half()));
        passes(&fixture, &limit, "a", 30).await;
        fixture.open_breaker(&limit).await;
        passes(&fixture, &limit, "a", 20).await;
        passes(&fixture, &limit, "b", 50).await;
        assert!(fixture.check(&limit, "b").await.is_denied(), "half of the limit");
        fixture.recover(&limit).await;
        assert_eq!(fixture.remaining(&limit, "a"), 50, "{limit:?}");
        assert_eq!(fixture.remaining(&limit, "b"), 50, "{limit:?}");
        passes(&fixture, &limit, "a", 50).await;
        assert!(fixture.check(&limit, "a").await.is_denied(), "exact again");
        assert_eq!(fixture.guarded.stats().reconciled, 70);
        assert_eq!(fixture.events.starting_with("reconciled"), ["reconciled: 2, lost 0"]);
    }
}

#[tokio::test]
async fn refunds_are_subtracted() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let limit = hourly(LimitBuilder::fixed_window);
    passes(&fixture, &limit, "a", 30).await;
    fixture.open_breaker(&limit).await;
    passes(&fixture, &limit, "a", 10).await;
    let refund = |key, cost| limit.charge(key).with_cost(cost).with_action(Action::Refund { at: None });
    assert!(fixture.charge(refund("a", 4)).await.expect("applied").is_allowed());
    passes(&fixture, &limit, "b", 3).await;
    assert!(fixture.charge(refund("b", 3)).await.expect("applied").is_allowed());
    fixture.recover(&limit).await;
    assert_eq!((fixture.remaining(&limit, "a"), fixture.remaining(&limit, "b")), (64, 100));
}

#[tokio::test]
async fn reconciliation_precedes_the_first_decisions() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let limit = hourly(LimitBuilder::fixed_window);
    fixture.open_breaker(&limit).await;
    passes(&fixture, &limit, "a", 10).await;
    fixture.faulty.inject(Fault::None);
    fixture.clock.advance(Duration::from_secs(1));
    for _ in 0..2 {
        assert_eq!(fixture.check(&limit, "b").await.source(), Source::Store, "a probe");
    }
    // The reconciliation task has not run yet.
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::HalfOpen);
    assert_eq!(fixture.check(&limit, "a").await.source(), Source::Fallback);
    fixture.recover(&limit).await;
    assert_eq!(fixture.remaining(&limit, "a"), 89, "the eleventh is included");
}

#[tokio::test]
async fn deltas_are_applied_at_the_instants_of_the_grants() {
    // The store decides by a clock of its own, an hour and a half ahead.
    let ahead = Duration::from_secs(5_400);
    let fixture = Fixture::on(FaultyStore::ahead(ahead), |builder| builder.on_failure(half()));
    let log = hourly(LimitBuilder::sliding_log);
    fixture.open_breaker(&log).await;
    passes(&fixture, &log, "a", 10).await;
    fixture.clock.advance(Duration::from_secs(1_800));
    passes(&fixture, &log, "a", 5).await;
    fixture.recover(&log).await;
    assert_eq!(fixture.remaining(&log, "a"), 85);
    fixture.clock.advance(Duration::from_secs(1_800));
    assert_eq!(fixture.remaining(&log, "a"), 95, "the first ten have left the window");
    fixture.clock.advance(Duration::from_secs(1_800));
    assert_eq!(fixture.remaining(&log, "a"), 100);
}

#[tokio::test]
async fn limits_with_a_short_reset_time_are_not_reconciled() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let short = Limit::per_second(10).build("short").expect("valid");
    fixture.open_breaker(&short).await;
    passes(&fixture, &short, "a", 5).await;
    fixture.recover(&short).await;
    assert_eq!(fixture.guarded.stats().reconciled, 0);
    assert_eq!(fixture.events.starting_with("reconciled").len(), 0);
}

#[tokio::test]
async fn many_keys_are_reconciled_in_few_calls() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let limit = hourly(LimitBuilder::fixed_window);
    fixture.open_breaker(&limit).await;
    for key in 0..1_000 {
        passes(&fixture, &limit, &key.to_string(), 1).await;
    }
    let calls = fixture.faulty.calls();
    fixture.recover(&limit).await;
    assert!(fixture.faulty.calls() - calls < 25, "{} calls", fixture.faulty.calls() - calls);
    assert_eq!(fixture.guarded.stats().reconciled, 1_000);
    assert!((0..1_000).all(|key| fixture.remaining(&limit, &key.to_string()) == 99));
}

#[tokio::test]
async fn a_single_failed_call_is_reconciled_after_the_next_success() {
    let fixture =
        Fixture::new(|builder| builder.on_failure(FallbackStore::new(MemoryStore::new(), Share::one_of(1))));
    let limit = hourly(LimitBuilder::fixed_window);
    passes(&fixture, &limit, "a", 10).await;
    fixture.faulty.inject(Fault::Error(ErrorKind::Unavailable));
    passes(&fixture, &limit, "a", 1).await;
    fixture.faulty.inject(Fault::None);
    passes(&fixture, &limit, "a", 1).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.remaining(&limit, "a"), 88);
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Closed);
}

#[tokio::test]
async fn a_denied_request_is_not_reconciled() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let (limit, narrow) =
        (hourly(LimitBuilder::fixed_window), Limit::per_hour(2).build("narrow").expect("valid"));
    fixture.open_breaker(&limit).await;
    let both = [limit.charge("a"), narrow.charge("a")];
    assert!(fixture.decide(&both).await.expect("a decision").is_allowed());
    assert!(fixture.decide(&both).await.expect("a decision").is_denied());
    fixture.recover(&limit).await;
    assert_eq!((fixture.remaining(&limit, "a"), fixture.remaining(&narrow, "a")), (99, 1));
}

#[tokio::test]
async fn grants_of_a_long_outage_are_all_reconciled() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let log = hourly(LimitBuilder::sliding_log);
    fixture.open_breaker(&log).await;
    for _ in 0..10 {
        for key in 0..100 {
            passes(&fixture, &log, &key.to_string(), 1).await;
        }
        fixture.clock.advance(Duration::from_secs(300));
    }
    fixture.recover(&log).await;
    assert_eq!(fixture.guarded.stats().reconciled, 1_000);
    assert!((0..100).all(|key| fixture.remaining(&log, &key.to_string()) == 90));
    assert_eq!(fixture.events.starting_with("reconciled"), ["reconciled: 100, lost 0"], "keys, not deltas");
}

#[tokio::test]
async fn a_refund_does_not_move_into_a_later_window() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let window = Limit::per(100, Duration::from_secs(1_600)).fixed_window().build("window").expect("valid");
    // So that a window ends 200 seconds from now.
    let elapsed = fixture.clock.now().since(Time::EPOCH).as_secs() % 1_600;
    fixture.clock.advance(Duration::from_secs(2 * 1_600 - elapsed - 200));
    fixture.open_breaker(&window).await;
    passes(&fixture, &window, "a", 50).await;
    fixture.clock.advance(Duration::from_secs(150));
    let refund = window.charge("a").with_cost(50).with_action(Action::Refund { at: None });
    assert!(fixture.charge(refund).await.expect("applied").is_allowed());
    fixture.clock.advance(Duration::from_secs(60));
    passes(&fixture, &window, "a", 1).await;
    // Another process has used most of the new window.
    let others = window.charge("a").with_cost(80);
    assert!(fixture.faulty.memory().charge_now(&others, &fixture.clock).is_allowed());
    fixture.recover(&window).await;
    assert_eq!(fixture.remaining(&window, "a"), 19);
}
