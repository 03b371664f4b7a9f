//! Runs the conformance suite on a store that is opened once, together with its servers.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::OnceCell;
use tollgate_conformance::{Subject, run};
use tollgate_store_redis::{Config, RedisStore};

/// A store and its servers, which must not be dropped before it.
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
pub(crate) fn run_on<F, O, S>(open: F) -> ExitCode
where
    F: Fn() -> O + Send + Sync + 'static,
    O: Future<Output = (RedisStore, S)> + Send,
    S: Send + Sync + 'static,
{
    run(Opened { open, store: OnceCell::new() })
}

/// Connects with the caller's clock, because trials replay traces. The timeout is long, because a machine that runs
/// many servers and trials may be slow.
pub(crate) async fn connect(url: &str) -> RedisStore {
    let config = Config::new(url).caller_clock().call_timeout(Duration::from_secs(20));
    config.require_reachable().connect().await.expect("reachable servers")
}
