//! A node that is not there: not yet, or no longer.

use std::time::Duration;

use tollgate_core::{Effect, ErrorKind, Limiter};
use tollgate_store_cassandra::Replication;
use tollgate_testkit::Cassandra;

use crate::expect::{assert_error, config, daily, in_time, until, used};

const UNAVAILABLE: (ErrorKind, Effect) = (ErrorKind::Unavailable, Effect::None);
const KEY: &str = "somebody";

#[tokio::test]
async fn a_store_starts_without_its_node_and_works_once_that_is_there() {
    let mut node = Cassandra::start().await;
    config(&node).create_schema(&Replication::Simple(1)).await.expect("a schema");
    node.kill().await;
    // So patient that whoever is told sooner was not told by a deadline.
    let ages = Duration::from_secs(600);
    let config = config(&node).call_timeout(ages).connect_timeout(ages);
    let says = ["cannot be reached"];
    assert_error(in_time(config.clone().must_be_there().connect()).await, UNAVAILABLE, &says);
    assert_error(in_time(config.create_schema(&Replication::Existing)).await, UNAVAILABLE, &says);

    let limiter = Limiter::new(in_time(config.connect()).await.expect("a store without a node"));
    let limit = daily(10);
    for _ in 0..3 {
        assert_error(in_time(limiter.check(&limit, KEY)).await, UNAVAILABLE, &says);
        assert_error(in_time(limiter.debit(&limit, KEY, 1)).await, UNAVAILABLE, &says);
        assert_error(in_time(limiter.store().reach()).await, UNAVAILABLE, &says);
    }
    node.start_again().await;
    until("the store finds it", async || limiter.check(&limit, KEY).await.is_ok()).await;
    assert_eq!(used(&limiter, &limit, KEY).await, 1);
}
