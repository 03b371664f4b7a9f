//! The conformance suite on one Redis server: one that the test starts, or the one at `TOLLGATE_TEST_REDIS`, which may
//! be a cluster.

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::{Subject, run};
use tollgate_store_redis::{Config, RedisStore};

#[derive(Default)]
struct Redis {
    store: OnceCell<RedisStore>,
}

impl Subject for Redis {
    type Store = RedisStore;

    async fn open(&self) -> RedisStore {
        let connect = async || {
            let url = tollgate_testkit::redis_url().await;
            // Trials replay traces with their own time.
            Config::new(url)
                .caller_clock()
                .call_timeout(Duration::from_secs(20))
                .require_reachable()
                .connect()
                .await
                .expect("a reachable server")
        };
        self.store.get_or_init(connect).await.clone()
    }
}

fn main() -> ExitCode {
    run(Redis::default())
}
