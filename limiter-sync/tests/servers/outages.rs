//! A server that is killed or frozen while nodes grant: in the end it has debited what they granted.

use tempfile::TempDir;
use tollgate_testkit::Redis;

use crate::fleet::Fleet;

/// Starts a server that loses nothing it has answered, even if it is killed.
async fn start_durable() -> (Redis, TempDir) {
    // In memory if possible: the latency of a disk is not tested.
    let files = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let path = files.path().to_str().expect("a UTF-8 path");
    let arguments = ["--appendonly", "yes", "--appendfsync", "always", "--dir", path];
    (Redis::start_with_files(files.path(), &arguments).await, files)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_restarted() {
    let (mut redis, _files) = start_durable().await;
    let fleet = Fleet::start(&redis).await;
    for _ in 0..4 {
        fleet.until_synced().await;
        redis.kill().await;
        fleet.until_failed().await;
        redis.start_again().await;
    }
    fleet.until_synced().await;
    fleet.assert_debited_exactly(&redis).await;
}

/// Calls that were sent in the meantime are executed once the server continues. Their callers have timed out, and send
/// all of them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_and_thawed() {
    let redis = Redis::start(&[]).await;
    let fleet = Fleet::start(&redis).await;
    for _ in 0..4 {
        fleet.until_synced().await;
        redis.freeze().await;
        fleet.until_failed().await;
        redis.thaw().await;
    }
    fleet.until_synced().await;
    fleet.assert_debited_exactly(&redis).await;
}
