//! Cassandra as the central store: the deltas of one key under all its limits are one transaction, and none is lost.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Limit, SystemClock};
use tollgate_limiter_sync::Synced;
use tollgate_store_cassandra::{CassandraStore, Config, Replication};

use crate::limits;

const KEYS: u32 = 12;

type Node = Synced<CassandraStore>;

async fn node(url: &str) -> Node {
    // The machine may be busy: no call times out.
    let config = Config::new(url).call_timeout(Duration::from_secs(30)).require_reachable();
    Synced::builder(config.connect().await.expect("a node")).manual().build().expect("valid")
}

/// Runs a sync round, and returns what it sent: transactions, those of them that were refused, and reads.
async fn sent(node: &Node) -> [u64; 3] {
    let all = || {
        let stats = node.store().stats();
        assert_eq!(stats.lost_responses, 0);
        [stats.transactions, stats.not_applied, stats.reads]
    };
    let before = all();
    node.sync_now().await.expect("the central store answers");
    let after = all();
    [0, 1, 2].map(|index| after[index] - before[index])
}

/// Takes `cost` from every limit of every key, and some more from later keys.
async fn take(node: &Node, limits: &[Limit], keys: &[String], cost: u32) {
    for limit in limits {
        for (key, more) in keys.iter().zip(0..) {
            let charge = limit.charge(key).with_cost(cost + more);
            let decision = node.decide_one(&charge, &SystemClock::new()).await.expect("decided locally");
            assert!(decision.is_allowed());
        }
    }
}

#[tokio::test]
async fn a_key_is_one_transaction_and_nothing_is_lost() {
    let url = format!("{}/synced_servers", tollgate_testkit::cassandra_url().await);
    Config::new(&url).create_schema(&Replication::Simple(1)).await.expect("a schema");
    let (one, other) = (node(&url).await, node(&url).await);
    let limits = [limits::bucket(2_000), limits::window(2_000), limits::counter(2_000)];
    let keys: Vec<_> = (0..KEYS).map(|number| format!("key {number}")).collect();
    let each = u64::from(KEYS);

    take(&one, &limits, &keys, 1).await;
    assert_eq!(sent(&one).await, [each, 0, 0], "one transaction per key, for all of its limits");
    for _ in 0..2 {
        assert_eq!(sent(&one).await, [0, 0, each], "deltas of other nodes are read");
    }
    assert_eq!(sent(&one).await, [0, 0, 0], "nothing is due");

    take(&other, &limits, &keys, 10).await;
    assert_eq!(sent(&other).await, [2 * each, each, 0], "one more to read the current state");
    take(&one, &limits, &keys, 100).await;
    take(&other, &limits, &keys, 200).await;
    // Concurrently: a transaction may be refused, and is repeated.
    let (first, second) = tokio::join!(sent(&one), sent(&other));
    for [transactions, refused, _] in [first, second] {
        assert_eq!(transactions - refused, each, "{first:?} and {second:?}");
    }

    let granted: Vec<_> = (0..KEYS).map(|more| 1 + 10 + 100 + 200 + 4 * more).collect();
    for limit in &limits {
        assert_eq!(limits::debited(one.store(), limit, &keys).await, granted, "{}", limit.name());
    }
    // Both nodes know it after another sync round.
    for node in [&one, &other] {
        node.sync_now().await.expect("the central store answers");
        for limit in &limits {
            for (key, granted) in keys.iter().zip(&granted) {
                let peek = limit.charge(key).with_cost(0);
                let seen = node.decide_one(&peek, &SystemClock::new()).await.expect("decided locally");
                assert_eq!(seen.remaining(), limit.capacity() - granted, "{key} of {}", limit.name());
            }
        }
    }
}
