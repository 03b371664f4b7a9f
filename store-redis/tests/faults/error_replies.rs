//! Servers that reply with errors: out of memory, replicas, still loading.

use std::path::Path;
use std::time::Duration;

use tollgate_core::store::{Run, Store};
use tollgate_core::{Effect, ErrorKind, Limiter, Request, Time};
use tollgate_store_redis::Config;
use tollgate_testkit::Redis;

use crate::assertions::{KEY, assert_error, daily, every_algorithm, in_time, limiter, take, until, used};

const FULL: (ErrorKind, Effect) = (ErrorKind::Full, Effect::None);
const UNAVAILABLE: (ErrorKind, Effect) = (ErrorKind::Unavailable, Effect::None);

#[tokio::test]
async fn a_full_server_debits_nothing_and_still_decides_what_needs_no_memory() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]).await;
    let limiter = limiter(&redis).await;
    let limits = every_algorithm();
    for limit in &limits {
        // Exhaust one key, and use another.
        while in_time(limiter.charge(take(limit, "exhausted"))).await.expect("a decision").is_allowed() {}
        let _ = in_time(limiter.charge(take(limit, KEY))).await.expect("a decision");
    }
    let before: Vec<_> = redis.call(&["DBSIZE"]).await.text().chars().collect();
    let mut used_before = Vec::new();
    for limit in &limits {
        used_before.push(used(&limiter, limit).await);
    }
    // Less than it uses already.
    redis.call(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for (limit, used_before) in limits.iter().zip(&used_before) {
        let messages = ["memory", "maxmemory"];
        if limit.capacity() > 1 {
            assert_error(in_time(limiter.charge(take(limit, KEY))).await, FULL, &messages);
        }
        assert_error(in_time(limiter.charge(take(limit, "newcomer"))).await, FULL, &messages);
        let charges = [take(limit, "newcomer"), limits[0].charge("another")];
        assert_error(in_time(limiter.check_all(&charges)).await, FULL, &messages);
        if limit.refusal(tollgate_core::Action::Debit { at: None }).is_none() {
            assert_error(in_time(limiter.debit(limit, KEY, 1)).await, FULL, &messages);
        }
        // Peeks and denials write nothing.
        assert_eq!(used(&limiter, limit).await, *used_before, "{}: something was debited", limit.name());
        let denied = in_time(limiter.charge(take(limit, "exhausted"))).await;
        assert!(
            denied.as_ref().is_ok_and(tollgate_core::Decision::is_denied),
            "{}: {denied:?}",
            limit.name()
        );
    }
    assert_eq!(redis.call(&["DBSIZE"]).await.text().chars().collect::<Vec<_>>(), before);

    redis.call(&["CONFIG", "SET", "maxmemory", "0"]).await;
    for limit in &limits {
        assert!(
            in_time(limiter.charge(take(limit, "newcomer"))).await.expect("enough memory again").is_allowed()
        );
    }
}

#[tokio::test]
async fn a_full_server_debits_nothing_of_a_batch() {
    let redis = Redis::start(&["--maxmemory-policy", "noeviction"]).await;
    let limiter = limiter(&redis).await;
    let limit = daily(10);
    let _ = in_time(limiter.debit(&limit, "exhausted", 10)).await.expect("a decision");
    redis.call(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let (new, old) = ([limit.charge(KEY)], [limit.charge("exhausted")]);
    let batch = [Run::new(Request::new(&new), 2), Run::new(Request::new(&old), 1)];
    let results = in_time(limiter.store().decide_batch(&batch, Time::EPOCH)).await;
    assert_error(results.into_iter().next().expect("a result per run"), FULL, &["maxmemory"]);
    redis.call(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(used(&limiter, &limit).await, 0);
}

#[tokio::test]
async fn a_server_that_becomes_a_replica_is_unavailable_until_it_is_promoted() {
    let (primary, redis) = (Redis::start(&[]).await, Redis::start(&[]).await);
    let limiter = limiter(&redis).await;
    let limit = daily(10);
    assert!(in_time(limiter.check(&limit, KEY)).await.expect("a decision").is_allowed());
    let (host, port) = ("127.0.0.1", primary.port().to_string());
    redis.call(&["REPLICAOF", host, &port]).await;
    until("it replicates", async || {
        redis.call(&["INFO", "replication"]).await.field("master_link_status").as_deref() == Some("up")
    })
    .await;
    for limit in every_algorithm() {
        assert_error(in_time(limiter.charge(take(&limit, KEY))).await, UNAVAILABLE, &["is a replica"]);
    }
    assert_error(in_time(limiter.debit(&limit, KEY, 1)).await, UNAVAILABLE, &["is a replica"]);
    redis.call(&["REPLICAOF", "NO", "ONE"]).await;
    assert!(in_time(limiter.check(&limit, KEY)).await.expect("it accepts writes again").is_allowed());
    // Its primary was empty.
    assert_eq!(used(&limiter, &limit).await, 1);
}

#[tokio::test]
async fn a_replica_without_its_primary_is_unavailable() {
    let mut primary = Redis::start(&[]).await;
    let redis = Redis::start(&["--replica-serve-stale-data", "no"]).await;
    let limiter = limiter(&redis).await;
    redis.call(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).await;
    primary.kill().await;
    until("it has lost its primary", async || {
        let reply = redis.try_call(&["GET", "a"]).await;
        reply.is_ok_and(|reply| reply.text().starts_with("MASTERDOWN"))
    })
    .await;
    assert_error(in_time(limiter.check(&daily(1), KEY)).await, UNAVAILABLE, &["has lost its primary"]);
}

/// Returns the arguments for a server that keeps its data in a directory.
fn in_directory(directory: &Path) -> [&str; 2] {
    ["--dir", directory.to_str().expect("a path")]
}

#[tokio::test]
async fn a_server_is_unavailable_while_it_loads_its_data() {
    let directory = tempfile::tempdir().expect("a directory");
    // The server may run as another user.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).expect("its own directory");
    let limit = daily(10);
    {
        let redis = Redis::start_with_files(directory.path(), &in_directory(directory.path())).await;
        let _ = in_time(limiter(&redis).await.debit(&limit, KEY, 3)).await.expect("a decision");
        // Each value is larger than what is loaded between two polls of the clients.
        let fill = "for i = 1, 2000 do redis.call('SET', 'filler:' .. i, string.rep('x', 2000)) end";
        redis.call(&["EVAL", fill, "0"]).await;
        redis.call(&["SAVE"]).await;
    }
    // With a delay after each key, loading takes longer than the test, which removes the delay later.
    let pauses = ["--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"];
    let slowly = [&in_directory(directory.path())[..], &pauses].concat();
    let loading = Redis::start_with_files(directory.path(), &slowly).await;
    let config = Config::new(loading.url()).call_timeout(Duration::from_secs(20));
    let limiter = Limiter::new(config.connect().await.expect("a store"));
    assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &["is still loading"]);
    assert_error(in_time(limiter.refund(&limit, KEY, 1)).await, UNAVAILABLE, &["is still loading"]);
    loading.call(&["CONFIG", "SET", "key-load-delay", "0"]).await;
    until("it has loaded", async || limiter.check(&limit, KEY).await.is_ok()).await;
    assert_eq!(used(&limiter, &limit).await, 4, "the saved state, and one check");
}
