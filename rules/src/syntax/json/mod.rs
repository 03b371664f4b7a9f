//! JSON files: RFC 8259, without comments and trailing commas, which are reported.

mod scalar;

use super::MAX_DEPTH;
use super::entries::Entries;
use super::file::File;
use super::tree::{Node, Value};
use crate::diagnostic::quoted;
use crate::source::Spanned;

/// Reads a document. See [`super::parse`].
pub(super) fn parse(file: &mut File<'_>) -> Option<Node> {
    let start = if file.text().starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut json = Json { file, at: start, depth: 0 };
    json.blanks()?;
    json.peek()?;
    let root = json.value()?;
    json.blanks()?;
    if json.peek().is_some() {
        return json.unexpected("the end of the file", "one file holds one value: remove what follows it");
    }
    Some(root)
}

/// A position in the file. `None` from its methods: there is no tree, which is reported.
struct Json<'a, 'f> {
    file: &'a mut File<'f>,
    at: usize,
    depth: usize,
}

impl Json<'_, '_> {
    /// Reads a value. It recurses as deep as the file is nested, which is bounded.
    fn value(&mut self) -> Option<Node> {
        let start = self.at;
        self.file.count(1, self.file.span(start..start + 1))?;
        let value = match self.peek() {
            Some('{') => self.nested(Self::map)?,
            Some('[') => self.nested(Self::list)?,
            Some('"') => Value::Scalar(self.text()?),
            _ => Value::Scalar(self.word()?),
        };
        Some(Node { value, span: self.file.span(start..self.at) })
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Value>) -> Option<Value> {
        self.depth += 1;
        self.file.check_depth(self.depth, self.file.span(self.at..self.at + 1))?;
        debug_assert!(self.depth <= MAX_DEPTH);
        let value = read(self)?;
        self.depth -= 1;
        Some(value)
    }

    fn list(&mut self) -> Option<Value> {
        let open = self.at;
        self.at += 1;
        let mut items = Vec::new();
        self.blanks()?;
        if self.take(']') {
            return Some(Value::List(items));
        }
        loop {
            items.push(self.value()?);
            self.blanks()?;
            if self.take(']') {
                return Some(Value::List(items));
            }
            self.comma(open, ']')?;
        }
    }

    fn map(&mut self) -> Option<Value> {
        let open = self.at;
        self.at += 1;
        let mut entries = Entries::default();
        self.blanks()?;
        if self.take('}') {
            return Some(Value::Map(entries.into_vec()));
        }
        loop {
            let key = self.key()?;
            self.blanks()?;
            if !self.take(':') {
                return self.unexpected("`:`", "write a `:` between the key and its value");
            }
            self.blanks()?;
            let value = self.value()?;
            entries.add(key, value, self.file);
            self.blanks()?;
            if self.take('}') {
                return Some(Value::Map(entries.into_vec()));
            }
            self.comma(open, '}')?;
        }
    }

    fn key(&mut self) -> Option<Spanned<Box<str>>> {
        let start = self.at;
        if self.peek() != Some('"') {
            let end = start + self.bare().len();
            let advice = match &self.file.text()[start..end] {
                "" => "write a key between double quotes".to_owned(),
                word => format!("quote it: {}", quoted(&format!("\"{word}\""))),
            };
            self.at = start;
            return self.unexpected("a key between double quotes", &advice);
        }
        let key = self.text()?;
        Some(Spanned { value: key.text, span: self.file.span(start..self.at) })
    }

    /// Reads the `,` in front of another item or entry.
    fn comma(&mut self, open: usize, close: char) -> Option<()> {
        let comma = self.at;
        if !self.take(',') {
            if self.peek().is_none() {
                let bracket = self.file.text()[open..].chars().next().unwrap_or(close);
                let span = self.file.span(open..open + 1);
                let advice = format!("close every `{bracket}` with `{close}`");
                self.file.error(span, format!("a `{bracket}` is not closed"), advice);
                return None;
            }
            return self.unexpected(&format!("`,` or `{close}`"), "separate items and entries by `,`");
        }
        self.blanks()?;
        if self.peek() == Some(close) {
            let span = self.file.span(comma..comma + 1);
            self.file.error(
                span,
                format!("`,` in front of `{close}`"),
                "remove it: JSON has no trailing commas",
            );
        }
        // The item that is missing after it is reported only once.
        if self.peek() == Some(close) { None } else { Some(()) }
    }

    /// Skips blanks, and reports comments.
    fn blanks(&mut self) -> Option<()> {
        let rest = &self.file.text()[self.at..];
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        self.at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") || trimmed.starts_with("/*") || trimmed.starts_with('#') {
            let line = trimmed.lines().next().unwrap_or_default();
            let span = self.file.span(self.at..self.at + line.len());
            self.file.error(span, "a comment", "remove it: JSON has no comments, YAML and TOML have");
            return None;
        }
        Some(())
    }

    fn peek(&self) -> Option<char> {
        self.file.text()[self.at..].chars().next()
    }

    fn take(&mut self, expected: char) -> bool {
        let found = self.peek() == Some(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    /// Reports that something else was expected.
    fn unexpected<T>(&mut self, expected: &str, advice: &str) -> Option<T> {
        let end = self.at + self.peek().map_or(0, char::len_utf8);
        let message = if end == self.at {
            format!("the file ends where {expected} is expected")
        } else {
            format!("expected {expected}")
        };
        self.file.error(self.file.span(self.at..end), message, advice);
        None
    }
}

#[cfg(test)]
mod tests;
