//! Cassandra nodes that tests start: they respond, end, restart with their data, and freeze as documented.

use std::net::TcpStream;

use tollgate_testkit::{Cassandra, CassandraCluster, Consistency, CqlError};

const KEYSPACE: &str =
    "CREATE KEYSPACE t WITH replication = {'class': 'SimpleStrategy', 'replication_factor': ";
const TABLE: &str = "CREATE TABLE t.t (id int PRIMARY KEY, n bigint, text text)";

/// One test with one node, since a node takes seconds to start.
#[tokio::test]
async fn a_node_keeps_its_data_when_it_is_killed_or_frozen() {
    let passwords = [("authenticator", "PasswordAuthenticator"), ("authorizer", "CassandraAuthorizer")];
    let mut node = Cassandra::start_with(&passwords).await;
    assert_eq!(node.url(), format!("cassandra://{}", node.address()));
    assert_eq!(node.query("LIST ROLES").await.len(), 1, "the default user");
    node.query(&format!("{KEYSPACE} 1}}")).await;
    node.query(TABLE).await;
    let applied = node.query("INSERT INTO t.t (id, n) VALUES (1, 42) IF NOT EXISTS").await;
    assert_eq!(applied, [[Some(vec![1])]]);
    let rows = [vec![Some(42_i64.to_be_bytes().to_vec()), None]];
    let read = "SELECT n, text FROM t.t WHERE id = 1";
    assert_eq!(node.query(read).await, rows);
    let wrong = node.try_query("SELECT nothing FROM t.t").await.unwrap_err();
    assert!(matches!(wrong, CqlError::Answer { code: 0x2200, .. }), "{wrong}");

    node.kill().await;
    assert!(!node.is_running());
    assert!(matches!(node.try_query(read).await, Err(CqlError::Connection(_))));
    node.start_again().await;
    assert_eq!(node.query(read).await, rows);

    node.freeze().await;
    let frozen = node.try_query(read).await;
    assert!(matches!(frozen, Err(CqlError::Connection(_))), "{frozen:?}");
    node.thaw().await;
    assert_eq!(node.query(read).await, rows);

    let address = node.address();
    drop(node);
    assert!(TcpStream::connect(address).is_err());
}

#[tokio::test]
async fn a_cluster_survives_the_loss_of_a_node_and_it_rejoins() {
    let mut cluster = CassandraCluster::start().await;
    assert_eq!(cluster.url(), format!("cassandra://{}", cluster.addresses().join(",")));
    cluster.node(0).query(&format!("{KEYSPACE} 3}}")).await;
    cluster.node(0).query(TABLE).await;
    cluster.settled().await;

    cluster.node_mut(1).kill().await;
    cluster.node(2).query("INSERT INTO t.t (id, n) VALUES (1, 42) IF NOT EXISTS").await;
    let read = "SELECT n FROM t.t WHERE id = 1";
    let rows = [[Some(42_i64.to_be_bytes().to_vec())]];
    assert_eq!(cluster.node(0).try_query_at(read, Consistency::Serial).await.unwrap(), rows);
    assert!(cluster.node(0).try_query_at(read, Consistency::All).await.is_err());

    cluster.node_mut(1).start_again().await;
    cluster.settled().await;
    for index in 0..3 {
        assert_eq!(cluster.node(index).try_query_at(read, Consistency::All).await.unwrap(), rows);
    }
}
