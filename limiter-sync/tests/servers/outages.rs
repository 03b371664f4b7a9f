//! A server that is killed or frozen while nodes grant: what it counts in the end is what they granted.

use tempfile::TempDir;
use tollgate_testkit::Redis;

use crate::fleet::Fleet;

/// A server that forgets nothing it has answered, however it ends.
async fn remembering() -> (Redis, TempDir) {
    // In memory where that can be had: what a disk takes to be sure is not what this is about.
    let files = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let path = files.path().to_str().expect("a path of plain letters");
    let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--dir", path];
    (Redis::start_with_files(files.path(), &arguments).await, files)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_started_again() {
    let (mut redis, _files) = remembering().await;
    let fleet = Fleet::at_work(&redis).await;
    for _ in 0..4 {
        fleet.until_exchanged().await;
        redis.kill().await;
        fleet.until_failed().await;
        redis.start_again().await;
    }
    fleet.until_exchanged().await;
    fleet.booked_exactly(&redis).await;
}

/// What was sent meanwhile is executed when it goes on: nobody waits for those answers any more, and all of it comes again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_and_thawed() {
    let redis = Redis::start(&[]).await;
    let fleet = Fleet::at_work(&redis).await;
    for _ in 0..4 {
        fleet.until_exchanged().await;
        redis.freeze().await;
        fleet.until_failed().await;
        redis.thaw().await;
    }
    fleet.until_exchanged().await;
    fleet.booked_exactly(&redis).await;
}
