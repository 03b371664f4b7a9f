//! The file that is being read: its text, places in it, and where errors are reported.

use std::ops::Range;

use super::{MAX_DEPTH, MAX_RULE_FILE, MAX_VALUES};
use crate::diagnostic::Reporter;
use crate::source::Span;

/// A file, with errors of all formats.
pub(super) struct File<'a> {
    source: u32,
    text: &'a str,
    reporter: &'a mut Reporter,
    /// Where lines start, once somebody asked for the number of a line.
    lines: Option<Vec<usize>>,
    /// The number of values so far.
    values: usize,
}

impl<'a> File<'a> {
    pub(super) fn new(source: u32, text: &'a str, reporter: &'a mut Reporter) -> Self {
        Self { source, text, reporter, lines: None, values: 0 }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the span of a range of bytes. A parser's range that is not within the text is cut.
    pub(super) fn span(&self, range: Range<usize>) -> Span {
        let boundary = |mut offset: usize| {
            while !self.text.is_char_boundary(offset) {
                offset -= 1;
            }
            offset
        };
        let end = boundary(range.end.min(self.text.len()));
        let start = boundary(range.start.min(end));
        let offset = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        Span { source: self.source, start: offset(start), end: offset(end) }
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>, advice: impl Into<String>) {
        self.reporter.error(span, message, advice);
    }

    /// Returns the number of the line, counted from 1, with this byte.
    pub(super) fn line(&mut self, offset: u32) -> usize {
        let text = self.text;
        let starts = self.lines.get_or_insert_with(|| {
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1).collect()
        });
        starts.partition_point(|start| *start <= offset as usize) + 1
    }

    /// Counts values. `None`, and an error, if there are too many.
    pub(super) fn count(&mut self, values: usize, span: Span) -> Option<()> {
        self.values = self.values.saturating_add(values);
        if self.values > MAX_VALUES {
            self.error(
                span,
                format!("more than {MAX_VALUES} values, with aliases expanded"),
                "split the rules into several files, and repeat less by aliases",
            );
            return None;
        }
        Some(())
    }

    /// Returns the number of values so far.
    pub(super) fn values(&self) -> usize {
        self.values
    }

    /// Checks how deep the lists and maps are nested.
    pub(super) fn check_depth(&mut self, depth: usize, span: Span) -> Option<()> {
        if depth > MAX_DEPTH {
            self.too_deep(span);
            return None;
        }
        Some(())
    }

    pub(super) fn too_deep(&mut self, span: Span) {
        self.error(
            span,
            format!("lists and maps are nested deeper than {MAX_DEPTH} levels"),
            "write this part with fewer levels; an unclosed `[` or `{` also looks like this",
        );
    }

    pub(super) fn too_large(&mut self) {
        let size = self.text.len();
        self.error(
            Span { source: self.source, start: 0, end: 0 },
            format!("the file has {size} bytes, the most is {MAX_RULE_FILE}"),
            "split the rules into several files",
        );
    }
}
