//! YAML, TOML and JSON as one kind of tree.

mod entries;
mod file;
mod json;
mod toml;
pub(crate) mod tree;
mod yaml;

use file::File;
use tree::Node;

use crate::diagnostic::Reporter;
use crate::source::{Format, Source};

/// The largest file, in bytes: ten megabytes of rules, with room for comments.
pub(crate) const MAX_RULE_FILE: usize = 16 * 1024 * 1024;

/// The largest number of values in a file, aliases expanded.
pub(crate) const MAX_VALUES: usize = 2_000_000;

/// How deep lists and maps may be nested.
pub(crate) const MAX_DEPTH: usize = 64;

/// Reads a source into a tree, and reports all that its syntax allows to find.
///
/// `None`: the document is empty, or so broken that there is no tree, which is reported. A tree that is returned with
/// errors is complete but for what they name.
pub(crate) fn parse(source_index: u32, source: &Source, reporter: &mut Reporter) -> Option<Node> {
    let mut file = File::new(source_index, source.text(), reporter);
    if source.text().len() > MAX_RULE_FILE {
        file.too_large();
        return None;
    }
    match source.format() {
        Format::Toml => toml::parse(&mut file),
        Format::Json => json::parse(&mut file),
        Format::Yaml => yaml::parse(&mut file),
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
