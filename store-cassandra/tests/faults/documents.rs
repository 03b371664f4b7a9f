//! Documents: missing and unrelated tables, damaged and large texts.

use tollgate_core::documents::{Change, DocumentError, DocumentStore, MAX_DOCUMENT_SIZE};
use tollgate_core::{Effect, ErrorKind, StoreError, Time};
use tollgate_store_cassandra::{CassandraDocuments, Config, Replication};

use crate::fixture::{REFUSED, assert_error, blob, config, in_time, node};

const NOW: Time = Time::from_secs(1_790_000_000);

async fn connect() -> CassandraDocuments {
    let connect = config(node().await).require_reachable().connect_documents();
    in_time(connect).await.expect("a reachable node")
}

fn store_error<T>(result: Result<T, DocumentError>) -> Result<T, StoreError> {
    result.map_err(|error| match error {
        DocumentError::Store(error) => error,
        other => panic!("an error of the store, not {other:?}"),
    })
}

#[tokio::test]
async fn a_missing_table_is_an_error_at_startup() {
    let config = config(node().await).documents_table("no_documents");
    assert_error(
        in_time(config.connect_documents()).await,
        REFUSED,
        &["no table faults.no_documents", "create it with Config::create_schema, once, when you deploy"],
    );
}

/// A keyspace from before there were documents.
#[tokio::test]
async fn the_table_is_added_to_an_existing_schema() {
    let node = node().await;
    let config = || config(node);
    config().documents_table("added").create_schema(&Replication::Existing).await.expect("a schema");
    let documents = in_time(config().documents_table("added").connect_documents()).await.expect("a table");
    let change = Change::by("ada", NOW);
    in_time(documents.put("rules", "text", None, &change)).await.expect("a new document");
    assert_eq!(in_time(documents.list("")).await.expect("a list"), [("rules".to_owned(), 1)]);
    // In a table of its own.
    assert!(in_time(connect().await.get("rules")).await.expect("an answer").is_none());
}

#[tokio::test]
async fn limits_do_not_need_the_table_of_documents() {
    let columns = "key blob, limit_name text, state blob, guard boolean, PRIMARY KEY (key, limit_name)";
    let create =
        format!("CREATE TABLE faults.limits_only ({columns}) WITH comment = 'tollgate limits, schema 1'");
    node().await.query(&create).await;
    let config = config(node().await).table("limits_only").documents_table("never_created");
    in_time(config.require_reachable().connect()).await.expect("a store");
}

#[tokio::test]
async fn other_tables_are_not_changed() {
    let node = node().await;
    let newer = || config(node).documents_table("newer_documents");
    newer().create_schema(&Replication::Existing).await.expect("a schema");
    node.query("ALTER TABLE faults.newer_documents WITH comment = 'tollgate documents, schema 7'").await;
    let messages = ["has schema version 7, but this program supports version 1", "upgrade the program"];
    assert_error(in_time(newer().create_schema(&Replication::Existing)).await, REFUSED, &messages);
    assert_error(in_time(newer().connect_documents()).await, REFUSED, &messages);

    // The table of limits.
    let limits = || config(node).table("others").documents_table("limits");
    let messages =
        ["table faults.limits is not a tollgate table for documents", "`item` is not a clustering column"];
    assert_error(in_time(limits().connect_documents()).await, REFUSED, &messages);
    assert_error(in_time(limits().create_schema(&Replication::Existing)).await, REFUSED, &messages);
}

#[tokio::test]
async fn an_unreachable_cluster_is_an_error_of_the_call() {
    let config = || Config::new("cassandra://127.0.0.1:1/faults");
    assert!(in_time(config().require_reachable().connect_documents()).await.is_err());
    let documents = in_time(config().connect_documents()).await.expect("valid");
    let error = store_error(in_time(documents.get("rules")).await).expect_err("unreachable");
    assert!(error.is_retryable() && error.to_string().contains("cannot be reached"), "{error}");
}

/// Of its versions, those that are complete can be read and restored.
#[tokio::test]
async fn a_damaged_version_is_an_error() {
    let (node, documents, name) = (node().await, connect().await, "damaged");
    let change = Change::by("ada", NOW);
    for version in 0..3 {
        let expected = (version > 0).then_some(version);
        in_time(documents.put(name, "text", expected, &change)).await.expect("a new version");
    }
    let table = "faults.documents";
    let key = format!("key = {}", blob(&[&[0], name.as_bytes()].concat()));
    let items = node.query(&format!("SELECT item FROM {table} WHERE {key}")).await;
    let items: Vec<_> = items.into_iter().flatten().flatten().map(|item| blob(&item)).collect();
    // The head, and two items for each version: the revision and the text.
    assert_eq!(items.len(), 1 + 3 * 2);
    let (head, second, third) = (&items[0], &items[4], &items[6]);
    node.query(&format!("DELETE FROM {table} WHERE {key} AND item = {third}")).await;
    node.query(&format!("UPDATE {table} SET value = 0x74657874ff WHERE {key} AND item = {second}")).await;

    let internal = (ErrorKind::Internal, Effect::None);
    let messages = ["a version of a document is incomplete", "Another version may be complete"];
    assert_error(store_error(in_time(documents.get(name)).await), internal, &messages);
    assert_error(store_error(in_time(documents.get_version(name, 2)).await), internal, &messages);
    let complete = in_time(documents.get_version(name, 1)).await.expect("an answer").expect("it is kept");
    let restored = in_time(documents.put(name, &complete.text, Some(3), &change)).await;
    assert_eq!(restored.expect("restored").version, 4);
    assert_eq!(in_time(documents.get(name)).await.expect("an answer").expect("a document").text, "text");

    node.query(&format!("UPDATE {table} SET value = 0x02 WHERE {key} AND item = {head} IF EXISTS")).await;
    let messages = ["stored in a form that this program does not know", "newer program"];
    assert_error(store_error(in_time(documents.get(name)).await), internal, &messages);
    assert_error(store_error(in_time(documents.put(name, "", Some(4), &change)).await), internal, &messages);
}

/// It is larger than what servers accept at once, and the node of the tests accepts 4 MiB.
#[tokio::test]
async fn the_largest_document() {
    let (documents, name) = (connect().await, "largest");
    let text: String = (b' '..b'y').cycle().take(MAX_DOCUMENT_SIZE).map(char::from).collect();
    let change = Change::by("ada", NOW);
    in_time(documents.put(name, &text, None, &change)).await.expect("a new document");
    let document = in_time(documents.get(name)).await.expect("an answer").expect("a document");
    assert!(document.text == text, "another text");
}

#[tokio::test]
async fn long_comments_are_refused() {
    let change = Change::by("ada", NOW).with_comment("x".repeat(64 * 1024));
    let result = in_time(connect().await.put("commented", "text", None, &change)).await;
    assert_error(store_error(result), REFUSED, &["have 65539 bytes together; use at most 65536"]);
}
