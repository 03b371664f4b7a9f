//! Polling: reads the documents, compiles them if they have changed, and swaps the rules.

use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{self, Arc, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::Mutex;
use tollgate_core::documents::DocumentStore;
use tollgate_core::{ErrorKind, Event, Observer, StoreError, Time, Timer};

use super::collect::{Documents, Selection};
use super::error::RetrieveError;
use super::last_good;
use super::status::{InUse, RulesOrigin, Shared};
use crate::deadline::within;
use crate::diagnostic::RuleErrors;
use crate::source::Source;

/// Makes rules of their sources.
pub(super) type Compile<T> = Arc<dyn Fn(Vec<Source>) -> Result<T, RuleErrors> + Send + Sync>;

/// Where rules come from, and what is made of them.
pub(super) struct Origin<T, C> {
    pub(super) store: Arc<dyn DocumentStore>,
    pub(super) selection: Selection,
    pub(super) name: String,
    pub(super) compile: Compile<T>,
    pub(super) clock: C,
    pub(super) deadline: Duration,
}

impl<T: Send + 'static, C: Timer> Origin<T, C> {
    /// Reads the documents that are not known.
    pub(super) async fn read(&self, known: &Documents) -> Result<Documents, RetrieveError> {
        let read = Documents::read(&*self.store, &self.selection, known);
        let Some(read) = within(&self.clock, self.deadline, read).await else {
            let why = format!("no answer within {:?}", self.deadline);
            return Err(RetrieveError::Unavailable(StoreError::new(ErrorKind::Timeout, why)));
        };
        Ok(read?)
    }

    /// Compiles documents, on a thread for blocking work: a large set takes a fraction of a second.
    pub(super) async fn compile(&self, documents: &Documents) -> Result<Arc<T>, RetrieveError> {
        let (compile, sources) = (Arc::clone(&self.compile), documents.sources());
        match tokio::task::spawn_blocking(move || compile(sources)).await {
            Ok(Ok(rules)) => Ok(Arc::new(rules)),
            Ok(Err(errors)) => Err(RetrieveError::Rules(errors)),
            Err(_) => Err(RetrieveError::Unusable(
                "the rules made the compiler panic, which is a bug; undo the last change".to_owned(),
            )),
        }
    }
}

/// What the last poll found, which the next one is compared with.
#[derive(Debug, Default)]
struct Seen {
    documents: Documents,
    /// Why these documents are not in use. `None` if they are.
    rejected: Option<RetrieveError>,
    /// Why documents newer than these could not be read, if that was so.
    unreadable: Option<String>,
}

/// Polls a source and swaps the rules.
pub(super) struct Poller<T, C> {
    origin: Origin<T, C>,
    rules: Arc<ArcSwap<T>>,
    shared: Arc<Shared>,
    observer: Option<Arc<dyn Observer>>,
    last_good: Option<PathBuf>,
    /// Which of the rules that came into use are in the file of the last good ones. Held while it is written.
    saved: Arc<sync::Mutex<u64>>,
    /// Held during a poll: they do not overlap.
    seen: Mutex<Seen>,
}

impl<T: Send + Sync + 'static, C: Timer> Poller<T, C> {
    pub(super) fn new(
        origin: Origin<T, C>,
        rules: Arc<ArcSwap<T>>,
        shared: Arc<Shared>,
        observer: Option<Arc<dyn Observer>>,
        last_good: Option<PathBuf>,
    ) -> Self {
        Self { origin, rules, shared, observer, last_good, saved: Arc::default(), seen: Mutex::default() }
    }

    /// Polls every `interval`, for ever. `jitter` is the fraction by which intervals differ.
    pub(super) async fn poll_every(&self, interval: Duration, jitter: f64) {
        loop {
            let factor = 1.0 + jitter * (2.0 * fastrand::f64() - 1.0);
            self.origin.clock.sleep(interval.mul_f64(factor)).await;
            // An observer or a store that panics must not end the polls: rules would grow old unnoticed.
            if AssertUnwindSafe(self.poll()).catch_unwind().await.is_err() {
                self.shared.panicked();
            }
        }
    }

    /// Records the first answer of the source, which was read to start with.
    pub(super) async fn record_start(&self, first: Result<Documents, (Documents, RetrieveError)>) {
        let mut seen = self.seen.lock().await;
        match first {
            Ok(documents) => {
                self.answered();
                self.used(&mut seen, documents, None).await;
            }
            Err((documents, error)) => {
                if !matches!(error, RetrieveError::Unavailable(_)) {
                    self.answered();
                }
                let _ = self.failed(&mut seen, Some(documents), error);
            }
        }
    }

    async fn poll(&self) -> Result<bool, RetrieveError> {
        let mut seen = self.seen.lock().await;
        let documents = match self.origin.read(&seen.documents).await {
            Ok(documents) => documents,
            Err(error) => {
                if !matches!(error, RetrieveError::Unavailable(_)) {
                    self.answered();
                }
                return Err(self.failed(&mut seen, None, error));
            }
        };
        self.answered();
        if documents == seen.documents {
            return self.unchanged(&mut seen);
        }
        match self.origin.compile(&documents).await {
            Ok(rules) => {
                self.used(&mut seen, documents, Some(rules)).await;
                Ok(true)
            }
            Err(error) => Err(self.failed(&mut seen, Some(documents), error)),
        }
    }

    fn answered(&self) {
        self.shared.answered(self.now());
        let (source, stale_for) = (&*self.origin.name, Duration::ZERO);
        self.observe(Event::RulesPolled { source, stale_for, error: None });
    }

    /// Documents that were seen before are in use or rejected, as they were then.
    fn unchanged(&self, seen: &mut Seen) -> Result<bool, RetrieveError> {
        let was_unreadable = seen.unreadable.take().is_some();
        if let Some(error) = &seen.rejected {
            self.shared.rejected(error.clone(), false);
            return Err(error.clone());
        }
        self.shared.in_use(None);
        if was_unreadable {
            self.loaded(&seen.documents);
        }
        Ok(false)
    }

    /// Makes rules the ones in use. `None`: they are already.
    async fn used(&self, seen: &mut Seen, documents: Documents, rules: Option<Arc<T>>) {
        // Without an await in between, so that a poll that is cancelled has done all of it or nothing.
        if let Some(rules) = rules {
            self.rules.store(rules);
        }
        self.shared.in_use(Some(InUse::new(RulesOrigin::Source, &documents, self.now())));
        *seen = Seen { documents: documents.clone(), ..Seen::default() };
        self.loaded(&documents);
        if let Some(path) = self.last_good.clone() {
            let (newest, number) = (Arc::clone(&self.saved), self.shared.stats().loads);
            let saved = tokio::task::spawn_blocking(move || {
                // A write outlives a poll that is cancelled: it must not come after that of a later poll.
                let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
                if *newest < number {
                    let failed = |error| format!("{}: {error}", path.display());
                    last_good::save(&path, &documents).map_err(failed)?;
                    *newest = number;
                }
                Ok(())
            });
            let saved = saved.await.unwrap_or_else(|_| Err("writing the file panicked".to_owned()));
            self.shared.saved(saved.err());
        }
    }

    /// Records why documents are not used, or could not be read (`None`), and returns it.
    fn failed(&self, seen: &mut Seen, documents: Option<Documents>, error: RetrieveError) -> RetrieveError {
        let source = &*self.origin.name;
        if let RetrieveError::Unavailable(why) = &error {
            let stale_for = self.shared.unavailable(self.now(), error.clone());
            self.observe(Event::RulesPolled { source, stale_for, error: Some(why) });
            return error;
        }
        let problem = error.to_string();
        let is_new = match documents {
            Some(documents) => {
                *seen = Seen { documents, rejected: Some(error.clone()), unreadable: None };
                true
            }
            None => seen.unreadable.replace(problem.clone()).as_ref() != Some(&problem),
        };
        self.shared.rejected(error.clone(), is_new);
        if is_new {
            self.observe(Event::RulesRejected { source, problem: &problem });
        }
        error
    }

    fn loaded(&self, documents: &Documents) {
        let (source, digest, documents) = (&*self.origin.name, documents.digest(), documents.len());
        self.observe(Event::RulesLoaded { source, digest, documents });
    }

    fn observe(&self, event: Event<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(event);
        }
    }

    fn now(&self) -> Time {
        self.origin.clock.now()
    }
}

/// A poller whose clock is not part of its type.
#[async_trait]
pub(super) trait Poll: Send + Sync {
    /// Polls now. Whether other rules are in use since.
    async fn poll_now(&self) -> Result<bool, RetrieveError>;

    fn now(&self) -> Time;
}

#[async_trait]
impl<T: Send + Sync + 'static, C: Timer> Poll for Poller<T, C> {
    async fn poll_now(&self) -> Result<bool, RetrieveError> {
        self.poll().await
    }

    fn now(&self) -> Time {
        Poller::now(self)
    }
}
