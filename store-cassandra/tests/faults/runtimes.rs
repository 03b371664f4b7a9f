//! Stores whose runtime ends: the session ends with it.

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tollgate_core::Limiter;

use crate::fixture::{config, connect, daily, in_time, node, used};

#[tokio::test]
async fn a_session_that_ended_with_its_runtime_is_replaced() {
    let (config, key) = (config(node().await), "two runtimes");
    let (sender, store) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let store = runtime.block_on(async {
            let limiter = Limiter::new(connect(config).await);
            assert!(limiter.check(&daily(10), key).await.expect("a decision").is_allowed());
            limiter.into_store()
        });
        drop(runtime);
        let _ = sender.send(store);
    });
    let limiter = Limiter::new(in_time(store).await.expect("no panic"));
    assert!(in_time(limiter.check(&daily(10), key)).await.expect("a new session").is_allowed());
    assert_eq!(used(&limiter, &daily(10), key).await, 2);
}
