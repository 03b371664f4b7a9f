//! Waiting for what others do in their own time.

use std::time::Duration;

use tollgate_core::{SystemClock, Timer};

/// Waits until it is so.
pub(crate) async fn until(what: &str, so: impl AsyncFn() -> bool) {
    let clock = SystemClock::new();
    for _ in 0..6_000 {
        if so().await {
            return;
        }
        // Nothing tells when that is.
        clock.sleep(Duration::from_millis(10)).await;
    }
    panic!("it never happened that {what}");
}
