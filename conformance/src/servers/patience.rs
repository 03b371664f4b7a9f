//! Waiting for what a server does in its own time.

use std::time::Duration;

use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// For a loop that asks until there is an answer.
pub(crate) struct Patience {
    what: &'static str,
    ends: Instant,
}

#[expect(clippy::disallowed_methods, reason = "real servers live in real time")]
impl Patience {
    /// Says for what.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, ends: Instant::now() + PATIENCE }
    }

    /// Whether to ask once more, after a pause.
    pub(crate) async fn lasts(&self) -> bool {
        tokio::time::sleep(PAUSE).await;
        Instant::now() < self.ends
    }

    /// Pauses, or panics if it was in vain, saying what is missing.
    pub(crate) async fn wait(&self, missing: &str) {
        assert!(self.lasts().await, "waited {PATIENCE:?} in vain for {}: {missing}", self.what);
    }
}
