//! The conformance suite behind Sentinel, on a store that has followed a failover.

mod suite;

use std::process::ExitCode;

use tollgate_core::{Limit, Limiter};
use tollgate_testkit::{Redis, RedisSentinel};

fn main() -> ExitCode {
    suite::run_on(async || {
        let mut servers = RedisSentinel::start().await;
        let sentinels: Vec<_> = servers.sentinels().iter().map(Redis::address).collect();
        let url = format!("redis+sentinel://{}/{}", sentinels.join(","), RedisSentinel::NAME);
        let store = suite::connect(&url).await;
        let (limiter, limit) =
            (Limiter::new(store.clone()), Limit::per_hour(10).build("before").expect("valid"));
        assert!(limiter.check(&limit, "user:1").await.expect("a decision").is_allowed());
        servers.fail_over().await;
        // The first call may fail, because the known primary is down. Then the new one is found.
        let _ = limiter.check(&limit, "user:1").await;
        assert!(limiter.check(&limit, "user:1").await.expect("a decision of the new primary").is_allowed());
        (store, servers)
    })
}
