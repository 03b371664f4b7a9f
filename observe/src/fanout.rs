//! One observer that forwards to several.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Event, Observer};

/// Forwards every event to several observers, in the order in which they were added.
#[derive(Default)]
pub struct Fanout {
    observers: Vec<Arc<dyn Observer>>,
}

impl Fanout {
    /// Creates one without observers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an observer.
    #[must_use]
    pub fn and(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }
}

impl Observer for Fanout {
    fn observe(&self, event: Event<'_>) {
        for observer in &self.observers {
            observer.observe(event);
        }
    }
}

impl fmt::Debug for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fanout").field("observers", &self.observers.len()).finish()
    }
}
