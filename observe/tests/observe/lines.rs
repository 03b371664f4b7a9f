//! A subscriber that collects log lines.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A log line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    /// The message and the fields, as `name=value`.
    pub(crate) text: String,
}

#[derive(Clone, Default)]
struct Collector {
    lines: Arc<Mutex<Vec<Line>>>,
}

/// Returns the lines that are written while `work` runs in this thread.
pub(crate) fn lines(work: impl FnOnce()) -> Vec<Line> {
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), work);
    collector.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let line = Line { level, target, text: text.0 };
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        unreachable!("Tollgate opens no spans")
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).expect("writing to a string succeeds");
    }
}
