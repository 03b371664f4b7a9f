//! Keyspaces and tables that are missing, outdated, newer, or not created by a store.

use tollgate_core::Limiter;
use tollgate_store_cassandra::{Config, Replication};

use crate::fixture::{REFUSED, assert_error, config, connect, daily, in_time, limiter, node, used};

/// Returns a configuration for a keyspace on the shared node.
async fn keyspace(name: &str) -> Config {
    Config::new(format!("{}/{name}", node().await.url()))
}

/// Returns a configuration for a table in the keyspace of the other tests.
async fn table(name: &str) -> Config {
    config(node().await).table(name)
}

/// Upgrades the table, and asserts that a store works with it.
async fn assert_can_be_upgraded(config: &Config) {
    config.create_schema(&Replication::Existing).await.expect("an upgraded schema");
    let limiter = Limiter::new(connect(config.clone()).await);
    assert!(in_time(limiter.check(&daily(1), "user")).await.expect("a decision").is_allowed());
    assert!(in_time(limiter.check(&daily(1), "user")).await.expect("a decision").is_denied());
}

#[tokio::test]
async fn a_missing_schema_is_an_error_at_startup() {
    for (config, missing) in [
        (keyspace("nowhere").await, "no keyspace `nowhere`"),
        (table("nothing").await, "no table faults.nothing"),
    ] {
        assert_error(
            in_time(config.connect()).await,
            REFUSED,
            &[missing, "create it with Config::create_schema, once, when you deploy"],
        );
    }
}

#[tokio::test]
async fn creating_the_schema_again_changes_nothing() {
    let (limiter, key) = (limiter().await, "created again");
    assert!(in_time(limiter.check(&daily(5), key)).await.expect("a decision").is_allowed());
    for replication in [Replication::Simple(1), Replication::Existing] {
        config(node().await).create_schema(&replication).await.expect("an existing schema");
        assert_eq!(used(&limiter, &daily(5), key).await, 1);
    }
}

#[tokio::test]
async fn a_keyspace_is_not_created_with_an_impossible_replication() {
    let config = keyspace("not_created").await;
    for (replication, messages) in [
        (
            Replication::Existing,
            ["no keyspace `not_created`", "Replication::in_datacenters([(\"datacenter1\", 3)])"],
        ),
        (
            Replication::Simple(0),
            ["replication factor 0 is not possible in the cluster, which has 1 nodes", "use 1 to 1"],
        ),
        (
            Replication::Simple(3),
            ["replication factor 3 is not possible in the cluster, which has 1 nodes", "use 1 to 1"],
        ),
        (
            Replication::in_datacenters([("datacenter1", 2)]),
            ["replication factor 2 is not possible in datacenter datacenter1", "which has 1 nodes"],
        ),
        (
            Replication::in_datacenters([("mars", 1)]),
            ["no datacenter `mars`", "its datacenters: datacenter1"],
        ),
        (
            Replication::in_datacenters([("a'b", 1)]),
            ["no datacenter `a\\'b`", "its datacenters: datacenter1"],
        ),
        (Replication::in_datacenters([]), ["has no datacenter", "add at least one"]),
    ] {
        assert_error(in_time(config.create_schema(&replication)).await, REFUSED, &messages);
    }
    assert_error(in_time(config.connect()).await, REFUSED, &["no keyspace `not_created`"]);
}

#[tokio::test]
async fn a_keyspace_can_be_replicated_by_datacenter() {
    let config = keyspace("by_datacenter").await;
    config.create_schema(&Replication::in_datacenters([("datacenter1", 1)])).await.expect("a schema");
    let limiter = Limiter::new(connect(config.local_datacenter("datacenter1")).await);
    assert!(in_time(limiter.check(&daily(1), "user")).await.expect("a decision").is_allowed());
}

#[tokio::test]
async fn invalid_names_are_refused() {
    let config = table("a; DROP").await;
    assert_error(
        in_time(config.create_schema(&Replication::Simple(1))).await,
        REFUSED,
        &["is not a valid name"],
    );
    assert_error(in_time(config.connect()).await, REFUSED, &["is not a valid name"]);
    let config = keyspace("System").await;
    assert_error(in_time(config.connect()).await, REFUSED, &["is not a valid name"]);
}

#[tokio::test]
async fn an_older_table_is_upgraded() {
    for (name, columns) in [
        // Without a version in its comment.
        ("old", "key blob, limit_name text, state blob"),
        ("older", "key blob, limit_name text, note text"),
    ] {
        let create = format!("CREATE TABLE faults.{name} ({columns}, PRIMARY KEY (key, limit_name))");
        node().await.query(&create).await;
        let config = table(name).await;
        assert_error(
            in_time(config.clone().connect()).await,
            REFUSED,
            &[
                "has schema version 0, but this program needs version 1",
                "upgrade it with Config::create_schema",
            ],
        );
        assert_can_be_upgraded(&config).await;
    }
}

#[tokio::test]
async fn a_missing_column_is_added() {
    let config = table("without_state").await;
    config.create_schema(&Replication::Existing).await.expect("a schema");
    node().await.query("ALTER TABLE faults.without_state DROP state").await;
    assert_error(
        in_time(config.clone().connect()).await,
        REFUSED,
        &["has no column `state`", "Config::create_schema"],
    );
    assert_can_be_upgraded(&config).await;
}

#[tokio::test]
async fn a_newer_table_is_not_changed() {
    let config = table("newer").await;
    config.create_schema(&Replication::Existing).await.expect("a schema");
    node().await.query("ALTER TABLE faults.newer WITH comment = 'tollgate limits, schema 7'").await;
    let messages = ["has schema version 7, but this program supports version 1", "upgrade the program"];
    assert_error(in_time(config.create_schema(&Replication::Existing)).await, REFUSED, &messages);
    assert_error(in_time(config.connect()).await, REFUSED, &messages);
}

#[tokio::test]
async fn an_unrelated_table_is_not_changed() {
    for (name, columns, problem) in [
        ("unrelated", "id uuid PRIMARY KEY, note text", "`key` is not a partition key column of type blob"),
        (
            "similar",
            "key text, limit_name text, state blob, PRIMARY KEY (key, limit_name)",
            "`key` is not a partition key column of type blob",
        ),
        (
            "flat",
            "key blob PRIMARY KEY, limit_name text, state blob",
            "`limit_name` is not a clustering column of type text",
        ),
        (
            "counting",
            "key blob, limit_name text, state bigint, PRIMARY KEY (key, limit_name)",
            "`state` is not a regular column of type blob",
        ),
    ] {
        node().await.query(&format!("CREATE TABLE faults.{name} ({columns})")).await;
        let config = table(name).await;
        let messages = ["is not a tollgate table", problem, "use another table"];
        assert_error(in_time(config.clone().connect()).await, REFUSED, &messages);
        assert_error(in_time(config.create_schema(&Replication::Existing)).await, REFUSED, &messages);
        let comment = format!(
            "SELECT comment FROM system_schema.tables WHERE keyspace_name = 'faults' AND table_name = '{name}'"
        );
        assert_eq!(node().await.query(&comment).await, [[Some(Vec::new())]], "nothing has changed");
    }
}
