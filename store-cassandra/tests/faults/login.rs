//! Credentials and permissions.

use tollgate_core::Limiter;
use tollgate_store_cassandra::{Config, Replication};
use tollgate_testkit::Cassandra;

use crate::expect::{PASSWORD, REFUSED, assert_error, config, connect, daily, in_time, patient};

/// A node with users who may do what they were permitted.
async fn guarded() -> Cassandra {
    let settings = [
        ("authenticator", "PasswordAuthenticator"),
        ("authorizer", "CassandraAuthorizer"),
        // What was just permitted counts at once.
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
    patient(&format!("cassandra://{user}:{password}@{}", node.address()))
}

/// One test, since each would start a node.
#[tokio::test]
async fn users_do_what_they_may_and_are_told_what_they_may_not() {
    let node = guarded().await;

    for stranger in [config(&node), as_user(&node, "limiter", "wrong"), as_user(&node, "nobody", PASSWORD)] {
        // Not even where a node need not be there.
        let says = ["refused the credentials; check user and password in the URL"];
        assert_error(in_time(stranger.clone().connect()).await, REFUSED, &says);
        assert_error(in_time(stranger.create_schema(&Replication::Existing)).await, REFUSED, &says);
    }

    // What the documentation says is enough.
    let limiter = Limiter::new(connect(as_user(&node, "limiter", PASSWORD)).await);
    assert!(in_time(limiter.check(&daily(1), "anybody")).await.expect("a decision").is_allowed());
    assert!(in_time(limiter.check(&daily(1), "anybody")).await.expect("a decision").is_denied());
    assert!(!format!("{:?} {:?}", limiter.store(), as_user(&node, "limiter", PASSWORD)).contains(PASSWORD));

    let reader = Limiter::new(connect(as_user(&node, "reader", PASSWORD)).await);
    let says = ["does not permit what the store needs (SELECT and MODIFY on its table)"];
    assert_error(in_time(reader.check(&daily(5), "anybody")).await, REFUSED, &says);
    assert!(in_time(reader.peek(&daily(1), "anybody")).await.expect("a look").is_denied());

    // Making and changing tables takes more.
    let table = as_user(&node, "limiter", PASSWORD).table("another");
    assert_error(in_time(table.create_schema(&Replication::Existing)).await, REFUSED, &["does not permit"]);

    // Taken away while it is used.
    node.query("REVOKE MODIFY ON TABLE faults.limits FROM limiter").await;
    assert_error(in_time(limiter.check(&daily(5), "somebody")).await, REFUSED, &says);
}
