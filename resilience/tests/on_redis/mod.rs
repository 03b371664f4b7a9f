//! One real Redis to try wrappers on.

use tokio::sync::OnceCell;
use tollgate_conformance::Subject;
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit as servers;

#[derive(Default)]
pub(crate) struct Redis {
    store: OnceCell<RedisStore>,
}

impl Subject for Redis {
    type Store = RedisStore;

    async fn open(&self) -> RedisStore {
        let connect = async || {
            let url = servers::redis_url().await;
            // Replays bring their own time along, and states outlive whatever they do with it.
            Config::new(url).by_callers_time().must_be_there().connect().await.expect("a server to try")
        };
        self.store.get_or_init(connect).await.clone()
    }

    // Replays of the whole length go through the wrappers in memory, and to Redis without them.
    fn replay_steps(&self) -> usize {
        500
    }
}
