//! Reconciliation that fails, and its bounds.

use std::time::Duration;

use tollgate_core::{BreakerState, ErrorKind, Limit, LimitBuilder, Source};
use tollgate_resilience::{FallbackStore, Share};
use tollgate_store_memory::MemoryStore;

use super::faulty::{Fault, Fixture, half};
use super::reconciliation::{hourly, passes};

#[tokio::test]
async fn the_number_of_keys_is_bounded_and_the_rest_is_counted_as_lost() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()).reconcile(10, Duration::from_secs(60)));
    let limit = hourly(LimitBuilder::fixed_window);
    fixture.open_breaker(&limit).await;
    for key in 0..15 {
        passes(&fixture, &limit, &key.to_string(), 3).await;
    }
    assert_eq!(fixture.guarded.stats().lost, 15);
    fixture.recover(&limit).await;
    assert_eq!(fixture.guarded.stats().reconciled, 30);
    assert_eq!(fixture.events.starting_with("reconciled"), ["reconciled: 10, lost 15"]);
    let missing: u32 = (0..15).map(|key| 100 - fixture.remaining(&limit, &key.to_string())).sum();
    assert_eq!(missing, 30);
}

#[tokio::test]
async fn a_failed_reconciliation_is_repeated_and_counts_once() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()).half_open_probes(1));
    let limit = hourly(LimitBuilder::fixed_window);
    fixture.open_breaker(&limit).await;
    passes(&fixture, &limit, "a", 10).await;
    fixture.faulty.inject(Fault::None);
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(fixture.check(&limit, "b").await.source(), Source::Store);
    // It fails again before the task runs.
    fixture.faulty.inject(Fault::Error(ErrorKind::Unavailable));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Open);
    passes(&fixture, &limit, "a", 10).await;
    fixture.recover(&limit).await;
    assert_eq!((fixture.remaining(&limit, "a"), fixture.guarded.stats().reconciled), (80, 20));
}

#[tokio::test]
async fn a_reconciliation_whose_replies_are_lost_counts_once() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()).half_open_probes(1));
    let limit = hourly(LimitBuilder::fixed_window);
    fixture.open_breaker(&limit).await;
    passes(&fixture, &limit, "a", 10).await;
    fixture.faulty.inject(Fault::LostReplies);
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(fixture.check(&limit, "b").await.source(), Source::Store);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!((fixture.remaining(&limit, "a"), fixture.guarded.stats().reconciled), (90, 0));
    passes(&fixture, &limit, "a", 10).await;
    fixture.recover(&limit).await;
    assert_eq!((fixture.remaining(&limit, "a"), fixture.guarded.stats().reconciled), (80, 20));
}

#[test]
fn a_reconciliation_that_ends_with_its_runtime_is_not_lost() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()).half_open_probes(1));
    let limit = hourly(LimitBuilder::fixed_window);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime().block_on(async {
        fixture.open_breaker(&limit).await;
        passes(&fixture, &limit, "a", 10).await;
        fixture.faulty.inject(Fault::None);
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!(fixture.check(&limit, "b").await.source(), Source::Store);
        fixture.faulty.inject(Fault::Hang);
        tokio::task::yield_now().await;
    });
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::HalfOpen, "reconciliation was in progress");
    runtime().block_on(fixture.recover(&limit));
    assert_eq!((fixture.remaining(&limit, "a"), fixture.guarded.stats().reconciled), (90, 10));
}

#[tokio::test]
async fn a_corrupt_key_is_counted_as_lost_and_delays_nothing() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()));
    let limit = hourly(LimitBuilder::fixed_window);
    fixture.faulty.corrupt("corrupt");
    for _ in 0..20 {
        passes(&fixture, &limit, "corrupt", 1).await;
        passes(&fixture, &limit, "a", 1).await;
        tokio::task::yield_now().await;
    }
    let calls = fixture.faulty.calls();
    assert!(calls <= 80, "{calls} calls for forty checks");
    assert_eq!(fixture.guarded.breaker_state(), BreakerState::Closed);
    fixture.open_breaker(&limit).await;
    passes(&fixture, &limit, "corrupt", 5).await;
    fixture.recover(&limit).await;
    let stats = fixture.guarded.stats();
    assert_eq!((stats.lost, stats.reconciled), (25, 0));
    assert_eq!(
        fixture.events.starting_with("reconciled").last().map(String::as_str),
        Some("reconciled: 0, lost 5")
    );
}

#[tokio::test]
async fn expired_keys_make_room_for_new_ones() {
    let fixture = Fixture::new(|builder| builder.on_failure(half()).reconcile(10, Duration::from_secs(10)));
    let short = Limit::per(10, Duration::from_secs(20)).fixed_window().build("short").expect("valid");
    fixture.open_breaker(&short).await;
    for key in 0..10 {
        passes(&fixture, &short, &key.to_string(), 5).await;
    }
    fixture.clock.advance(Duration::from_secs(3_600));
    for key in 100..110 {
        passes(&fixture, &short, &key.to_string(), 5).await;
    }
    assert_eq!(fixture.guarded.stats().lost, 0);
}

#[tokio::test]
async fn the_deltas_of_one_key_are_bounded() {
    let fixture = Fixture::new(|builder| {
        builder.on_failure(FallbackStore::new(MemoryStore::new(), Share::one_of(1))).half_open_probes(1)
    });
    let daily = Limit::per_day(1_000_000).build("daily").expect("valid");
    fixture.open_breaker(&daily).await;
    for _ in 0..200 {
        passes(&fixture, &daily, "a", 1).await;
        // A probe succeeds, and reconciliation fails.
        fixture.clock.advance(Duration::from_secs(8));
        fixture.faulty.inject(Fault::LostReplies);
        let _ = fixture.check(&daily, "b").await;
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(fixture.guarded.stats().reconciled, 0);
    let lost = fixture.guarded.stats().lost;
    fixture.recover(&daily).await;
    let stats = fixture.guarded.stats();
    assert!(stats.reconciled <= 64, "{stats:?}");
    assert_eq!(stats.reconciled + lost.max(stats.lost), 200, "{stats:?}");
}
