//! Waiting for what servers do in their own time.

use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);
const PAUSES: u32 = 1_500;

/// Tries until there is something; panics if that takes half a minute.
#[expect(clippy::disallowed_methods, reason = "real servers live in real time")]
pub(crate) async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..PAUSES {
        if let Some(it) = attempt().await {
            return it;
        }
        tokio::time::sleep(PAUSE).await;
    }
    panic!("waited in vain for {what}");
}
