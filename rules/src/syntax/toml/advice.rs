//! What is wrong with the syntax of a TOML file, in plain words.

use crate::diagnostic::quoted;
use std::collections::HashMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use crate::source::Span;
use crate::syntax::file::File;

/// No more errors than this are reported.
const REPORTED: usize = 1_000;

/// Reports errors. `recovered` is what the parser understood.
pub(super) fn report(errors: &[Error], recovered: &DeTable<'_>, file: &mut File<'_>) {
    let end = file.text().len();
    if let Some(deep) = errors.iter().find(|error| error.message().contains("recurs")) {
        // All others follow from it.
        let span = file.span(deep.span().unwrap_or(end..end));
        file.too_deep(span);
        return;
    }
    let mut keys = Keys::default();
    for error in errors.iter().take(REPORTED) {
        let span = file.span(error.span().unwrap_or(end..end));
        let marked = &file.text()[span.start as usize..span.end as usize];
        let (message, advice) = if error.message() == "duplicate key" {
            let first = keys.first(recovered, marked, span, file);
            let advice = match first {
                Some(line) => format!("it is already in line {line}: remove one of the two"),
                None => "it is already above: remove one of the two".to_owned(),
            };
            (format!("duplicate key {}", quoted(marked)), advice)
        } else {
            words(error.message(), marked)
        };
        file.error(span, message, advice);
    }
}

/// Returns a message and advice. The parser's own message stays where it says enough.
fn words(message: &str, marked: &str) -> (String, String) {
    let has = |part: &str| message.contains(part);
    let (message, advice) = if has("string values must be quoted") && marked.is_empty() {
        ("a value is missing", "write `key = value`; text stands between quotes".to_owned())
    } else if has("string values must be quoted") || has("invalid boolean") {
        ("text without quotes", format!("quote it: {}", quoted(&format!("\"{marked}\""))))
    } else if has("key with no value") {
        ("a key without a value", "write `key = value`".to_owned())
    } else if has("unquoted key") {
        let advice =
            "write `key = value`, and quote keys with other characters than letters, digits, `-` and `_`";
        ("expected a key", advice.to_owned())
    } else if has("unclosed") {
        (message, "close every `[` with `]` and every `{` with `}`".to_owned())
    } else if has("missing comma") {
        (message, "separate items by `,`, and close every `[` with `]`".to_owned())
    } else if has("invalid literal string") || has("invalid basic string") || has("invalid multi-line") {
        ("a quote is not closed, or the text has a character that must be escaped", TEXT.to_owned())
    } else if has("escape") {
        (
            "unknown escape after `\\`",
            "write `\\\\` for a backslash, or use `'`, which has no escapes".to_owned(),
        )
    } else {
        (message, "see the syntax of TOML 1.0".to_owned())
    };
    (message.to_owned(), advice)
}

const TEXT: &str = "end the text with the quote that it starts with, and write control characters as escapes";

/// Where keys are, for the line of the first of two.
#[derive(Default)]
struct Keys {
    /// By name, in the order of the file: where a key starts, and where the inline table around it ends.
    places: Option<HashMap<String, Vec<(usize, usize)>>>,
}

impl Keys {
    /// Returns the line of the key above `span` that it most probably repeats. The parser does not say which it is.
    fn first(
        &mut self,
        recovered: &DeTable<'_>,
        name: &str,
        span: Span,
        file: &mut File<'_>,
    ) -> Option<usize> {
        /// More keys of the same name are not searched.
        const SEARCHED: usize = 100;
        let text = file.text();
        let at = span.start as usize;
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        if let Some(header) = header(&text[line_start..]) {
            // The parser forgets the first table. Its line is compared, not its meaning.
            return text[..line_start]
                .lines()
                .position(|line| self::header(line) == Some(header))
                .map(|line| line + 1);
        }
        let places = self.places.get_or_insert_with(|| {
            let mut places = HashMap::new();
            collect(recovered, usize::MAX, &mut places);
            for places in places.values_mut() {
                places.sort_unstable();
            }
            places
        });
        let name = name.trim_matches(['"', '\'']);
        let above = places.get(name)?.iter().rev().filter(|(start, _)| *start < at).take(SEARCHED);
        let (first, _) = above.into_iter().find(|(_, end)| at < *end)?;
        Some(file.line(u32::try_from(*first).ok()?))
    }
}

/// Returns the name of the table that a line starts: `a.b` in `[a.b]` and `[[a.b]]`.
fn header(line: &str) -> Option<&str> {
    let inner = line.trim_start().strip_prefix('[')?;
    let inner = inner.strip_prefix('[').unwrap_or(inner);
    Some(inner.lines().next()?.split_once(']')?.0.trim())
}

/// Collects keys. As deep as the parser's own bound.
fn collect(table: &DeTable<'_>, end: usize, places: &mut HashMap<String, Vec<(usize, usize)>>) {
    for (key, value) in table {
        places.entry(key.get_ref().to_string()).or_default().push((key.span().start, end));
        collect_value(value, end, places);
    }
}

fn collect_value(
    value: &Spanned<DeValue<'_>>,
    end: usize,
    places: &mut HashMap<String, Vec<(usize, usize)>>,
) {
    match value.get_ref() {
        DeValue::Table(table) => {
            let inline = table.keys().next().is_some_and(|key| key.span().start < value.span().end);
            collect(table, if inline { value.span().end.min(end) } else { end }, places);
        }
        DeValue::Array(items) => items.iter().for_each(|item| collect_value(item, end, places)),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {}
    }
}
