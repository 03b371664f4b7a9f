//! The conformance suite behind real Sentinels, on a store that has followed them to another primary.

mod suite_on;

use std::process::ExitCode;

use tollgate_core::{Limit, Limiter};
use tollgate_testkit::{Redis, RedisSentinel};

fn main() -> ExitCode {
    suite_on::suite_on(async || {
        let mut servers = RedisSentinel::start().await;
        let sentinels: Vec<_> = servers.sentinels().iter().map(Redis::address).collect();
        let url = format!("redis+sentinel://{}/{}", sentinels.join(","), RedisSentinel::NAME);
        let store = suite_on::connect(&url).await;
        let (limiter, limit) =
            (Limiter::new(store.clone()), Limit::per_hour(10).build("before").expect("valid"));
        assert!(limiter.check(&limit, "anybody").await.expect("a primary").is_allowed());
        servers.fail_over().await;
        // The primary that it knows is gone: it may say so once, and then has found the other.
        let _ = limiter.check(&limit, "anybody").await;
        assert!(limiter.check(&limit, "anybody").await.expect("the other primary").is_allowed());
        (store, servers)
    })
}
