//! A node that is down.

use std::time::Duration;

use tollgate_core::{Effect, ErrorKind, Limiter};
use tollgate_store_cassandra::Replication;
use tollgate_testkit::Cassandra;

use crate::fixture::{assert_error, config, daily, in_time, until, used};

const UNAVAILABLE: (ErrorKind, Effect) = (ErrorKind::Unavailable, Effect::None);
const KEY: &str = "user";

#[tokio::test]
async fn a_store_starts_without_its_node_and_works_once_the_node_is_up() {
    let mut node = Cassandra::start().await;
    config(&node).create_schema(&Replication::Simple(1)).await.expect("a schema");
    node.kill().await;
    // So long that no error below is a timeout.
    let long = Duration::from_secs(600);
    let config = config(&node).call_timeout(long).connect_timeout(long);
    let messages = ["cannot be reached"];
    assert_error(in_time(config.clone().require_reachable().connect()).await, UNAVAILABLE, &messages);
    assert_error(in_time(config.create_schema(&Replication::Existing)).await, UNAVAILABLE, &messages);

    let limiter = Limiter::new(in_time(config.connect()).await.expect("a store without a node"));
    let limit = daily(10);
    for _ in 0..3 {
        assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &messages);
        assert_error(in_time(limiter.debit(&limit, KEY, 1)).await, UNAVAILABLE, &messages);
        assert_error(in_time(limiter.store().ping()).await, UNAVAILABLE, &messages);
    }
    node.start_again().await;
    until("the store connects", async || limiter.check(&limit, KEY).await.is_ok()).await;
    in_time(limiter.store().ping()).await.expect("a node that answers");
    assert_eq!(used(&limiter, &limit, KEY).await, 1);
}
