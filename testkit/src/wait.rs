//! Bounded waits for what a server does in its own time.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// For servers that start and fail over within seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
/// For servers that take many seconds on an idle machine, and for tests, which share the machine with each other.
const LONG_TIMEOUT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until a condition holds. Panics after two minutes, naming `what` was waited for.
///
/// The condition is checked every 20 ms. A check that hangs counts as one that fails.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use tollgate_testkit::until;
///
/// # #[tokio::main]
/// # async fn main() {
/// let done = AtomicBool::new(true);
/// until("the worker is done", async || done.load(Ordering::Relaxed)).await;
/// # }
/// ```
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    eventually(what, async || condition().await.then_some(())).await;
}

/// Repeats an attempt every 20 ms until it returns something. Panics after two minutes, naming `what` was waited for.
pub async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let attempts = async {
        loop {
            if let Some(result) = attempt().await {
                return result;
            }
            pause().await;
        }
    };
    let result = tokio::time::timeout(LONG_TIMEOUT, attempts).await;
    result.unwrap_or_else(|_| panic!("waited {LONG_TIMEOUT:?} in vain until {what}"))
}

/// Returns the output of a future. Panics if it does not complete within two minutes.
///
/// The bound is far longer than any call takes. It ends a test whose call would hang.
///
/// ```
/// # #[tokio::main]
/// # async fn main() {
/// assert_eq!(tollgate_testkit::in_time(async { 42 }).await, 42);
/// # }
/// ```
pub async fn in_time<T>(future: impl Future<Output = T>) -> T {
    let output = tokio::time::timeout(LONG_TIMEOUT, future).await;
    output.unwrap_or_else(|_| panic!("a future did not complete within {LONG_TIMEOUT:?}"))
}

/// Bounds a loop that polls a server.
pub(crate) struct Deadline {
    what: &'static str,
    timeout: Duration,
    end: Instant,
}

impl Deadline {
    /// Starts a wait of 30 seconds for `what`.
    pub(crate) fn new(what: &'static str) -> Self {
        Self::after(TIMEOUT, what)
    }

    /// Starts a wait of two minutes for `what`.
    pub(crate) fn long(what: &'static str) -> Self {
        Self::after(LONG_TIMEOUT, what)
    }

    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    fn after(timeout: Duration, what: &'static str) -> Self {
        Self { what, timeout, end: Instant::now() + timeout }
    }

    /// Pauses, and returns whether there is time for another attempt.
    #[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
    pub(crate) async fn allows_another(&self) -> bool {
        pause().await;
        Instant::now() < self.end
    }

    /// Pauses. Panics with what is missing if there is no time for another attempt.
    pub(crate) async fn wait(&self, missing: &str) {
        let Self { what, timeout, .. } = self;
        assert!(self.allows_another().await, "waited {timeout:?} in vain for {what}: {missing}");
    }
}

#[expect(clippy::disallowed_methods, reason = "real servers run in real time")]
async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_condition_is_checked_until_it_holds() {
        let mut checks = 0;
        until("the third check", async || {
            checks += 1;
            checks == 3
        })
        .await;
        assert_eq!(checks, 3);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "waited 120s in vain until pigs fly")]
    async fn a_condition_that_never_holds_panics() {
        until("pigs fly", async || false).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "waited 120s in vain until a check returns")]
    async fn a_check_that_hangs_panics() {
        until("a check returns", async || pending().await).await;
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "did not complete within 120s")]
    async fn a_future_that_hangs_panics() {
        in_time(pending::<()>()).await;
    }
}
