//! The conformance suite on a store that is opened once, together with the servers it lives on.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::{Subject, run};
use tollgate_store_redis::{Config, RedisStore};

/// A store, and what must not be dropped before it.
struct Opened<F, S> {
    open: F,
    store: OnceCell<(RedisStore, S)>,
}

impl<F, O, S> Subject for Opened<F, S>
where
    F: Fn() -> O + Send + Sync + 'static,
    O: Future<Output = (RedisStore, S)> + Send,
    S: Send + Sync + 'static,
{
    type Store = RedisStore;

    async fn open(&self) -> RedisStore {
        self.store.get_or_init(&self.open).await.0.clone()
    }
}

/// Runs the suite on the store that `open` returns with its servers.
pub(crate) fn suite_on<F, O, S>(open: F) -> ExitCode
where
    F: Fn() -> O + Send + Sync + 'static,
    O: Future<Output = (RedisStore, S)> + Send,
    S: Send + Sync + 'static,
{
    run(Opened { open, store: OnceCell::new() })
}

/// A store for the suite: replays bring their own time along, and states outlive whatever they do with it. A machine
/// that is busy with servers and trials may keep a call waiting.
pub(crate) async fn connect(url: &str) -> RedisStore {
    let config = Config::new(url).by_callers_time().call_timeout(Duration::from_secs(20));
    config.must_be_there().connect().await.expect("servers to try")
}
