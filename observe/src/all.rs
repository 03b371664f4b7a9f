//! Several observers in the place of one.

use std::fmt;
use std::sync::Arc;

use tollgate_core::{Event, Observer};

/// Tells several observers, one after the other.
#[derive(Default)]
pub struct All {
    observers: Vec<Arc<dyn Observer>>,
}

impl All {
    /// Tells nobody yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells `observer` as well, after those before it.
    #[must_use]
    pub fn and(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }
}

impl Observer for All {
    fn observe(&self, event: Event<'_>) {
        for observer in &self.observers {
            observer.observe(event);
        }
    }
}

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").field("observers", &self.observers.len()).finish()
    }
}
