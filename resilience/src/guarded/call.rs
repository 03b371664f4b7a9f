//! A call with a deadline, whose panics are failures.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_core::{ErrorKind, StoreError};

/// Why a call failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The store returned an error.
    Error(StoreError),
    /// The deadline, which was this long, passed.
    Timeout(Duration),
    /// The store panicked.
    Panic,
}

impl Failure {
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Error(error) => error,
            Self::Timeout(deadline) => {
                StoreError::new(ErrorKind::Timeout, format!("the store did not answer within {deadline:?}"))
                    .with_unknown_effect()
            }
            // Without the panic message, which may contain a key. The process's panic hook has printed it.
            Self::Panic => StoreError::new(ErrorKind::Internal, "the store panicked").with_unknown_effect(),
        }
    }
}

/// Runs code whose panic is a failure.
pub(super) fn catch_panic<T>(code: impl FnOnce() -> T) -> Result<T, Failure> {
    // Unwind safe: the code changes only the store's own state.
    catch_unwind(AssertUnwindSafe(code)).map_err(|_| Failure::Panic)
}

/// Awaits a call until it answers, panics, or the deadline passes. The caller pins it: the futures of remote stores are
/// large, and would be moved more than once.
pub(super) async fn with_deadline<T>(
    deadline: Duration,
    mut call: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Failure> {
    let mut poll = |context: &mut Context<'_>| match catch_panic(|| call.as_mut().poll(context)) {
        Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    };
    // A store that never waits needs no timer, and no runtime.
    if let Poll::Ready(answer) = poll_fn(|context| Poll::Ready(poll(context))).await {
        return answer;
    }
    if Handle::try_current().is_err() {
        // Another runtime drives this future: there is no timer.
        return poll_fn(poll).await;
    }
    // Boxed, because a timer is large: the futures of calls that never wait stay small.
    Box::pin(timeout(deadline, poll_fn(poll))).await.unwrap_or(Err(Failure::Timeout(deadline)))
}
