//! Rules that change, break and come back.
//!
//! - `polling`: what is loaded when, and what is reported
//! - `starting`: at startup, with and without a source
//! - `under_load`: many readers while rules are swapped
//! - `files`: files and directories that an operator edits

mod files;
mod polling;
mod starting;
mod under_load;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::{Event, ManualClock};

use super::*;
use crate::diagnostic::Reporter;
use crate::source::Span;
use crate::unreliable::Unreliable;

/// Rules for these tests: the texts of the documents by name.
type Texts = BTreeMap<String, String>;

/// Compiles texts; those with the word `broken` are wrong.
pub(super) fn compile(sources: &[Source]) -> Result<Texts, RuleErrors> {
    let mut reporter = Reporter::new(sources.into());
    for (index, source) in sources.iter().enumerate() {
        if source.text().contains("broken") {
            let source = u32::try_from(index).expect("few");
            reporter.error(Span { source, start: 0, end: 1 }, "this is broken", "repair it");
        }
    }
    reporter.finish()?;
    let text = |source: &Source| (source.name().to_owned(), source.text().to_owned());
    Ok(sources.iter().map(text).collect())
}

/// Returns the texts that are expected of documents.
pub(super) fn texts<const LEN: usize>(documents: [(&str, &str); LEN]) -> Texts {
    documents.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

/// Records events as short texts.
#[derive(Clone, Default)]
pub(super) struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    pub(super) fn observer(&self) -> Arc<dyn tollgate_core::Observer> {
        let events = self.clone();
        Arc::new(move |event: Event<'_>| {
            let text = match event {
                Event::RulesLoaded { source, documents, .. } => format!("{source}: loaded {documents}"),
                Event::RulesRejected { source, problem } => format!("{source}: rejected: {problem}"),
                Event::RulesPolled { error: None, .. } => return,
                Event::RulesPolled { source, stale_for, error: Some(error) } => {
                    format!("{source}: stale for {stale_for:?}: {error}")
                }
                other => panic!("{other:?}"),
            };
            events.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        })
    }

    /// Returns the events since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A retriever, its store and its clock.
pub(super) struct Bench {
    pub(super) store: Unreliable,
    pub(super) clock: ManualClock,
    pub(super) events: Events,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self { store: Unreliable::new(), clock: ManualClock::default(), events: Events::default() }
    }

    pub(super) fn builder(&self) -> RetrieverBuilder<Texts, ManualClock> {
        Retriever::with_compiler(self.store.shared(), |sources| compile(&sources))
            .jitter(0.0)
            .clock(self.clock.clone())
            .observer(self.events.observer())
    }

    /// Starts a retriever of a document with the text `one`.
    pub(super) async fn start(&self) -> Retriever<Texts> {
        self.store.write("rules/shop", "one").await;
        let retriever = self.builder().start().await.expect("valid");
        assert_eq!(self.events.take(), ["rules/: loaded 1"]);
        retriever
    }
}

/// Lets other tasks run until something is so.
pub(super) async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}
