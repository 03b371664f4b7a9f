//! How a retriever is configured and started.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tollgate_core::documents::{DocumentStore, check_document};
use tollgate_core::{ConfigError, Observer, SystemClock, Timer};

use super::Retriever;
use super::collect::{Documents, Selection};
use super::error::RetrieveError;
use super::last_good;
use super::poll::{Compile, Origin, Poller};
use super::status::{InUse, RulesOrigin, Shared};

/// Builds a [`Retriever`]; [`start`](Self::start) loads the rules and starts it.
#[must_use = "a builder does nothing until `start` is called"]
pub struct RetrieverBuilder<T, C = SystemClock> {
    origin: Origin<T, C>,
    named: Option<String>,
    interval: Duration,
    jitter: f64,
    observer: Option<Arc<dyn Observer>>,
    last_good: Option<PathBuf>,
    initial: Option<T>,
}

impl<T: Send + Sync + 'static> RetrieverBuilder<T> {
    pub(super) fn new(store: Arc<dyn DocumentStore>, compile: Compile<T>) -> Self {
        let selection = Selection::Prefix("rules/".to_owned());
        let (name, clock, deadline) = (String::new(), SystemClock::new(), Duration::from_secs(10));
        let origin = Origin { store, selection, name, compile, clock, deadline };
        let (interval, jitter) = (Duration::from_secs(1), 0.1);
        Self { origin, named: None, interval, jitter, observer: None, last_good: None, initial: None }
    }
}

impl<T: Send + Sync + 'static, C: Timer + 'static> RetrieverBuilder<T, C> {
    /// Sets that the rules are one document, of this name.
    pub fn document(mut self, name: impl Into<String>) -> Self {
        self.origin.selection = Selection::Document(name.into());
        self
    }

    /// Sets that the rules are all documents whose names start with `prefix`: each is one rule file. Default: `rules/`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.origin.selection = Selection::Prefix(prefix.into());
        self
    }

    /// Sets the name of the source in events. Default: the name of the document, or the prefix.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.named = Some(name.into());
        self
    }

    /// Sets how often the source is polled. Default: 1 s.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets by which fraction intervals differ at random, so that processes that start together do not poll in step.
    /// Default: 0.1, which is ± 10 %.
    pub fn jitter(mut self, fraction: f64) -> Self {
        self.jitter = fraction;
        self
    }

    /// Sets how long a poll may take. Default: 10 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.origin.deadline = deadline;
        self
    }

    /// Sets the clock. Default: the system clock.
    pub fn clock<D: Timer + 'static>(self, clock: D) -> RetrieverBuilder<T, D> {
        let Self { origin, named, interval, jitter, observer, last_good, initial } = self;
        let Origin { store, selection, name, compile, clock: _, deadline } = origin;
        let origin = Origin { store, selection, name, compile, clock, deadline };
        RetrieverBuilder { origin, named, interval, jitter, observer, last_good, initial }
    }

    /// Sets what receives events. Default: nothing.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Keeps the last good rules in a file, and starts with them while the source does not answer or its rules are
    /// broken. Default: none.
    pub fn last_good_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.last_good = Some(path.into());
        self
    }

    /// Starts with these rules, such as empty ones, if there are no others: while the source does not answer or its
    /// rules are broken, and there is no file of the last good ones. Default: none, and the start fails.
    pub fn or_start_with(mut self, rules: T) -> Self {
        self.initial = Some(rules);
        self
    }

    /// Loads the rules, and polls from then on, on the tokio runtime of the caller.
    ///
    /// An error if the rules cannot be loaded, unless there are others to start with.
    pub async fn start(self) -> Result<Retriever<T>, RetrieveError> {
        let runtime = self.check().map_err(RetrieveError::Config)?;
        let Self { mut origin, named, interval, jitter, observer, last_good, initial } = self;
        origin.name = named.unwrap_or_else(|| match &origin.selection {
            Selection::Document(name) | Selection::Prefix(name) => name.clone(),
        });
        let start = origin.clock.now();
        let first = match origin.read(&Documents::default()).await {
            Ok(documents) => match origin.compile(&documents).await {
                Ok(rules) => Ok((documents, rules)),
                Err(error) => Err((documents, error)),
            },
            Err(error) => Err((Documents::default(), error)),
        };
        let (rules, in_use, first) = match first {
            Ok((documents, rules)) => {
                (rules, InUse::new(RulesOrigin::Source, &documents, start), Ok(documents))
            }
            Err((documents, error)) => {
                let saved = match &last_good {
                    Some(path) => load_saved(&origin, path.clone()).await,
                    None => None,
                };
                let (rules, saved, from) = match (saved, initial) {
                    (Some((saved, rules)), _) => (rules, saved, RulesOrigin::LastGoodFile),
                    (None, Some(initial)) => (Arc::new(initial), Documents::default(), RulesOrigin::Initial),
                    (None, None) => return Err(error),
                };
                (rules, InUse::new(from, &saved, start), Err((documents, error)))
            }
        };
        let rules = Arc::new(ArcSwap::new(rules));
        let shared = Arc::new(Shared::new(in_use, start));
        let poller = Poller::new(origin, Arc::clone(&rules), Arc::clone(&shared), observer, last_good);
        let poller = Arc::new(poller);
        poller.record_start(first).await;
        let polls = Arc::clone(&poller);
        let task = runtime.spawn(async move { polls.poll_every(interval, jitter).await });
        Ok(Retriever { rules, shared, poller, task })
    }

    fn check(&self) -> Result<Handle, ConfigError> {
        let invalid =
            |setting, problem: String, advice| Err(ConfigError::new("Retriever", setting, problem, advice));
        if let Selection::Document(name) = &self.origin.selection
            && let Err(error) = check_document(name, "")
        {
            return invalid("document", "is not the name of a document".to_owned(), error.to_string());
        }
        for (setting, span) in [("interval", self.interval), ("deadline", self.origin.deadline)] {
            if span.is_zero() {
                return invalid(setting, "is 0ns".to_owned(), "use more than zero".to_owned());
            }
        }
        if !(0.0..1.0).contains(&self.jitter) {
            let advice = "use at least 0 and less than 1".to_owned();
            return invalid("jitter", format!("is {}", self.jitter), advice);
        }
        Handle::try_current().or_else(|_| {
            let advice = "await it on a tokio runtime".to_owned();
            invalid("start", "is called outside of a runtime".to_owned(), advice)
        })
    }
}

/// Loads the last good rules. `None` if there are none, or if they are broken by now.
async fn load_saved<T: Send + 'static, C: Timer>(
    origin: &Origin<T, C>,
    path: PathBuf,
) -> Option<(Documents, Arc<T>)> {
    let saved = tokio::task::spawn_blocking(move || last_good::load(&path)).await.ok()?.ok()?;
    let rules = origin.compile(&saved).await.ok()?;
    Some((saved, rules))
}

impl<T, C> fmt::Debug for RetrieverBuilder<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetrieverBuilder")
            .field("selection", &self.origin.selection)
            .field("interval", &self.interval)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}
