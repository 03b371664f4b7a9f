//! A Cassandra as centre: what one key owes under all its limits is one transaction, and nothing gets lost.

use std::time::Duration;

use tollgate_core::store::Store;
use tollgate_core::{Limit, SystemClock};
use tollgate_limiter_sync::Synced;
use tollgate_store_cassandra::{CassandraStore, Config, Replication};
use tollgate_testkit as servers;

use crate::slow;

const KEYS: u32 = 12;

type Node = Synced<CassandraStore>;

async fn node(url: &str) -> Node {
    // The machine may be busy: no call is given up.
    let config = Config::new(url).call_timeout(Duration::from_secs(30)).must_be_there();
    Synced::new(config.connect().await.expect("a node")).by_hand()
}

/// What an exchange sends: transactions, those of them that are refused, and reads.
async fn sent(node: &Node) -> [u64; 3] {
    let all = || {
        let counts = node.store().counts();
        assert_eq!(counts.lost, 0);
        [counts.transactions, counts.refused, counts.reads]
    };
    let before = all();
    node.sync_now().await.expect("the centre answers");
    let after = all();
    [0, 1, 2].map(|index| after[index] - before[index])
}

/// Takes so many from every limit of every key, and some more of later keys.
async fn take(node: &Node, limits: &[Limit], keys: &[String], cost: u32) {
    for limit in limits {
        for (key, more) in keys.iter().zip(0..) {
            let charge = limit.charge(key).with_cost(cost + more);
            let decision = node.decide_one(&charge, &SystemClock::new()).await.expect("decided here");
            assert!(decision.is_allowed());
        }
    }
}

#[tokio::test]
async fn a_key_is_one_transaction_and_nothing_gets_lost() {
    let url = format!("{}/synced_servers", servers::cassandra_url().await);
    Config::new(&url).create_schema(&Replication::Simple(1)).await.expect("a schema");
    let (one, other) = (node(&url).await, node(&url).await);
    let limits = [slow::bucket(2_000), slow::window(2_000), slow::counter(2_000)];
    let keys: Vec<_> = (0..KEYS).map(|number| format!("key {number}")).collect();
    let each = u64::from(KEYS);

    take(&one, &limits, &keys, 1).await;
    assert_eq!(sent(&one).await, [each, 0, 0], "one transaction for each key, for all of its limits");
    for _ in 0..2 {
        assert_eq!(sent(&one).await, [0, 0, each], "what others told meanwhile is read");
    }
    assert_eq!(sent(&one).await, [0, 0, 0], "nothing is due");

    take(&other, &limits, &keys, 10).await;
    assert_eq!(sent(&other).await, [2 * each, each, 0], "one more to see what is there");
    take(&one, &limits, &keys, 100).await;
    take(&other, &limits, &keys, 200).await;
    // At the same time: somebody's transaction may be refused, and is made anew.
    let (first, second) = tokio::join!(sent(&one), sent(&other));
    for [transactions, refused, _] in [first, second] {
        assert_eq!(transactions - refused, each, "{first:?} and {second:?}");
    }

    let granted: Vec<_> = (0..KEYS).map(|more| 1 + 10 + 100 + 200 + 4 * more).collect();
    for limit in &limits {
        assert_eq!(slow::booked(one.store(), limit, &keys).await, granted, "{}", limit.name());
    }
    // Both know it, once each has looked again.
    for node in [&one, &other] {
        node.sync_now().await.expect("the centre answers");
        for limit in &limits {
            for (key, granted) in keys.iter().zip(&granted) {
                let look = limit.charge(key).with_cost(0);
                let seen = node.decide_one(&look, &SystemClock::new()).await.expect("decided here");
                assert_eq!(seen.remaining(), limit.capacity() - granted, "{key} of {}", limit.name());
            }
        }
    }
}
