//! The conformance suite through `Synced`, with one real Redis as centre: a container, or whatever `TOLLGATE_TEST_REDIS`
//! names.

mod through;

use std::process::ExitCode;

use tokio::sync::OnceCell;
use tollgate_conformance::Subject;
use tollgate_store_redis::{Config, RedisStore};
use tollgate_testkit as servers;

#[derive(Default)]
struct Redis {
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

    // Replays of the whole length go through a node with a memory store as centre, and to Redis without a node.
    fn replay_steps(&self) -> usize {
        500
    }
}

fn main() -> ExitCode {
    through::run(Redis::default, false)
}
