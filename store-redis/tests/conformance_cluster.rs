//! The conformance suite on a real cluster of three primaries with a replica each.

mod suite_on;

use std::process::ExitCode;

use tollgate_testkit::RedisCluster;

fn main() -> ExitCode {
    suite_on::suite_on(async || {
        let cluster = RedisCluster::start().await;
        // One to begin with: the others are found.
        let url = format!("redis+cluster://{}", cluster.servers()[0].address());
        (suite_on::connect(&url).await, cluster)
    })
}
