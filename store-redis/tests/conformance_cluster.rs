//! The conformance suite on a cluster of three primaries with a replica each.

mod suite;

use std::process::ExitCode;

use tollgate_testkit::RedisCluster;

fn main() -> ExitCode {
    suite::run_on(async || {
        let cluster = RedisCluster::start().await;
        // One seed; the other nodes are discovered.
        let url = format!("redis+cluster://{}", cluster.servers()[0].address());
        (suite::connect(&url).await, cluster)
    })
}
