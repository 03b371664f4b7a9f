//! Requests without a response: the store finds out whether they were executed.

use std::time::Duration;

use tollgate_core::{Effect, ErrorKind, Limit, Limiter};
use tollgate_store_cassandra::CassandraStore;

use crate::fixture::{assert_error, connect, daily, in_time, limiter, node, spent, through, used};
use tollgate_testkit::{CassandraProxy, Fault};

/// A node is given up after half of it, so this determines how long a test takes. A busy node is still faster.
const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// Creates a limiter behind a proxy, with the key's row in its cache.
async fn limiter_behind(proxy: &CassandraProxy, key: &str) -> Limiter<CassandraStore> {
    let limiter = Limiter::new(connect(through(proxy).call_timeout(CALL_TIMEOUT)).await);
    assert!(in_time(limiter.check(&daily(100), key)).await.expect("a decision").is_allowed());
    limiter
}

#[tokio::test]
async fn a_transaction_whose_response_is_lost_is_found_in_the_row() {
    let key = "response lost";
    let proxy = CassandraProxy::to(node().await, key).await;
    let (proxied, direct) = (limiter_behind(&proxy, key).await, limiter().await);
    proxy.inject(&[Fault::LoseResponse]);
    let decision = in_time(proxied.check(&daily(100), key)).await.expect("found");
    assert!(decision.is_allowed() && proxy.is_done());
    assert_eq!((spent(&decision), used(&direct, &daily(100), key).await), (2, 2));
    let stats = proxied.store().stats();
    assert_eq!((stats.transactions, stats.lost_responses, stats.reads), (2, 1, 1));
}

#[tokio::test]
async fn a_transaction_over_several_rows_is_found() {
    let key = "response lost, several rows";
    let proxy = CassandraProxy::to(node().await, key).await;
    let (proxied, direct) = (limiter_behind(&proxy, key).await, limiter().await);
    let (limit, window) = (daily(100), Limit::per_day(50).fixed_window().build("window").expect("valid"));
    proxy.inject(&[Fault::LoseResponse]);
    let decision = in_time(proxied.check_all([limit.charge(key), window.charge(key)])).await.expect("found");
    assert!(decision.is_allowed() && proxy.is_done());
    assert_eq!((used(&direct, &limit, key).await, used(&direct, &window, key).await), (2, 1));
}

#[tokio::test]
async fn a_transaction_that_is_lost_is_sent_again() {
    let key = "request lost";
    let proxy = CassandraProxy::to(node().await, key).await;
    let (proxied, direct) = (limiter_behind(&proxy, key).await, limiter().await);
    proxy.inject(&[Fault::LoseRequest]);
    let decision = in_time(proxied.check(&daily(100), key)).await.expect("sent again");
    assert!(decision.is_allowed() && proxy.is_done());
    assert_eq!((spent(&decision), used(&direct, &daily(100), key).await), (2, 2));
    let stats = proxied.store().stats();
    assert_eq!((stats.transactions, stats.lost_responses, stats.reads), (3, 1, 1));
}

/// The read does not find the transaction, which then arrives before the one that is sent in its place.
#[tokio::test]
async fn a_delayed_transaction_is_counted_once() {
    let key = "request delayed";
    let proxy = CassandraProxy::to(node().await, key).await;
    let (proxied, direct) = (limiter_behind(&proxy, key).await, limiter().await);
    proxy.inject(&[Fault::DelayRequest, Fault::None, Fault::AfterDelayed]);
    let decision = in_time(proxied.check(&daily(100), key)).await.expect("found");
    assert!(decision.is_allowed() && proxy.is_done());
    assert_eq!((spent(&decision), used(&direct, &daily(100), key).await), (2, 2));
}

/// A row that did not exist has no earlier transaction to compare with.
#[tokio::test]
async fn a_delayed_first_transaction_is_counted_once() {
    let key = "first request delayed";
    let proxy = CassandraProxy::to(node().await, key).await;
    let proxied = Limiter::new(connect(through(&proxy).call_timeout(CALL_TIMEOUT)).await);
    proxy.inject(&[Fault::DelayRequest, Fault::None, Fault::AfterDelayed]);
    let decision = in_time(proxied.check(&daily(100), key)).await.expect("found");
    assert!(decision.is_allowed() && proxy.is_done());
    assert_eq!((spent(&decision), used(&limiter().await, &daily(100), key).await), (1, 1));
}

#[tokio::test]
async fn too_many_later_transactions_make_the_effect_unknown() {
    let key = "many later transactions";
    let proxy = CassandraProxy::to(node().await, key).await;
    let (proxied, direct) = (limiter_behind(&proxy, key).await, limiter().await);
    proxy.inject(&[Fault::LoseResponse]);
    let limit = daily(100);
    let others = async {
        proxy.lost().await;
        // One more than a row records.
        for _ in 0..17 {
            assert!(in_time(direct.check(&limit, key)).await.expect("a decision").is_allowed());
        }
    };
    let (result, ()) = tokio::join!(in_time(proxied.check(&limit, key)), others);
    let unknown = (ErrorKind::Timeout, Effect::Unknown);
    assert_error(result, unknown, &["did not answer in time", "may have taken effect"]);
    // The first one, those of the other client, and the one in doubt, which was applied.
    assert_eq!(used(&direct, &limit, key).await, 1 + 17 + 1);
    // The next call works.
    assert_eq!(spent(&in_time(proxied.check(&limit, key)).await.expect("a decision")), 20);
}

#[tokio::test]
async fn without_responses_a_call_ends_at_its_timeout() {
    let key = "no responses";
    let proxy = CassandraProxy::to(node().await, key).await;
    let (proxied, direct) = (limiter_behind(&proxy, key).await, limiter().await);
    proxy.inject(&[Fault::LoseResponse, Fault::LoseResponse, Fault::LoseResponse]);
    let result = in_time(proxied.check(&daily(100), key)).await;
    assert_error(result, (ErrorKind::Timeout, Effect::Unknown), &["may have taken effect"]);
    assert_eq!(used(&direct, &daily(100), key).await, 2, "it was applied");
}

#[tokio::test]
async fn a_connection_that_is_closed_instead_of_a_response_is_restored_to_find_out() {
    let key = "connection closed";
    let proxy = CassandraProxy::to(node().await, key).await;
    let (proxied, direct) = (limiter_behind(&proxy, key).await, limiter().await);
    for round in 2..=4 {
        proxy.inject(&[Fault::CloseConnection]);
        let decision = in_time(proxied.check(&daily(100), key)).await.expect("found");
        assert!(decision.is_allowed() && proxy.is_done());
        assert_eq!((spent(&decision), used(&direct, &daily(100), key).await), (round, round));
    }
}
