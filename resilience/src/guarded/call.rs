//! A call that ends in time, whatever happens inside of it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tollgate_core::{ErrorKind, StoreError};

/// How a call ended that gave no answer.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It said so itself.
    Error(StoreError),
    /// No answer in time.
    Late(Duration),
    /// A bug in it.
    Panic,
}

impl Failure {
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::Error(error) => error,
            Self::Late(deadline) => {
                StoreError::new(ErrorKind::Timeout, format!("the store did not answer within {deadline:?}"))
                    .with_unknown_effect()
            }
            // Not what the panic says: that may be about a key. The process's panic hook has printed it.
            Self::Panic => StoreError::new(ErrorKind::Internal, "the store panicked").with_unknown_effect(),
        }
    }
}

/// Runs a piece of code whose panic is no more than a failure.
pub(crate) fn contained<T>(code: impl FnOnce() -> T) -> Result<T, Failure> {
    // What it leaves behind is its own: nothing of ours is changed in there.
    catch_unwind(AssertUnwindSafe(code)).map_err(|_| Failure::Panic)
}

/// Waits for a call, but not longer than `deadline`, and not for one that panicked. The call is pinned by whoever makes
/// it: those of remote stores are large, and would be moved more than once.
pub(crate) async fn within<T>(
    deadline: Duration,
    mut call: Pin<&mut impl Future<Output = T>>,
) -> Result<T, Failure> {
    let mut poll = |context: &mut Context<'_>| match contained(|| call.as_mut().poll(context)) {
        Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    };
    // A store that never waits needs no timer, and no runtime.
    if let Poll::Ready(answer) = poll_fn(|context| Poll::Ready(poll(context))).await {
        return answer;
    }
    if Handle::try_current().is_err() {
        // Somebody else's runtime: there is no timer to wake us up.
        return poll_fn(poll).await;
    }
    // A timer is large, and those who never wait would carry the room for it about.
    Box::pin(timeout(deadline, poll_fn(poll))).await.unwrap_or(Err(Failure::Late(deadline)))
}
