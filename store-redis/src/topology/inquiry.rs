//! Asking for the way: of many who want to know the same, one asks; of many who may know, one that hangs holds nobody up.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_core::{ErrorKind, StoreError};

use crate::error::Fault;
use crate::server::now;

/// For so long one is waited for alone; then the next is asked, too.
const HEAD_START: Duration = Duration::from_millis(50);
/// For so long an answer counts: who wants to know right after somebody has asked is told the same.
const FRESH: Duration = Duration::from_millis(50);

/// A question that many have, and that one of them asks.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    last: Mutex<Option<Pending>>,
}

/// The answer, and since when it is there.
type Told = Option<(Result<(), StoreError>, Instant)>;

/// An answer that is there or on its way.
#[derive(Clone, Debug)]
pub(crate) struct Pending(watch::Receiver<Told>);

impl Inquiry {
    /// Begins to ask, in a task of its own, unless somebody is at it or has just been.
    pub(crate) fn begin<F>(&self, ask: impl FnOnce() -> F) -> Pending
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pending) = last.as_ref().filter(|pending| pending.is_good()) {
            return pending.clone();
        }
        let (tell, told) = watch::channel(None);
        let asked = ask();
        tokio::spawn(async move {
            let answer = asked.await;
            tell.send_replace(Some((answer, now())));
        });
        last.insert(Pending(told)).clone()
    }
}

impl Pending {
    fn is_good(&self) -> bool {
        match &*self.0.borrow() {
            Some((_, since)) => now() < *since + FRESH,
            // Unless the task is gone, with the runtime that it ran on.
            None => self.0.has_changed().is_ok(),
        }
    }

    /// Waits for the answer, but not longer than until `deadline`. Whatever it is, nothing was sent to a server that
    /// decides.
    pub(crate) async fn wait(mut self, deadline: Instant) -> Result<(), Fault> {
        let missing = |kind, what: &'static str| Err(StoreError::new(kind, what));
        let answer = match timeout_at(deadline, self.0.wait_for(Option::is_some)).await {
            Ok(Ok(told)) => told.as_ref().map_or(Ok(()), |(answer, _)| answer.clone()),
            Ok(Err(_)) => missing(ErrorKind::Unavailable, "the search for redis was broken off"),
            Err(_) => missing(ErrorKind::Timeout, "it could not be found out in time which redis to ask"),
        };
        answer.map_err(Fault::NotSent)
    }
}

/// Why one of those who were asked does not help.
#[derive(Debug)]
pub(crate) struct Problem {
    /// It said so; otherwise it said nothing.
    pub(crate) answered: bool,
    pub(crate) error: StoreError,
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self { answered: matches!(fault, Fault::Refused(_)), error: fault.into_error() }
    }
}

impl Problem {
    pub(crate) fn answer(error: StoreError) -> Self {
        Self { answered: true, error }
    }
}

/// The first good answer. They are asked in order, the next one as soon as one is no help, or has not answered within
/// a moment. Without a good answer, an error that begins with `otherwise` and says what each of them said.
pub(crate) async fn first_answer<T, F>(
    asks: impl IntoIterator<Item = F>,
    otherwise: &str,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, Problem>>,
{
    let mut asks = asks.into_iter();
    let mut asked: FuturesUnordered<_> = asks.next().into_iter().collect();
    let mut problems = Vec::new();
    loop {
        match timeout(HEAD_START, asked.next()).await {
            Ok(Some(Ok(answer))) => return Ok(answer),
            Ok(Some(Err(problem))) => problems.push(problem),
            Ok(None) => return Err(summary(problems, otherwise)),
            Err(_) => {}
        }
        asked.extend(asks.next());
    }
}

/// Who answered knows better than who did not; of those, one that may help later tells whether to try again.
fn summary(problems: Vec<Problem>, otherwise: &str) -> StoreError {
    let said: Vec<_> = problems.iter().map(|problem| problem.error.to_string()).collect();
    let telling = problems.into_iter().max_by_key(|problem| (problem.answered, problem.error.is_retryable()));
    match telling {
        Some(Problem { error, .. }) => {
            let kind = match error.kind() {
                // That of another program, as far as the caller is concerned.
                ErrorKind::Internal => ErrorKind::Unavailable,
                kind => kind,
            };
            StoreError::new(kind, format!("{otherwise}: {}", said.join("; "))).with_source(error)
        }
        None => StoreError::new(ErrorKind::Unavailable, otherwise.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::Either;

    fn problem(answered: bool, kind: ErrorKind, message: &'static str) -> Problem {
        Problem { answered, error: StoreError::new(kind, message) }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_hangs_holds_nobody_up() {
        let asks = [Either::Left(pending()), Either::Right(ready(Ok(2)))];
        assert_eq!(first_answer(asks, "nobody").await.expect("an answer"), 2);
    }

    #[tokio::test]
    async fn the_first_has_precedence() {
        let asks = [ready(Ok(1)), ready(Ok(2))];
        assert_eq!(first_answer(asks, "nobody").await.expect("an answer"), 1);
    }

    #[tokio::test]
    async fn who_answered_knows_better() {
        let asks = [
            ready(Err::<(), _>(problem(false, ErrorKind::Unavailable, "a is dead"))),
            ready(Err(problem(true, ErrorKind::Refused, "b knows no such name"))),
        ];
        let error = first_answer(asks, "nobody").await.expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert_eq!(error.to_string(), "nobody: a is dead; b knows no such name");
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_who_want_to_know_one_asks() {
        let (inquiry, asked) = (Inquiry::default(), Arc::new(AtomicU32::new(0)));
        let begin = || {
            let asked = Arc::clone(&asked);
            inquiry.begin(|| async move {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let all: Vec<_> = (0..100).map(|_| begin().wait(now() + FRESH)).collect();
        for wait in all {
            wait.await.expect("an answer");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH).await;
        begin().wait(now() + FRESH).await.expect("an answer");
        assert_eq!(asked.load(Ordering::Relaxed), 2, "an old answer does not count");
    }
}
