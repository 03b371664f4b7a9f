//! What the formats have in common: trees as text, and problems as lines.

use std::fmt::Write;
use std::sync::Arc;

use super::tree::{ScalarKind, Value};
use super::*;

/// Returns the tree in one line: text in quotes, other scalars as they are written.
pub(super) fn tree(name: &str, text: &str) -> String {
    let (tree, problems) = parsed(name, text);
    assert!(problems.is_empty(), "{problems:#?}");
    tree
}

/// Returns the problems, each as `line:column marked text: message; advice`.
pub(super) fn problems(name: &str, text: &str) -> Vec<String> {
    parsed(name, text).1
}

/// Returns both.
pub(super) fn parsed(name: &str, text: &str) -> (String, Vec<String>) {
    let source = Source::new(name, text);
    let mut reporter = Reporter::new(Arc::from([source.clone()]));
    let node = parse(0, &source, &mut reporter);
    let mut tree = String::new();
    if let Some(node) = &node {
        check_spans(node, text);
        write_tree(node, &mut tree);
    }
    let problems = match reporter.finish() {
        Ok(_) => Vec::new(),
        Err(errors) => errors.diagnostics().iter().map(|found| problem(found, text)).collect(),
    };
    (tree, problems)
}

fn problem(found: &crate::Diagnostic, text: &str) -> String {
    // Whatever is found must be shown, too.
    assert!(!found.to_string().is_empty());
    let marked = &text[found.span.start as usize..found.span.end as usize];
    let (line, column) = (found.line(), found.column());
    format!("{line}:{column} {marked}: {}; {}", found.message(), found.advice())
}

/// Checks that all places are within the text.
fn check_spans(node: &Node, text: &str) {
    assert!(text.get(node.span.start as usize..node.span.end as usize).is_some(), "{node:?}");
    match &node.value {
        Value::Scalar(_) => {}
        Value::List(items) => items.iter().for_each(|item| check_spans(item, text)),
        Value::Map(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                let span = entry.key.span;
                assert!(text.get(span.start as usize..span.end as usize).is_some(), "{entry:?}");
                check_spans(&entry.value, text);
                if entries.len() < 100 {
                    assert!(entries[..index].iter().all(|other| other.key.value != entry.key.value));
                }
            }
        }
    }
}

fn write_tree(node: &Node, tree: &mut String) {
    match &node.value {
        Value::Scalar(scalar) => match scalar.kind {
            ScalarKind::Text => write!(tree, "{:?}", scalar.text).unwrap(),
            ScalarKind::Null => tree.push_str("null"),
            ScalarKind::Bool => write!(tree, "{}", scalar.text).unwrap(),
            ScalarKind::Integer => write!(tree, "{}i", scalar.text).unwrap(),
            ScalarKind::Float => write!(tree, "{}f", scalar.text).unwrap(),
        },
        Value::List(items) => {
            tree.push('[');
            for (index, item) in items.iter().enumerate() {
                tree.push_str(if index > 0 { ", " } else { "" });
                write_tree(item, tree);
            }
            tree.push(']');
        }
        Value::Map(entries) => {
            tree.push('{');
            for (index, entry) in entries.iter().enumerate() {
                write!(tree, "{}{}: ", if index > 0 { ", " } else { "" }, entry.key.value).unwrap();
                write_tree(&entry.value, tree);
            }
            tree.push('}');
        }
    }
}

/// Returns the text of each value in the order of the file, by its span.
pub(super) fn places(name: &str, text: &str) -> Vec<String> {
    fn walk(node: &Node, text: &str, places: &mut Vec<String>) {
        places.push(text[node.span.start as usize..node.span.end as usize].to_owned());
        match &node.value {
            Value::Scalar(_) => {}
            Value::List(items) => items.iter().for_each(|item| walk(item, text, places)),
            Value::Map(entries) => {
                for entry in entries {
                    let span = entry.key.span;
                    places.push(text[span.start as usize..span.end as usize].to_owned());
                    walk(&entry.value, text, places);
                }
            }
        }
    }
    let source = Source::new(name, text);
    let mut reporter = Reporter::new(Arc::from([source.clone()]));
    let mut places = Vec::new();
    walk(&parse(0, &source, &mut reporter).unwrap(), text, &mut places);
    places
}

#[test]
fn the_name_selects_the_format() {
    assert_eq!(tree("a.yaml", "a: 1"), "{a: 1i}");
    assert_eq!(tree("rules of shop", "a: 1"), "{a: 1i}");
    assert_eq!(tree("a.toml", "a = 1"), "{a: 1i}");
    assert_eq!(tree("A.TOML", "a = 1"), "{a: 1i}");
    assert_eq!(tree("a.json", "{\"a\": 1}"), "{a: 1i}");
}

#[test]
fn a_large_file_is_refused_with_the_bound() {
    for name in ["a.yaml", "a.toml", "a.json"] {
        let mut text = " ".repeat(MAX_RULE_FILE);
        assert_eq!(problems(name, &text), [""; 0], "{name}");
        text.push(' ');
        assert_eq!(
            problems(name, &text),
            ["1:1 : the file has 16777217 bytes, the most is 16777216; split the rules into several files"],
        );
    }
}
