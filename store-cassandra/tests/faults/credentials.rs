//! Credentials and permissions.

use tollgate_core::Limiter;
use tollgate_store_cassandra::{Config, Replication};
use tollgate_testkit::Cassandra;

use crate::fixture::{PASSWORD, REFUSED, assert_error, config, config_for, connect, daily, in_time};

/// Starts a node with authentication and two users.
async fn node_with_users() -> Cassandra {
    let settings = [
        ("authenticator", "PasswordAuthenticator"),
        ("authorizer", "CassandraAuthorizer"),
        // Changed permissions take effect at once.
        ("permissions_validity", "0ms"),
        ("roles_validity", "0ms"),
    ];
    let node = Cassandra::start_with(&settings).await;
    let admin = as_user(&node, "cassandra", "cassandra");
    admin.create_schema(&Replication::Simple(1)).await.expect("a schema");
    for user in ["limiter", "reader"] {
        node.query(&format!("CREATE ROLE {user} WITH PASSWORD = '{PASSWORD}' AND LOGIN = true")).await;
        node.query(&format!("GRANT SELECT ON TABLE faults.limits TO {user}")).await;
    }
    node.query("GRANT MODIFY ON TABLE faults.limits TO limiter").await;
    node
}

fn as_user(node: &Cassandra, user: &str, password: &str) -> Config {
    config_for(&format!("cassandra://{user}:{password}@{}", node.address()))
}

/// One test, because each would start a node.
#[tokio::test]
async fn users_need_valid_credentials_and_permissions() {
    let node = node_with_users().await;

    for rejected in [config(&node), as_user(&node, "limiter", "wrong"), as_user(&node, "nobody", PASSWORD)] {
        // Even without `require_reachable`.
        let messages = ["rejected the credentials; check user and password in the URL"];
        assert_error(in_time(rejected.clone().connect()).await, REFUSED, &messages);
        assert_error(in_time(rejected.create_schema(&Replication::Existing)).await, REFUSED, &messages);
    }

    // The documented permissions suffice.
    let limiter = Limiter::new(connect(as_user(&node, "limiter", PASSWORD)).await);
    assert!(in_time(limiter.check(&daily(1), "user")).await.expect("a decision").is_allowed());
    assert!(in_time(limiter.check(&daily(1), "user")).await.expect("a decision").is_denied());
    assert!(!format!("{:?} {:?}", limiter.store(), as_user(&node, "limiter", PASSWORD)).contains(PASSWORD));

    let reader = Limiter::new(connect(as_user(&node, "reader", PASSWORD)).await);
    let messages = ["denied a permission; the store needs SELECT and MODIFY on its table"];
    assert_error(in_time(reader.check(&daily(5), "user")).await, REFUSED, &messages);
    assert!(in_time(reader.peek(&daily(1), "user")).await.expect("a decision").is_denied());

    // Creating tables needs more.
    let table = as_user(&node, "limiter", PASSWORD).table("another");
    assert_error(
        in_time(table.create_schema(&Replication::Existing)).await,
        REFUSED,
        &["denied a permission"],
    );

    // Revoked while the store is in use.
    node.query("REVOKE MODIFY ON TABLE faults.limits FROM limiter").await;
    assert_error(in_time(limiter.check(&daily(5), "other user")).await, REFUSED, &messages);
}
