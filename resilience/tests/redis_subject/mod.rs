//! A subject on one real Redis.

use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::Subject;
use tollgate_store_redis::{Config, RedisStore};

#[derive(Default)]
pub(crate) struct Redis {
    store: OnceCell<RedisStore>,
}

impl Subject for Redis {
    type Store = RedisStore;

    async fn open(&self) -> RedisStore {
        let connect = async || {
            let url = tollgate_testkit::redis_url().await;
            // Replays have their own time, and states outlive it.
            Config::new(url)
                .caller_clock()
                .call_timeout(Duration::from_secs(20))
                .require_reachable()
                .connect()
                .await
                .expect("a running server")
        };
        self.store.get_or_init(connect).await.clone()
    }

    // The wrappers run full-length replays on the memory store, and Redis runs them without wrappers.
    fn replay_steps(&self) -> usize {
        500
    }
}
