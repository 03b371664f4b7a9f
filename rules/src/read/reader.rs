//! What all parts of the reader share: where errors go, places in words, and bounds.

use crate::diagnostic::Reporter;
use crate::source::{Format, Source, Span};
use crate::syntax::tree::{Node, ScalarKind, Value};

/// The most rules and descriptors of one rule set.
pub(crate) const MAX_RULES: usize = 200_000;

/// After this many errors, nothing more is read.
pub(crate) const MAX_ERRORS: usize = 1_000;

/// The longest name of a rule and of a limit within a rule, in bytes.
pub(super) const MAX_NAME: usize = 64;

/// Reads trees, and reports what is wrong with them.
pub(super) struct Reader<'r> {
    sources: &'r [Source],
    reporter: &'r mut Reporter,
    /// Where the lines of each source start, once somebody asked for the number of a line.
    lines: Vec<Option<Vec<usize>>>,
    errors: usize,
    rules: usize,
}

impl<'r> Reader<'r> {
    pub(super) fn new(sources: &'r [Source], reporter: &'r mut Reporter) -> Self {
        Self { sources, reporter, lines: vec![None; sources.len()], errors: 0, rules: 0 }
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>, advice: impl Into<String>) {
        self.errors += 1;
        if self.errors < MAX_ERRORS {
            self.reporter.error(span, message, advice);
        } else if self.errors == MAX_ERRORS {
            self.reporter.error(
                span,
                format!("more than {MAX_ERRORS} errors"),
                "correct those above; the rest was not checked",
            );
        }
    }

    pub(super) fn warning(&mut self, span: Span, message: impl Into<String>, advice: impl Into<String>) {
        self.reporter.warning(span, message, advice);
    }

    /// Returns whether nothing more is read, after so many errors.
    pub(super) fn has_enough(&self) -> bool {
        self.errors >= MAX_ERRORS
    }

    /// Counts a rule or descriptor. Returns whether reading goes on.
    pub(super) fn goes_on(&mut self, span: Span) -> bool {
        self.rules += 1;
        if self.rules == MAX_RULES + 1 {
            self.error(
                span,
                format!("more than {MAX_RULES} rules and descriptors"),
                "use fewer: a rule that counts `per` an attribute, or a descriptor without a value, stands for many",
            );
        }
        self.rules <= MAX_RULES && !self.has_enough()
    }

    /// Returns the format of the file that a place is in.
    pub(super) fn format(&self, place: Span) -> Format {
        self.sources[place.source as usize].format()
    }

    /// Returns a place in words, as seen from another one: "line 3", or "line 3 of other.yaml".
    pub(super) fn place(&mut self, of: Span, seen_from: Span) -> String {
        let source = of.source as usize;
        let text = self.sources[source].text();
        let starts = self.lines[source].get_or_insert_with(|| {
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1).collect()
        });
        let line = starts.partition_point(|start| *start <= of.start as usize) + 1;
        if of.source == seen_from.source {
            format!("line {line}")
        } else {
            format!("line {line} of {}", self.sources[source].name())
        }
    }
}

/// Returns what a value is, in words: "a list".
pub(super) fn kind_of(node: &Node) -> &'static str {
    match &node.value {
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
        Value::Scalar(scalar) => match scalar.kind {
            ScalarKind::Null => "empty",
            ScalarKind::Bool => "true or false",
            ScalarKind::Integer | ScalarKind::Float => "a number",
            ScalarKind::Text => "text",
        },
    }
}
