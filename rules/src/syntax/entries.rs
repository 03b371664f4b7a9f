//! The entries of a map while it is read. Duplicate keys are found here, for all formats.

use crate::diagnostic::quoted;
use std::collections::HashMap;

use super::file::File;
use super::tree::{Entry, Node};
use crate::source::Spanned;

/// From this number of entries on, keys are found through an index.
const INDEXED: usize = 16;

/// Entries in the order of the file, with unique keys.
#[derive(Debug, Default)]
pub(super) struct Entries {
    entries: Vec<Entry>,
    index: HashMap<Box<str>, usize>,
}

impl Entries {
    /// Adds an entry. If there is one with this key, the new one is reported and ignored.
    pub(super) fn add(&mut self, key: Spanned<Box<str>>, value: Node, file: &mut File<'_>) {
        let Some(first) = self.find(&key.value) else {
            self.push(Entry { key, value });
            return;
        };
        let line = file.line(self.entries[first].key.span.start);
        file.error(
            key.span,
            format!("duplicate key {}", quoted(&key.value)),
            format!("it is already in line {line}: remove one of the two"),
        );
    }

    /// Adds an entry if there is none with this key.
    pub(super) fn add_default(&mut self, entry: Entry) {
        if self.find(&entry.key.value).is_none() {
            self.push(entry);
        }
    }

    /// Returns the last entry's end.
    pub(super) fn end(&self) -> Option<u32> {
        self.entries.last().map(|entry| entry.value.span.end.max(entry.key.span.end))
    }

    pub(super) fn into_vec(self) -> Vec<Entry> {
        self.entries
    }

    fn find(&self, key: &str) -> Option<usize> {
        if self.entries.len() < INDEXED {
            return self.entries.iter().position(|entry| *entry.key.value == *key);
        }
        self.index.get(key).copied()
    }

    fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
        if self.entries.len() < INDEXED {
            return;
        }
        for (position, entry) in self.entries.iter().enumerate().skip(self.index.len()) {
            self.index.insert(entry.key.value.clone(), position);
        }
    }
}
