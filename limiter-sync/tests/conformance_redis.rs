//! The conformance suite through `Synced`, with one real Redis as the central store: a container, or the server that
//! `TOLLGATE_TEST_REDIS` names.

mod through;

use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::Subject;
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
            // Replays pass their own time.
            Config::new(url)
                .caller_clock()
                .call_timeout(Duration::from_secs(20))
                .require_reachable()
                .connect()
                .await
                .expect("a server")
        };
        self.store.get_or_init(connect).await.clone()
    }

    // Replays of the full length run through a node around a memory store, and on Redis without a node.
    fn replay_steps(&self) -> usize {
        500
    }
}

fn main() -> ExitCode {
    through::run(Redis::default, false)
}
