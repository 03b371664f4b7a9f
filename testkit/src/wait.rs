//! Waiting for what a server does in its own time.

use std::time::Duration;

use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(30);
/// For servers that take many seconds even where nothing else runs.
const LONG: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// For a loop that asks until there is an answer.
pub(crate) struct Deadline {
    what: &'static str,
    length: Duration,
    ends: Instant,
}

#[expect(clippy::disallowed_methods, reason = "real servers live in real time")]
impl Deadline {
    /// Says for what.
    pub(crate) fn new(what: &'static str) -> Self {
        Self::lasting(PATIENCE, what)
    }

    /// Says for what takes long.
    pub(crate) fn long(what: &'static str) -> Self {
        Self::lasting(LONG, what)
    }

    fn lasting(length: Duration, what: &'static str) -> Self {
        Self { what, length, ends: Instant::now() + length }
    }

    /// Whether to ask once more, after a pause.
    pub(crate) async fn lasts(&self) -> bool {
        tokio::time::sleep(PAUSE).await;
        Instant::now() < self.ends
    }

    /// Pauses, or panics if it was in vain, saying what is missing.
    pub(crate) async fn wait(&self, missing: &str) {
        assert!(self.lasts().await, "waited {:?} in vain for {}: {missing}", self.length, self.what);
    }
}
