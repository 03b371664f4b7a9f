//! The conformance suite on three client-side shards, one of which has a replica.

mod suite;

use std::process::ExitCode;

use tollgate_testkit::Redis;

fn main() -> ExitCode {
    suite::run_on(async || {
        let shards = [Redis::start(&[]).await, Redis::start(&[]).await, Redis::start(&[]).await];
        let port = shards[2].port().to_string();
        let replica = Redis::start(&["--replicaof", "127.0.0.1", &port]).await;
        let [a, b, c] = shards.each_ref().map(Redis::address);
        let url = format!("redis+shards://{a},{b},{c}|{}", replica.address());
        (suite::connect(&url).await, (shards, replica))
    })
}
