//! TOML files.

mod advice;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::entries::Entries;
use super::file::File;
use super::tree::{Entry, Node, Scalar, ScalarKind, Value};
use crate::source::Spanned as Placed;

/// Files up to this size are read to the end after an error, to find all others.
const RECOVERED: usize = 1024 * 1024;

/// Reads a document. See [`super::parse`].
pub(super) fn parse(file: &mut File<'_>) -> Option<Node> {
    let text = file.text();
    let table = match DeTable::parse(text) {
        Ok(table) => table.into_inner(),
        // What can be recovered lacks entries, and errors about that would be wrong.
        Err(_) if text.len() <= RECOVERED => {
            let (table, errors) = DeTable::parse_recoverable(text);
            advice::report(&errors, table.get_ref(), file);
            return None;
        }
        Err(error) => {
            advice::report(&[error], &DeTable::new(), file);
            return None;
        }
    };
    let span = file.span(0..text.len());
    let entries = entries(table, 1, file)?;
    if entries.is_empty() {
        return None;
    }
    Some(Node { value: Value::Map(entries), span })
}

fn entries(table: DeTable<'_>, depth: usize, file: &mut File<'_>) -> Option<Vec<Entry>> {
    let mut entries = Entries::default();
    for (key, value) in table {
        let span = file.span(key.span());
        let node = node(value, depth, file)?;
        entries.add(Placed { value: key.into_inner().into(), span }, node, file);
    }
    Some(entries.into_vec())
}

/// Converts a value. It recurses, but not deep: the parser has a bound, and this has one.
fn node(value: Spanned<DeValue<'_>>, depth: usize, file: &mut File<'_>) -> Option<Node> {
    let span = file.span(value.span());
    file.count(1, span)?;
    let written = file.text()[span.start as usize..span.end as usize].trim();
    let scalar = |kind, text: &str| Value::Scalar(Scalar { text: text.into(), kind });
    let value = match value.into_inner() {
        DeValue::String(text) => scalar(ScalarKind::Text, &text),
        DeValue::Integer(_) => scalar(ScalarKind::Integer, written),
        DeValue::Float(_) => scalar(ScalarKind::Float, written),
        DeValue::Boolean(_) => scalar(ScalarKind::Bool, written),
        DeValue::Datetime(_) => scalar(ScalarKind::Text, written),
        DeValue::Array(items) => {
            file.check_depth(depth + 1, span)?;
            let items = items.into_iter().map(|item| node(item, depth + 1, file));
            Value::List(items.collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            file.check_depth(depth + 1, span)?;
            Value::Map(entries(table, depth + 1, file)?)
        }
    };
    Some(Node { value, span })
}

#[cfg(test)]
mod tests;
