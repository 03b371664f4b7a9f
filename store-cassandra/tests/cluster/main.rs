//! A real cluster of three nodes, a replica on each, whose nodes go away and come back while the store is in use. Whatever
//! happens, limits hold, every caller who was let through is counted, and nobody is counted who was not told, or told that
//! it may be so.
//!
//! - `crew`: the callers, and what they were told

mod crew;

use std::time::Duration;

use tollgate_core::{Limit, Limiter};
use tollgate_store_cassandra::{Config, Replication};
use tollgate_testkit::CassandraCluster;

use crew::Crew;

/// The longest time a call may take. A node is given up after half of it.
const CALL: Duration = Duration::from_secs(2);

fn config(cluster: &CassandraCluster) -> Config {
    Config::new(format!("{}/cluster", cluster.url()))
        .connect_timeout(Duration::from_secs(10))
        .call_timeout(CALL)
}

/// One test, since a cluster takes long to start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_whatever_becomes_of_the_nodes() {
    let mut cluster = CassandraCluster::start().await;
    config(&cluster).create_schema(&Replication::Simple(3)).await.expect("a schema");
    cluster.settled().await;

    one_replica_of_each_key(&cluster).await;
    one_is_killed(&mut cluster).await;
    two_are_gone(&mut cluster).await;
    frozen(&cluster).await;
}

/// Transactions of a key begin on one of its replicas, those of one limit and those of several alike; other keys are others' to
/// begin.
async fn one_replica_of_each_key(cluster: &CassandraCluster) {
    const CHECKS: u64 = 40;
    let store = config(cluster).must_be_there().connect().await.expect("a cluster");
    let (limiter, mut first) = (Limiter::new(store), [false; 3]);
    let (one, another) = (Limit::per_day(1_000).build("one"), Limit::per_day(1_000).build("another"));
    let (one, another) = (one.expect("valid"), another.expect("valid"));
    for key in (0..12).map(|number| format!("routed {number}")) {
        let before = requests(cluster).await;
        for _ in 0..CHECKS / 2 {
            assert!(limiter.check(&one, &key).await.expect("a decision").is_allowed());
            let both = [one.charge(&key), another.charge(&key)];
            assert!(limiter.check_all(both).await.expect("a verdict").is_allowed());
        }
        let after = requests(cluster).await;
        let sent: Vec<u64> =
            after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect();
        // Others are asked now and then whether they are there.
        let busy: Vec<usize> = (0..3).filter(|node| sent[*node] >= CHECKS / 2).collect();
        assert!(matches!(busy[..], [node] if sent[node] >= CHECKS), "{key}: {sent:?}");
        first[busy[0]] = true;
    }
    assert_eq!(first, [true; 3], "each node is the first of some keys");
}

/// How many requests each node has had.
async fn requests(cluster: &CassandraCluster) -> [u64; 3] {
    let mut requests = [0; 3];
    for (node, requests) in requests.iter_mut().enumerate() {
        for row in cluster.node(node).query("SELECT request_count FROM system_views.clients").await {
            let count = row[0].as_deref().and_then(|bytes| bytes.try_into().ok());
            *requests += count.map_or(0, u64::from_be_bytes);
        }
    }
    requests
}

/// Under load. It stays away.
async fn one_is_killed(cluster: &mut CassandraCluster) {
    let crew = Crew::start(config(cluster), "one is killed").await;
    crew.decided(150).await;
    let before = crew.calls();
    cluster.node_mut(2).kill().await;
    crew.decided(150).await;
    crew.assert_most_were_answered_since(before);
    let told = crew.stop().await;
    told.assert_nobody_waited_longer_than(CALL);
    told.assert_all_are_counted(config(cluster)).await;
}

/// A second one, so that the last cannot decide; then both come back.
async fn two_are_gone(cluster: &mut CassandraCluster) {
    let crew = Crew::start(config(cluster), "two are gone").await;
    crew.decided(60).await;
    cluster.node_mut(1).kill().await;
    crew.failed(60).await;
    cluster.node_mut(1).start_again().await;
    cluster.node_mut(2).start_again().await;
    cluster.settled().await;
    crew.decided(150).await;
    let told = crew.stop().await;
    told.assert_nobody_waited_longer_than(CALL);
    told.assert_all_are_counted(config(cluster)).await;
}

/// A node stops in the middle of whatever it does, and goes on with it later.
async fn frozen(cluster: &CassandraCluster) {
    let crew = Crew::start(config(cluster), "frozen").await;
    crew.decided(150).await;
    for node in 0..3 {
        cluster.node(node).freeze().await;
        crew.decided(60).await;
        cluster.node(node).thaw().await;
        cluster.settled().await;
    }
    crew.decided(150).await;
    let told = crew.stop().await;
    told.assert_nobody_waited_longer_than(CALL);
    told.assert_all_are_counted(config(cluster)).await;
}
