//! The conformance suite on one real Redis: a container, or whatever `TOLLGATE_TEST_REDIS` names, a cluster too.

use std::process::ExitCode;

use tokio::sync::OnceCell;
use tollgate_conformance::{Subject, run};
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
}

fn main() -> ExitCode {
    run(Redis::default())
}
