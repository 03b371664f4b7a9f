//! The conformance suite over three client-side shards, of which one has a replica.

mod suite_on;

use std::process::ExitCode;

use tollgate_testkit::Redis;

fn main() -> ExitCode {
    suite_on::suite_on(async || {
        let shards = [Redis::start(&[]).await, Redis::start(&[]).await, Redis::start(&[]).await];
        let port = shards[2].port().to_string();
        let replica = Redis::start(&["--replicaof", "127.0.0.1", &port]).await;
        let [a, b, c] = shards.each_ref().map(Redis::address);
        let url = format!("redis+shards://{a},{b},{c}|{}", replica.address());
        (suite_on::connect(&url).await, (shards, replica))
    })
}
