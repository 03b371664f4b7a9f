//! The texts that rules are read from, and places in them.

use std::sync::Arc;

/// A rule file: its name, which selects the format, and its text.
///
/// Names that end in `.toml` are TOML, those that end in `.json` are JSON, all others YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub(crate) name: Arc<str>,
    pub(crate) text: Arc<str>,
}

impl Source {
    /// Creates a source. The name appears in errors; it need not be the name of a file.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format that the name selects.
    pub(crate) fn format(&self) -> Format {
        match self.name.rsplit_once('.') {
            Some((_, ending)) if ending.eq_ignore_ascii_case("toml") => Format::Toml,
            Some((_, ending)) if ending.eq_ignore_ascii_case("json") => Format::Json,
            Some(_) | None => Format::Yaml,
        }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The language of a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Yaml,
    Toml,
    Json,
}

/// A range of bytes in one of several sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Span {
    /// The index of the source.
    pub(crate) source: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A value and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}
