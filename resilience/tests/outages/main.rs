//! A guarded store on a real Redis that is killed, frozen, slowed down and restarted, again and again.
//!
//! No caller waits for the store, every limit is decided by its policy, the breaker changes as
//! specified, and afterwards the store's count is right: granted ≤ counted ≤ granted + calls with unknown effect.

mod callers;
mod fixture;
mod measurements;

use std::time::Duration;

use tempfile::TempDir;
use tollgate_core::{BreakerState, SystemClock, Timer};
use tollgate_testkit::{Redis, until};

use callers::Callers;
use fixture::Fixture;

/// Starts a server that persists everything it has confirmed, however it ends.
async fn durable_redis() -> (Redis, TempDir) {
    // In memory if possible: the speed of the disk is not what these tests are about.
    let files = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let path = files.path().to_str().expect("a UTF-8 path");
    let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--dir", path];
    (Redis::start_with_files(files.path(), &arguments).await, files)
}

/// Waits until the breaker is in this state.
async fn wait_for_breaker(fixture: &Fixture, state: BreakerState) {
    until(&format!("the breaker is {state}"), async || fixture.guarded.breaker_state() == state).await;
}

/// One outage, from the first failed call until the store decides again.
async fn outage(fixture: &Fixture, callers: &Callers, start: impl AsyncFnOnce(), end: impl AsyncFnOnce()) {
    callers.until_decided_by_the_store().await;
    start().await;
    wait_for_breaker(fixture, BreakerState::Open).await;
    callers.until_decided_by_policies().await;
    end().await;
    wait_for_breaker(fixture, BreakerState::Closed).await;
    callers.until_decided_by_the_store().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_restarted() {
    let (mut redis, _files) = durable_redis().await;
    let fixture = Fixture::on(&redis).await;
    let callers = Callers::start(&fixture);
    for _ in 0..2 {
        callers.until_decided_by_the_store().await;
        redis.kill().await;
        wait_for_breaker(&fixture, BreakerState::Open).await;
        callers.until_decided_by_policies().await;
        redis.start_again().await;
        wait_for_breaker(&fixture, BreakerState::Closed).await;
    }
    fixture.verify(callers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_and_thawed() {
    let (redis, _files) = durable_redis().await;
    let fixture = Fixture::on(&redis).await;
    let callers = Callers::start(&fixture);
    for _ in 0..2 {
        outage(&fixture, &callers, async || redis.freeze().await, async || redis.thaw().await).await;
    }
    fixture.verify(callers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow() {
    let (redis, _files) = durable_redis().await;
    let fixture = Fixture::on(&redis).await;
    let callers = Callers::start(&fixture);
    for pause in ["300", "700"] {
        // It ends by itself.
        let start = async || drop(redis.call(&["CLIENT", "PAUSE", pause]).await);
        outage(&fixture, &callers, start, async || ()).await;
    }
    fixture.verify(callers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flapping_every_second_for_a_minute() {
    let (mut redis, _files) = durable_redis().await;
    let fixture = Fixture::on(&redis).await;
    let callers = Callers::start(&fixture);
    let clock = SystemClock::new();
    for round in 0..30 {
        // One second of outage, and one second until the next.
        match round % 3 {
            0 => redis.kill().await,
            1 => redis.freeze().await,
            _ => drop(redis.call(&["CLIENT", "PAUSE", "1000"]).await),
        }
        clock.sleep(Duration::from_secs(1)).await;
        match round % 3 {
            0 => redis.start_again().await,
            1 => redis.thaw().await,
            _ => {}
        }
        clock.sleep(Duration::from_secs(1)).await;
    }
    wait_for_breaker(&fixture, BreakerState::Closed).await;
    assert!(fixture.guarded.stats().opened >= 20, "{:?}", fixture.guarded.stats());
    fixture.verify(callers).await;
}
