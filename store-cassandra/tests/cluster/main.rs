//! A real cluster of three nodes with a replication factor of 3, whose nodes fail and return under load. Limits
//! always hold, every allowed call is counted, and no call is counted whose caller got a denial or an error without
//! effect.
//!
//! - `load`: concurrent callers, and the results they got

mod load;

use std::time::Duration;

use tollgate_core::{Limit, Limiter};
use tollgate_store_cassandra::{Config, Replication};
use tollgate_testkit::CassandraCluster;

use load::Load;

/// A node is given up after half of it.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

fn config(cluster: &CassandraCluster) -> Config {
    Config::new(format!("{}/cluster", cluster.url()))
        .connect_timeout(Duration::from_secs(10))
        .call_timeout(CALL_TIMEOUT)
}

/// One test, because a cluster takes long to start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_while_nodes_fail_and_return() {
    let mut cluster = CassandraCluster::start().await;
    config(&cluster).create_schema(&Replication::Simple(3)).await.expect("a schema");
    cluster.settled().await;

    every_key_has_a_preferred_replica(&cluster).await;
    one_node_is_killed(&mut cluster).await;
    two_nodes_are_down(&mut cluster).await;
    nodes_freeze(&cluster).await;
}

/// All transactions of a key start on the same replica, whether they have one limit or several. Different keys start
/// on different replicas.
async fn every_key_has_a_preferred_replica(cluster: &CassandraCluster) {
    const CHECKS: u64 = 40;
    let store = config(cluster).require_reachable().connect().await.expect("a reachable cluster");
    let (limiter, mut preferred) = (Limiter::new(store), [false; 3]);
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
        // Other nodes get a few keepalives.
        let busy: Vec<usize> = (0..3).filter(|node| sent[*node] >= CHECKS / 2).collect();
        assert!(matches!(busy[..], [node] if sent[node] >= CHECKS), "{key}: {sent:?}");
        preferred[busy[0]] = true;
    }
    assert_eq!(preferred, [true; 3], "each node is preferred for some keys");
}

/// Returns how many requests each node has received.
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

/// The node stays down.
async fn one_node_is_killed(cluster: &mut CassandraCluster) {
    let load = Load::start(config(cluster), "one is killed").await;
    load.wait_for_decisions(150).await;
    let before = load.calls();
    cluster.node_mut(2).kill().await;
    load.wait_for_decisions(150).await;
    load.assert_most_succeeded_since(before);
    let results = load.stop().await;
    results.assert_all_calls_are_counted(config(cluster)).await;
}

/// Without a quorum, calls fail. They succeed again once both nodes are back.
async fn two_nodes_are_down(cluster: &mut CassandraCluster) {
    let load = Load::start(config(cluster), "two are gone").await;
    load.wait_for_decisions(60).await;
    cluster.node_mut(1).kill().await;
    load.wait_for_failures(60).await;
    cluster.node_mut(1).start_again().await;
    cluster.node_mut(2).start_again().await;
    cluster.settled().await;
    load.wait_for_decisions(150).await;
    let results = load.stop().await;
    results.assert_all_calls_are_counted(config(cluster)).await;
}

/// A node is suspended in the middle of its work, and continues later.
async fn nodes_freeze(cluster: &CassandraCluster) {
    let load = Load::start(config(cluster), "frozen").await;
    load.wait_for_decisions(150).await;
    for node in 0..3 {
        cluster.node(node).freeze().await;
        load.wait_for_decisions(60).await;
        cluster.node(node).thaw().await;
        cluster.settled().await;
    }
    load.wait_for_decisions(150).await;
    let results = load.stop().await;
    results.assert_all_calls_are_counted(config(cluster)).await;
}
