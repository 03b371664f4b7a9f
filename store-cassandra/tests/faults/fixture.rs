//! The node that tests share, assertions on errors, and access to stored rows.

use std::collections::HashMap;
use std::error::Error;
use std::fmt::{Debug, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_core::{Charge, Decision, Effect, ErrorKind, LeaseId, Limit, Limiter, StoreError};
use tollgate_store_cassandra::{CassandraStore, Config, Replication};
use tollgate_testkit::{Cassandra, CassandraProxy, Consistency, Row};
pub(crate) use tollgate_testkit::{in_time, until};

/// Must not occur in any message.
pub(crate) const PASSWORD: &str = "open-sesame";
/// An error that no retry resolves.
pub(crate) const REFUSED: (ErrorKind, Effect) = (ErrorKind::Refused, Effect::None);

/// Returns the node that most tests share, with the keyspace `faults`. Each test has its own keys or tables.
pub(crate) async fn node() -> &'static Cassandra {
    static NODE: OnceCell<Cassandra> = OnceCell::const_new();
    let start = async || {
        let node = Cassandra::start().await;
        config(&node).create_schema(&Replication::Simple(1)).await.expect("a schema");
        node
    };
    NODE.get_or_init(start).await
}

/// Returns a configuration for a node.
pub(crate) fn config(node: &Cassandra) -> Config {
    config_for(&node.url())
}

/// Returns a configuration with long timeouts, because all tests run concurrently on one node.
pub(crate) fn config_for(url: &str) -> Config {
    Config::new(format!("{url}/faults"))
        .call_timeout(Duration::from_secs(20))
        .connect_timeout(Duration::from_secs(20))
}

pub(crate) async fn connect(config: Config) -> CassandraStore {
    in_time(config.require_reachable().connect()).await.expect("a reachable node")
}

/// Returns a configuration that connects through a proxy, whatever address the node reports.
pub(crate) fn through(proxy: &CassandraProxy) -> Config {
    // The driver expects the node on the port of the contact point.
    let expected = SocketAddr::new(proxy.node().ip(), proxy.address().port());
    let addresses = Arc::new(HashMap::from([(proxy.node(), proxy.address()), (expected, proxy.address())]));
    config_for(&format!("cassandra://{}", proxy.address()))
        .session(move |session| session.address_translator(addresses.clone()))
}

/// Creates a limiter on the shared node, with a store of its own.
pub(crate) async fn limiter() -> Limiter<CassandraStore> {
    Limiter::new(connect(config(node().await)).await)
}

/// Creates a limit that refills so slowly that nothing is refilled during a test.
pub(crate) fn daily(count: u32) -> Limit {
    Limit::per_day(count).build("daily").expect("valid")
}

/// Asserts an error of this kind and effect whose message contains these parts, and no secrets.
#[track_caller]
pub(crate) fn assert_error<T: Debug>(
    result: Result<T, StoreError>,
    (kind, effect): (ErrorKind, Effect),
    messages: &[&str],
) {
    let error = result.expect_err("an error");
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error}");
    for part in messages {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
    assert_no_secrets(&error);
}

/// Asserts that neither the error nor its causes contain the password.
#[track_caller]
pub(crate) fn assert_no_secrets(error: &StoreError) {
    let mut texts = vec![format!("{error} {error:?}")];
    let mut cause = error.source();
    while let Some(source) = cause {
        texts.push(format!("{source} {source:?}"));
        cause = source.source();
    }
    assert!(!texts.iter().any(|text| text.contains(PASSWORD)), "a secret is in: {texts:?}");
}

/// Returns how much of the limit is used, according to the node.
pub(crate) async fn used(limiter: &Limiter<CassandraStore>, limit: &Limit, key: &str) -> u32 {
    let decision = in_time(limiter.peek(limit, key)).await.expect("a decision");
    spent(&decision)
}

/// Returns how much of the limit is used, according to a decision.
pub(crate) fn spent(decision: &Decision) -> u32 {
    decision.limit() - decision.remaining()
}

/// Returns a take of one unit, of any algorithm: a slot of a concurrency limit needs a lease.
pub(crate) fn take<'a>(limit: &'a Limit, key: &'a str) -> Charge<'a> {
    limit.charge(key).with_lease(LeaseId::unique())
}

/// Creates a limit of five for every algorithm.
pub(crate) fn every_algorithm() -> Vec<Limit> {
    let (five, minute) = (|| Limit::per_hour(5), Duration::from_secs(60));
    let limits = [
        ("token_bucket", five()),
        ("token_bucket_uneven", Limit::per(5, Duration::from_secs(3_601))),
        ("interval_bucket", five().refill_by_interval()),
        ("leaky_meter", five().leaky_bucket()),
        ("leaky_queue", five().queue(4)),
        ("gcra", five().gcra()),
        ("smooth_bursty", five().smooth()),
        ("smooth_warming_up", five().warm_up(minute)),
        ("fixed_window", five().fixed_window()),
        ("sliding_window", five().sliding_window()),
        ("sliding_counter", five().sliding_counter(4)),
        ("sliding_log", five().sliding_log()),
        ("concurrency", Limit::concurrent(5).lease(minute)),
        ("blocking_bucket", five().block_for(minute)),
        ("blocking_window", five().fixed_window().block_for(minute)),
    ];
    limits.into_iter().map(|(name, limit)| limit.build(name).expect("valid")).collect()
}

/// Returns bytes as a CQL literal.
pub(crate) fn blob(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string");
        text
    })
}

/// Returns the partition key of a key without a namespace.
pub(crate) fn partition(key: &str) -> String {
    blob(&[&[0, 0, 0], key.as_bytes()].concat())
}

/// Returns these columns of all rows of a key, by a serial read.
pub(crate) async fn rows(key: &str, columns: &str) -> Vec<Row> {
    let query = format!("SELECT {columns} FROM faults.limits WHERE key = {}", partition(key));
    node().await.try_query_at(&query, Consistency::Serial).await.expect("rows")
}

/// Returns the only row of a key.
pub(crate) async fn only_row(key: &str, columns: &str) -> Row {
    let mut found = rows(key, columns).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Returns the state in the only row of a key.
pub(crate) async fn stored(key: &str) -> Vec<u8> {
    only_row(key, "state").await.remove(0).expect("a state")
}

/// Returns an integer column of the only row of a key.
pub(crate) async fn number(key: &str, column: &str) -> i64 {
    let bytes = only_row(key, column).await.remove(0).unwrap_or_else(|| panic!("{key} has no {column}"));
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

/// Overwrites the state in the only row of a key.
pub(crate) async fn put(key: &str, state: &[u8]) {
    let name = only_row(key, "limit_name").await.remove(0).expect("a name");
    let name = String::from_utf8(name).expect("a text");
    let answer = node()
        .await
        .query(&format!(
            "UPDATE faults.limits SET state = {} WHERE key = {} AND limit_name = '{name}' IF EXISTS",
            blob(state),
            partition(key)
        ))
        .await;
    assert_eq!(answer[0][0].as_deref(), Some(&[1][..]), "the row exists");
}
