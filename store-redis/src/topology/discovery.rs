//! Discovery of servers: concurrent callers share one query, and a server that hangs does not delay the result.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_core::{ErrorKind, StoreError};

use crate::error::Fault;
use crate::server::now;

/// How long to wait for one server before the next one is queried as well.
const HEAD_START: Duration = Duration::from_millis(50);
/// How long a result is reused.
const FRESH: Duration = Duration::from_millis(50);

/// A discovery that concurrent callers share.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    last: Mutex<Option<Pending>>,
}

/// The result, and when it arrived.
type Finished = Option<(Result<(), StoreError>, Instant)>;

/// A discovery that is under way or finished.
#[derive(Clone, Debug)]
pub(crate) struct Pending(watch::Receiver<Finished>);

impl Discovery {
    /// Starts a discovery in a task of its own, unless one is under way or has just finished.
    pub(crate) fn start<F>(&self, discover: impl FnOnce() -> F) -> Pending
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pending) = last.as_ref().filter(|pending| pending.is_current()) {
            return pending.clone();
        }
        let (sender, receiver) = watch::channel(None);
        let discovery = discover();
        tokio::spawn(async move {
            let result = discovery.await;
            sender.send_replace(Some((result, now())));
        });
        last.insert(Pending(receiver)).clone()
    }
}

impl Pending {
    fn is_current(&self) -> bool {
        match &*self.0.borrow() {
            Some((_, since)) => now() < *since + FRESH,
            // An error means that the task was dropped, with the runtime that it ran on.
            None => self.0.has_changed().is_ok(),
        }
    }

    /// Waits for the result until `deadline`. A failure is [`Fault::NotSent`]: no call has been sent yet.
    pub(crate) async fn wait(mut self, deadline: Instant) -> Result<(), Fault> {
        let missing = |kind, what: &'static str| Err(StoreError::new(kind, what));
        let result = match timeout_at(deadline, self.0.wait_for(Option::is_some)).await {
            Ok(Ok(finished)) => finished.as_ref().map_or(Ok(()), |(result, _)| result.clone()),
            Ok(Err(_)) => missing(ErrorKind::Unavailable, "the discovery of the redis servers was aborted"),
            Err(_) => missing(ErrorKind::Timeout, "timed out while discovering the redis servers"),
        };
        result.map_err(Fault::NotSent)
    }
}

/// Why a queried server did not help.
#[derive(Debug)]
pub(crate) struct QueryError {
    /// The server replied; otherwise it did not.
    pub(crate) answered: bool,
    pub(crate) error: StoreError,
}

impl From<Fault> for QueryError {
    fn from(fault: Fault) -> Self {
        Self { answered: matches!(fault, Fault::Refused(_)), error: fault.into_error() }
    }
}

impl QueryError {
    pub(crate) fn reply(error: StoreError) -> Self {
        Self { answered: true, error }
    }
}

/// Returns the first success. The queries start in order, the next one as soon as one fails or has not finished within
/// [`HEAD_START`]. If all fail, returns an error that starts with `failure` and lists all errors.
pub(crate) async fn first_success<T, F>(
    queries: impl IntoIterator<Item = F>,
    failure: &str,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, QueryError>>,
{
    let mut queries = queries.into_iter();
    let mut started: FuturesUnordered<_> = queries.next().into_iter().collect();
    let mut errors = Vec::new();
    loop {
        match timeout(HEAD_START, started.next()).await {
            Ok(Some(Ok(value))) => return Ok(value),
            Ok(Some(Err(error))) => errors.push(error),
            Ok(None) => return Err(summary(errors, failure)),
            Err(_) => {}
        }
        started.extend(queries.next());
    }
}

/// Combines errors. A reply is more informative than silence; among replies, a retryable one decides the kind.
fn summary(errors: Vec<QueryError>, failure: &str) -> StoreError {
    let messages: Vec<_> = errors.iter().map(|query| query.error.to_string()).collect();
    let decisive = errors.into_iter().max_by_key(|query| (query.answered, query.error.is_retryable()));
    match decisive {
        Some(QueryError { error, .. }) => {
            let kind = match error.kind() {
                // An unexpected reply of another program, such as a proxy; it is not a bug of this one.
                ErrorKind::Internal => ErrorKind::Unavailable,
                kind => kind,
            };
            StoreError::new(kind, format!("{failure}: {}", messages.join("; "))).with_source(error)
        }
        None => StoreError::new(ErrorKind::Unavailable, failure.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::Either;

    fn query_error(answered: bool, kind: ErrorKind, message: &'static str) -> QueryError {
        QueryError { answered, error: StoreError::new(kind, message) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_that_hangs_does_not_delay_the_result() {
        let queries = [Either::Left(pending()), Either::Right(ready(Ok(2)))];
        assert_eq!(first_success(queries, "none").await.expect("a result"), 2);
    }

    #[tokio::test]
    async fn the_first_query_has_precedence() {
        let queries = [ready(Ok(1)), ready(Ok(2))];
        assert_eq!(first_success(queries, "none").await.expect("a result"), 1);
    }

    #[tokio::test]
    async fn a_reply_decides_the_kind_of_error() {
        let queries = [
            ready(Err::<(), _>(query_error(false, ErrorKind::Unavailable, "a is down"))),
            ready(Err(query_error(true, ErrorKind::Refused, "b does not know the name"))),
        ];
        let error = first_success(queries, "none").await.expect_err("all failed");
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(error.to_string(), "none: a is down; b does not know the name");
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_discovery() {
        let (discovery, started) = (Discovery::default(), Arc::new(AtomicU32::new(0)));
        let start = || {
            let started = Arc::clone(&started);
            discovery.start(|| async move {
                started.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let all: Vec<_> = (0..100).map(|_| start().wait(now() + FRESH)).collect();
        for wait in all {
            wait.await.expect("a result");
        }
        assert_eq!(started.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH).await;
        start().wait(now() + FRESH).await.expect("a result");
        assert_eq!(started.load(Ordering::Relaxed), 2, "an old result is not reused");
    }
}
