//! Clients whose clocks differ, by minutes and by half a second.

use std::time::Duration;

use tollgate_core::store::{State, Store};
use tollgate_core::{Action, Clock, Limit, Limiter, ManualClock, SystemClock};
use tollgate_store_cassandra::CassandraStore;

use crate::fixture::{config, connect, in_time, node, rows, until};

const DIFFERENCE: Duration = Duration::from_secs(300);
const BURST: u32 = 10;
const SECOND: Duration = Duration::from_secs(1);

/// Ten per second, with a burst of ten.
fn limit() -> Limit {
    Limit::per_second(10).burst(BURST).build("clocks").expect("valid")
}

/// Creates two clients, the second of which is ahead.
async fn clients() -> [Limiter<CassandraStore, ManualClock>; 2] {
    clients_apart(DIFFERENCE).await
}

async fn clients_apart(difference: Duration) -> [Limiter<CassandraStore, ManualClock>; 2] {
    let behind = ManualClock::default();
    let ahead = ManualClock::default();
    ahead.advance(difference);
    let store = || async {
        let node = node().await;
        connect(config(node).call_timeout(Duration::from_secs(2)).expiry_margin(Duration::ZERO)).await
    };
    [Limiter::with_clock(store().await, behind), Limiter::with_clock(store().await, ahead)]
}

/// Takes all available units.
async fn exhaust(limiter: &Limiter<CassandraStore, ManualClock>, key: &str) -> u32 {
    // Without an idempotency key, which would keep the row for a minute.
    let (limit, now) = (limit(), limiter.clock().now());
    let all = limit.charge(key).with_cost(1_000).with_action(Action::TakeUpTo);
    in_time(limiter.store().decide_one(&all, &now)).await.expect("a decision").granted()
}

/// Returns what the limit admits in some seconds, plus one additional burst.
fn most(seconds: u32) -> u32 {
    BURST + 10 * seconds + BURST
}

#[tokio::test]
async fn together_they_get_at_most_one_additional_burst() {
    let [behind, ahead] = clients().await;
    for (key, first, second) in [("ahead first", &ahead, &behind), ("behind first", &behind, &ahead)] {
        let mut granted = 0;
        for seconds in 0..20 {
            granted += exhaust(first, key).await + exhaust(second, key).await;
            assert!(granted <= most(seconds), "{key}: {granted} after {seconds} s");
            first.clock().advance(SECOND);
            second.clock().advance(SECOND);
        }
        assert!(granted >= BURST + 190, "{key}: one of them gets all that is refilled: {granted}");
    }
}

#[tokio::test]
async fn an_expired_row_grants_no_more_than_that() {
    let [behind, ahead] = clients().await;
    let key = "expired in between";
    let mut granted = exhaust(&ahead, key).await;
    assert_eq!((granted, exhaust(&behind, key).await), (BURST, 0), "denied what the other client has taken");
    until("the row has expired", async || rows(key, "state").await.is_empty()).await;
    // One second until its state was fresh, and a margin of two call timeouts.
    let lived = 5;
    for limiter in [&behind, &ahead] {
        limiter.clock().advance(lived * SECOND);
    }
    granted += exhaust(&behind, key).await;
    granted += exhaust(&ahead, key).await;
    granted += exhaust(&behind, key).await;
    assert!(granted <= most(lived), "{granted}");
    assert!(granted >= 2 * BURST, "{granted}");
}

/// What a hot key's limits admit in half a second.
const SKEWED: u32 = 25;

/// The limits of a hot key: 50 per second, of which both clients together want more than twice as much.
fn hot_limits() -> Vec<Limit> {
    let fifty = || Limit::per_second(50);
    let limits = [
        ("token_bucket", fifty()),
        ("gcra", fifty().gcra()),
        ("interval_bucket", fifty().refill_by_interval()),
        ("fixed_window", fifty().fixed_window()),
        ("sliding_window", fifty().sliding_window()),
        ("sliding_counter", fifty().sliding_counter(4)),
        ("sliding_log", fifty().sliding_log()),
    ];
    limits.into_iter().map(|(name, limit)| limit.build(name).expect("valid")).collect()
}

/// A client half a second behind learns from the rows how far the other is ahead, and both get a part of a hot key.
/// Together they get no more than if both had the later clock, apart from what the clocks' difference itself is worth:
/// a take half a second earlier is refilled half a second earlier.
#[tokio::test]
async fn a_client_half_a_second_behind_gets_its_part() {
    let each = hot_limits().into_iter().map(async |limit| {
        let clients = clients_apart(SECOND / 2).await;
        let (machine, started, mut virtual_time) =
            (SystemClock::new(), SystemClock::new().now(), Duration::ZERO);
        let (mut granted, mut state, mut most) = ([0; 2], State::default(), 0);
        for step in 0..80_usize {
            for turn in 0..4 {
                // The one ahead starts. Either client is the first in half of the steps.
                let client = (turn + step * 7 % 11 + step / 11 + 1) % 2;
                let limiter = &clients[client];
                let some = limit.charge(limit.name()).with_cost(5).with_action(Action::TakeUpTo);
                let decided = in_time(limiter.store().decide_one(&some, limiter.clock())).await;
                granted[client] += decided.expect("a decision").granted();
                most += state.apply(&some, clients[1].clock().now()).granted();
                let together: u32 = granted.iter().sum();
                assert!(together <= most + SKEWED, "{}: {granted:?} of {most}", limit.name());
            }
            // Clocks run at least as fast as the machine's, however slow that is.
            let behind = machine.now().since(started).saturating_sub(virtual_time);
            let pause = behind.max(Duration::from_millis(180));
            virtual_time += pause;
            for limiter in &clients {
                limiter.clock().advance(pause);
            }
        }
        (limit.name().to_owned(), granted, most)
    });
    let all = futures_util::future::join_all(each).await;
    for (name, [behind, ahead], most) in &all {
        let together = behind + ahead;
        assert!((*behind).min(*ahead) >= together / 6, "{name}: {behind} and {ahead}, among {all:?}");
        assert!(together >= most / 2, "{name}: {together} of {most}, among {all:?}");
    }
}
