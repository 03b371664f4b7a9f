//! Errors and warnings about rule files: what is wrong, where, and what would be right.

use std::fmt;
use std::sync::Arc;

use crate::source::{Source, Span};

mod excerpt;

/// Whether a rule file with this diagnostic can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It cannot: nothing of it is loaded.
    Error,
    /// It can, but it probably does not do what its author wants.
    Warning,
}

/// An error or a warning about a place in a rule file.
///
/// `Display` shows the place, the line of the source with the place marked, and the advice:
///
/// ```text
/// error: unknown field `limti`
///  --> shop.yaml:7:5
///   |
/// 7 |     limti: 50/s
///   |     ^^^^^ did you mean `limit`?
/// ```
///
/// The text of the source is shown without control characters, and long lines in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) advice: String,
    pub(crate) source: Source,
    pub(crate) span: Span,
}

/// Everything that is wrong with a set of rule files, in the order of files and places, with the warnings between.
///
/// `Display` shows the first 100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleErrors {
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// How many more there were.
    pub(crate) omitted: usize,
}

/// How many errors, and how many warnings, are kept. A file can have one in every byte.
const KEPT: usize = 1_000;

/// How many diagnostics are shown.
const SHOWN: usize = 100;

/// Collects what is found in the sources that are being read.
#[derive(Debug)]
pub(crate) struct Reporter {
    sources: Arc<[Source]>,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

impl Reporter {
    pub(crate) fn new(sources: Arc<[Source]>) -> Self {
        Self { sources, diagnostics: Vec::new(), errors: 0, warnings: 0 }
    }

    /// Reports an error. `message` says what is wrong, `advice` what would be right: "unknown field `limti`", "did you
    /// mean `limit`?".
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>, advice: impl Into<String>) {
        self.report(Severity::Error, span, message.into(), advice.into());
    }

    /// Reports a warning.
    pub(crate) fn warning(&mut self, span: Span, message: impl Into<String>, advice: impl Into<String>) {
        self.report(Severity::Warning, span, message.into(), advice.into());
    }

    fn report(&mut self, severity: Severity, span: Span, message: String, advice: String) {
        let count = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count > KEPT {
            return;
        }
        let source = self.sources[span.source as usize].clone();
        self.diagnostics.push(Diagnostic { severity, message, advice, source, span });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns how many errors there are so far.
    pub(crate) fn error_count(&self) -> usize {
        self.errors
    }

    /// Returns the warnings, or everything if there is an error.
    pub(crate) fn finish(mut self) -> Result<Vec<Diagnostic>, RuleErrors> {
        self.diagnostics.sort_by(|a, b| (a.span, &a.message).cmp(&(b.span, &b.message)));
        // What aliases repeat is wrong in one place.
        self.diagnostics.dedup();
        if self.has_errors() {
            let omitted = self.errors.saturating_sub(KEPT) + self.warnings.saturating_sub(KEPT);
            return Err(RuleErrors { diagnostics: self.diagnostics, omitted });
        }
        Ok(self.diagnostics)
    }
}

impl Diagnostic {
    /// Returns whether it is an error or a warning.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the name of the source.
    pub fn file(&self) -> &str {
        self.source.name()
    }

    /// Returns the number of the line, counted from 1.
    pub fn line(&self) -> usize {
        self.before().matches('\n').count() + 1
    }

    /// Returns the column, in characters, counted from 1.
    pub fn column(&self) -> usize {
        let before = self.before();
        before[before.rfind('\n').map_or(0, |at| at + 1)..].chars().count() + 1
    }

    /// Returns what is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns what would be right.
    pub fn advice(&self) -> &str {
        &self.advice
    }

    /// Returns the text in front of the place.
    fn before(&self) -> &str {
        self.source.text().get(..self.span.start as usize).unwrap_or_default()
    }
}

impl RuleErrors {
    /// Returns the errors, and the warnings between them. The first 1,000 of each are kept.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().take(SHOWN).enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            diagnostic.fmt(f)?;
        }
        match self.diagnostics.len().saturating_sub(SHOWN) + self.omitted {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

impl std::error::Error for RuleErrors {}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        excerpt::render(self, f)
    }
}

/// Returns text between backquotes, cut if it is long.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

#[cfg(test)]
mod tests;
