//! The conformance suite on a real Redis.

use std::process::ExitCode;

use tollgate_conformance::{Subject, run};
use tollgate_store_redis::{Config, RedisStore};

struct Redis {
    url: String,
}

impl Subject for Redis {
    type Store = RedisStore;

    async fn open(&self) -> RedisStore {
        Config::new(&self.url).by_callers_time().must_be_there().connect().await.expect("a server to try")
    }
}

fn main() -> ExitCode {
    let url = std::env::var("TOLLGATE_TEST_REDIS").expect("the URL of a redis in TOLLGATE_TEST_REDIS");
    run(Redis { url })
}
