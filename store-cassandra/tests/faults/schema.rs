//! Keyspaces and tables that are missing, old, new, or somebody else's.

use tollgate_core::Limiter;
use tollgate_store_cassandra::{Config, Replication};

use crate::expect::{REFUSED, assert_error, config, connect, daily, in_time, limiter, node, used};

/// The keyspace of this name on the node that tests share.
async fn keyspace(name: &str) -> Config {
    Config::new(format!("{}/{name}", node().await.url()))
}

/// A table of this name beside that of the other tests.
async fn table(name: &str) -> Config {
    config(node().await).table(name)
}

/// Makes it up to date, and sees that it works.
async fn assert_can_be_used_after_all(config: &Config) {
    config.create_schema(&Replication::Existing).await.expect("brought up to date");
    let limiter = Limiter::new(connect(config.clone()).await);
    assert!(in_time(limiter.check(&daily(1), "anybody")).await.expect("a decision").is_allowed());
    assert!(in_time(limiter.check(&daily(1), "anybody")).await.expect("a decision").is_denied());
}

#[tokio::test]
async fn what_is_missing_is_said_at_the_start_with_what_to_do() {
    for (config, missing) in [
        (keyspace("nowhere").await, "no keyspace `nowhere`"),
        (table("nothing").await, "no table faults.nothing"),
    ] {
        assert_error(
            in_time(config.connect()).await,
            REFUSED,
            &[missing, "call Config::create_schema once, when you deploy"],
        );
    }
}

#[tokio::test]
async fn making_the_schema_again_keeps_what_is_there() {
    let (limiter, key) = (limiter().await, "made again");
    assert!(in_time(limiter.check(&daily(5), key)).await.expect("a decision").is_allowed());
    for replication in [Replication::Simple(1), Replication::Existing] {
        config(node().await).create_schema(&replication).await.expect("it is there");
        assert_eq!(used(&limiter, &daily(5), key).await, 1);
    }
}

#[tokio::test]
async fn a_keyspace_is_not_made_by_guessing() {
    let config = keyspace("not_made").await;
    for (replication, says) in [
        (
            Replication::Existing,
            ["no keyspace `not_made`", "Replication::in_datacenters([(\"datacenter1\", 3)])"],
        ),
        (Replication::Simple(0), ["0 replicas in a cluster, which has 1 nodes", "use 1 to 1"]),
        (Replication::Simple(3), ["3 replicas in a cluster, which has 1 nodes", "use 1 to 1"]),
        (
            Replication::in_datacenters([("datacenter1", 2)]),
            ["2 replicas in datacenter datacenter1", "which has 1 nodes"],
        ),
        (Replication::in_datacenters([("mars", 1)]), ["no datacenter `mars`", "it has datacenter1"]),
        (Replication::in_datacenters([("a'b", 1)]), ["no datacenter `a\\'b`", "it has datacenter1"]),
        (Replication::in_datacenters([]), ["no datacenter was named", "replicate"]),
    ] {
        assert_error(in_time(config.create_schema(&replication)).await, REFUSED, &says);
    }
    assert_error(in_time(config.connect()).await, REFUSED, &["no keyspace `not_made`"]);
}

#[tokio::test]
async fn a_keyspace_can_be_replicated_by_datacenter() {
    let config = keyspace("by_datacenter").await;
    config.create_schema(&Replication::in_datacenters([("datacenter1", 1)])).await.expect("a schema");
    let limiter = Limiter::new(connect(config.local_datacenter("datacenter1")).await);
    assert!(in_time(limiter.check(&daily(1), "anybody")).await.expect("a decision").is_allowed());
}

#[tokio::test]
async fn names_that_are_none_are_refused() {
    let config = table("a; DROP").await;
    assert_error(
        in_time(config.create_schema(&Replication::Simple(1))).await,
        REFUSED,
        &["is no name for one"],
    );
    assert_error(in_time(config.connect()).await, REFUSED, &["is no name for one"]);
    let config = keyspace("System").await;
    assert_error(in_time(config.connect()).await, REFUSED, &["is no name for one"]);
}

#[tokio::test]
async fn an_older_table_is_brought_up_to_date() {
    for (name, columns) in [
        // From before tables said their version.
        ("old", "key blob, limit_name text, state blob"),
        ("older", "key blob, limit_name text, note text"),
    ] {
        let make = format!("CREATE TABLE faults.{name} ({columns}, PRIMARY KEY (key, limit_name))");
        node().await.query(&make).await;
        let config = table(name).await;
        assert_error(
            in_time(config.clone().connect()).await,
            REFUSED,
            &["has schema 0, and this program needs 1", "Config::create_schema"],
        );
        assert_can_be_used_after_all(&config).await;
    }
}

#[tokio::test]
async fn a_table_that_lost_a_column_gets_it_back() {
    let config = table("without_state").await;
    config.create_schema(&Replication::Existing).await.expect("a schema");
    node().await.query("ALTER TABLE faults.without_state DROP state").await;
    assert_error(
        in_time(config.clone().connect()).await,
        REFUSED,
        &["has no column `state`", "Config::create_schema"],
    );
    assert_can_be_used_after_all(&config).await;
}

#[tokio::test]
async fn a_newer_table_is_left_alone() {
    let config = table("newer").await;
    config.create_schema(&Replication::Existing).await.expect("a schema");
    node().await.query("ALTER TABLE faults.newer WITH comment = 'tollgate limits, schema 7'").await;
    let says = ["has schema 7, which is newer than this program's 1", "use a newer program"];
    assert_error(in_time(config.create_schema(&Replication::Existing)).await, REFUSED, &says);
    assert_error(in_time(config.connect()).await, REFUSED, &says);
}

#[tokio::test]
async fn a_table_of_somebody_else_is_left_alone() {
    for (name, columns, says) in [
        ("theirs", "id uuid PRIMARY KEY, note text", "its column `key` is not a blob that is partition key"),
        (
            "similar",
            "key text, limit_name text, state blob, PRIMARY KEY (key, limit_name)",
            "its column `key` is not a blob",
        ),
        (
            "flat",
            "key blob PRIMARY KEY, limit_name text, state blob",
            "its column `limit_name` is not a text that is clustering",
        ),
        (
            "counting",
            "key blob, limit_name text, state bigint, PRIMARY KEY (key, limit_name)",
            "its column `state` is not a blob that is regular",
        ),
    ] {
        node().await.query(&format!("CREATE TABLE faults.{name} ({columns})")).await;
        let config = table(name).await;
        let says = ["is another's", says, "use another table"];
        assert_error(in_time(config.clone().connect()).await, REFUSED, &says);
        assert_error(in_time(config.create_schema(&Replication::Existing)).await, REFUSED, &says);
        let comment = format!(
            "SELECT comment FROM system_schema.tables WHERE keyspace_name = 'faults' AND table_name = '{name}'"
        );
        assert_eq!(node().await.query(&comment).await, [[Some(Vec::new())]], "nothing was changed");
    }
}
