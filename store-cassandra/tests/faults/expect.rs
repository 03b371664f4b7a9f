//! What tests expect: a node, an error of a kind, a condition that comes true, an end, a row.

use std::error::Error;
use std::fmt::{Debug, Write as _};
use std::future::Future;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_core::{Decision, Effect, ErrorKind, Limit, Limiter, StoreError};
use tollgate_store_cassandra::{CassandraStore, Config, Replication};
use tollgate_testkit::{Cassandra, Consistency, Row};

/// No message names it.
pub(crate) const PASSWORD: &str = "open-sesame";
/// What is wrong and stays wrong.
pub(crate) const REFUSED: (ErrorKind, Effect) = (ErrorKind::Refused, Effect::None);

/// Far longer than anything takes: it only keeps a test that hangs from going on for ever.
const AGES: Duration = Duration::from_secs(120);

/// The node that most tests share, with the keyspace `faults`. Each test has keys or tables of its own.
pub(crate) async fn node() -> &'static Cassandra {
    static NODE: OnceCell<Cassandra> = OnceCell::const_new();
    let start = async || {
        let node = Cassandra::start().await;
        config(&node).create_schema(&Replication::Simple(1)).await.expect("a schema");
        node
    };
    NODE.get_or_init(start).await
}

/// Patient, since all tests run at once on one node.
pub(crate) fn config(node: &Cassandra) -> Config {
    patient(&node.url())
}

pub(crate) fn patient(url: &str) -> Config {
    Config::new(format!("{url}/faults"))
        .call_timeout(Duration::from_secs(20))
        .connect_timeout(Duration::from_secs(20))
}

pub(crate) async fn connect(config: Config) -> CassandraStore {
    in_time(config.must_be_there().connect()).await.expect("a node that is there")
}

/// A limiter on the node that tests share, by a store of its own.
pub(crate) async fn limiter() -> Limiter<CassandraStore> {
    Limiter::new(connect(config(node().await)).await)
}

/// A limit that refills so slowly that nothing comes back during a test.
pub(crate) fn daily(count: u32) -> Limit {
    Limit::per_day(count).build("daily").expect("valid")
}

/// What a call gave, which must not hang.
pub(crate) async fn in_time<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(AGES, call).await.expect("a call that ends")
}

/// Asks until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is_so().await {
            pause().await;
        }
    };
    assert!(tokio::time::timeout(AGES, asking).await.is_ok(), "waited in vain: {what}");
}

#[expect(clippy::disallowed_methods, reason = "between two looks at a real server")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// An error of this kind and effect that says these things, and no secrets.
#[track_caller]
pub(crate) fn assert_error<T: Debug>(
    outcome: Result<T, StoreError>,
    (kind, effect): (ErrorKind, Effect),
    says: &[&str],
) {
    let error = outcome.expect_err("an error");
    assert_eq!((error.kind(), error.effect()), (kind, effect), "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
    assert_discreet(&error);
}

/// Neither the error nor what caused it names a password.
#[track_caller]
pub(crate) fn assert_discreet(error: &StoreError) {
    let mut told = vec![format!("{error} {error:?}")];
    let mut cause = error.source();
    while let Some(source) = cause {
        told.push(format!("{source} {source:?}"));
        cause = source.source();
    }
    assert!(!told.iter().any(|text| text.contains(PASSWORD)), "a secret is in: {told:?}");
}

/// How much of the limit is used, by what the node has.
pub(crate) async fn used(limiter: &Limiter<CassandraStore>, limit: &Limit, key: &str) -> u32 {
    let decision = in_time(limiter.peek(limit, key)).await.expect("a node that answers");
    spent(&decision)
}

/// How much of the limit is used, by a decision.
pub(crate) fn spent(decision: &Decision) -> u32 {
    decision.limit() - decision.remaining()
}

/// A limit of every algorithm, each of five.
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

/// Bytes as a statement has them.
pub(crate) fn blob(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text takes all");
        text
    })
}

/// The partition of a key without a namespace.
pub(crate) fn partition(key: &str) -> String {
    blob(&[&[0, 0, 0], key.as_bytes()].concat())
}

/// What the node has of a key: these columns of all its rows, after whatever is under way.
pub(crate) async fn rows(key: &str, columns: &str) -> Vec<Row> {
    let query = format!("SELECT {columns} FROM faults.limits WHERE key = {}", partition(key));
    node().await.try_query_at(&query, Consistency::Serial).await.expect("rows")
}

/// The only row of a key.
pub(crate) async fn only_row(key: &str, columns: &str) -> Row {
    let mut found = rows(key, columns).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// The state in the only row of a key.
pub(crate) async fn stored(key: &str) -> Vec<u8> {
    only_row(key, "state").await.remove(0).expect("a state")
}

/// A number that the node has in the only row of a key.
pub(crate) async fn number(key: &str, column: &str) -> i64 {
    let bytes = only_row(key, column).await.remove(0).unwrap_or_else(|| panic!("{key} has no {column}"));
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

/// Puts another state into the only row of a key.
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
    assert_eq!(answer[0][0].as_deref(), Some(&[1][..]), "the row was there");
}
