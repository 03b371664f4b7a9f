//! A guarded store on a real Redis that is killed, frozen, slow, restarted, and all of it again and again.
//!
//! Nobody waits longer than allowed, every limit is answered by its policy, the breaker does what it says, and
//! afterwards the count is right: told to pass ≤ counted ≤ told to pass and calls whose end nobody knows.

mod crew;

use std::time::Duration;

use tempfile::TempDir;
use tollgate_core::{BreakerState, SystemClock, Timer};
use tollgate_testkit::Redis;

use crew::{Crew, Scene, until};

/// A server that forgets nothing it has answered, however it ends.
async fn remembering() -> (Redis, TempDir) {
    // In memory where that can be had: what a disk takes to be sure is not what this is about.
    let files = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let path = files.path().to_str().expect("a path of plain letters");
    let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--dir", path];
    (Redis::start_with_files(files.path(), &arguments).await, files)
}

/// One outage, from the first call that fails to limits that are exact again.
async fn survives(scene: &Scene, crew: &Crew, goes: impl AsyncFnOnce(), comes_back: impl AsyncFnOnce()) {
    crew.until_decided_by_the_store().await;
    goes().await;
    until("the store is left alone", async || scene.guarded.breaker() == BreakerState::Open).await;
    crew.until_decided_by_policies().await;
    comes_back().await;
    until("the store is asked again", async || scene.guarded.breaker() == BreakerState::Closed).await;
    crew.until_decided_by_the_store().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_started_again() {
    let (mut redis, _files) = remembering().await;
    let scene = Scene::on(&redis).await;
    let crew = Crew::start(&scene);
    for _ in 0..2 {
        crew.until_decided_by_the_store().await;
        redis.kill().await;
        until("the store is left alone", async || scene.guarded.breaker() == BreakerState::Open).await;
        crew.until_decided_by_policies().await;
        redis.start_again().await;
        until("the store is asked again", async || scene.guarded.breaker() == BreakerState::Closed).await;
    }
    scene.is_right_after(crew).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_and_thawed() {
    let (redis, _files) = remembering().await;
    let scene = Scene::on(&redis).await;
    let crew = Crew::start(&scene);
    for _ in 0..2 {
        survives(&scene, &crew, async || redis.freeze().await, async || redis.thaw().await).await;
    }
    scene.is_right_after(crew).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow() {
    let (redis, _files) = remembering().await;
    let scene = Scene::on(&redis).await;
    let crew = Crew::start(&scene);
    for pause in ["300", "700"] {
        // It ends by itself.
        survives(&scene, &crew, async || drop(redis.call(&["CLIENT", "PAUSE", pause]).await), async || ())
            .await;
    }
    scene.is_right_after(crew).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flapping_every_second_for_a_minute() {
    let (mut redis, _files) = remembering().await;
    let scene = Scene::on(&redis).await;
    let crew = Crew::start(&scene);
    let clock = SystemClock::new();
    for round in 0..30 {
        // The outage is a second long, and so is the time until the next.
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
    until("the store is asked again", async || scene.guarded.breaker() == BreakerState::Closed).await;
    assert!(scene.guarded.counts().opened >= 20, "{:?}", scene.guarded.counts());
    scene.is_right_after(crew).await;
}
