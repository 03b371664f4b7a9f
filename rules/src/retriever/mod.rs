//! Keeps the rules of a process current: polls their documents, and swaps the rules when they have changed.
//!
//! # Layout
//!
//! - `builder`: [`RetrieverBuilder`]; `error`: [`RetrieveError`]; `status`: [`RetrieverStatus`], [`RetrieverStats`].
//! - `poll`: one poll after the other; `collect`: which documents are read, and how.
//! - `last_good`: the file of the last good rules.
//! - [`PlainFiles`] (`plain_files`): a file or directory that an operator edits, as a source of rules.

mod builder;
mod collect;
mod error;
mod last_good;
mod plain_files;
mod poll;
mod status;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::task::JoinHandle;
use tollgate_core::documents::DocumentStore;

pub use builder::RetrieverBuilder;
pub use error::RetrieveError;
pub use plain_files::PlainFiles;
pub use status::{RetrieverStats, RetrieverStatus, RulesOrigin};

use crate::diagnostic::RuleErrors;
use crate::rule_set::RuleSet;
use crate::source::Source;
use poll::Poll;
use status::Shared;

/// Keeps rules current while their documents change.
///
/// - **Polling**: once per [interval](RetrieverBuilder::interval), and whenever [`refresh`](Self::refresh) is called.
///   Documents that have not changed are not sent again.
/// - **Atomic**: all documents are read as they were at one moment and compiled together, and the rules are swapped as
///   a whole. A reader sees the old rules or the new ones; [`load`](Self::load) takes no lock.
/// - **The last good rules stay in use** while the source does not answer, and when the newest rules are broken: wrong,
///   missing, too large. [`status`](Self::status) says so, and so do the events
///   [`RulesRejected`](tollgate_core::Event::RulesRejected) and [`RulesPolled`](tollgate_core::Event::RulesPolled).
///   Several documents are one set of rules: one that is broken also keeps back the changes of the others.
/// - **Nothing is not a rule set**: if all documents disappear, the last good rules stay in use, too. To have no rules,
///   store a document without rules.
///
/// The polls end when the retriever is dropped.
pub struct Retriever<T = RuleSet> {
    rules: Arc<ArcSwap<T>>,
    shared: Arc<Shared>,
    poller: Arc<dyn Poll>,
    task: JoinHandle<()>,
}

impl Retriever {
    /// Returns a builder for a retriever of a rule file, or of all rule files in a directory ([`PlainFiles`]).
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate::rules::Retriever;
    ///
    /// let rules = Retriever::files("rules.yaml").start().await?; // looks for changes once per second
    /// println!("{} domains", rules.rules().domains().count());
    /// # Ok(())
    /// # }
    /// ```
    pub fn files(path: impl Into<PathBuf>) -> RetrieverBuilder<RuleSet> {
        let path = path.into();
        let name = path.display().to_string();
        Self::builder(Arc::new(PlainFiles::new(path))).prefix("").name(name)
    }

    /// Returns a builder for a retriever of rule sets. Two documents of one domain are an error;
    /// [`with_compiler`](Self::with_compiler) and [`RuleSet::from_merged_sources`] merge them.
    pub fn builder(store: Arc<dyn DocumentStore>) -> RetrieverBuilder<RuleSet> {
        Self::with_compiler(store, RuleSet::from_sources)
    }
}

impl<T: Send + Sync + 'static> Retriever<T> {
    /// Returns a builder for a retriever of rules that `compile` makes of the documents, sorted by name. The name of a
    /// source is that of its document.
    pub fn with_compiler(
        store: Arc<dyn DocumentStore>,
        compile: impl Fn(Vec<Source>) -> Result<T, RuleErrors> + Send + Sync + 'static,
    ) -> RetrieverBuilder<T> {
        RetrieverBuilder::new(store, Arc::new(compile))
    }

    /// Returns the rules in use, to keep.
    pub fn rules(&self) -> Arc<T> {
        self.rules.load_full()
    }

    /// Returns the rules in use, for the moment: on the path of a request.
    #[inline]
    pub fn load(&self) -> RulesGuard<T> {
        RulesGuard(self.rules.load())
    }

    /// Polls now, and returns whether other rules are in use since. An error if the newest rules are not in use; those
    /// before them are.
    pub async fn refresh(&self) -> Result<bool, RetrieveError> {
        self.poller.poll_now().await
    }

    /// Returns which rules are in use, and how their source is.
    pub fn status(&self) -> RetrieverStatus {
        self.shared.status(self.poller.now())
    }

    /// Returns statistics.
    pub fn stats(&self) -> RetrieverStats {
        self.shared.stats()
    }
}

impl<T> Drop for Retriever<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T> fmt::Debug for Retriever<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retriever").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// The rules in use, for the moment. Keep it for one request only: old rules stay in memory as long as it does.
pub struct RulesGuard<T>(Guard<Arc<T>>);

impl<T> Deref for RulesGuard<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for RulesGuard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
