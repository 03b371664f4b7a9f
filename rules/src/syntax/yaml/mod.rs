//! YAML files: the parser's events become a tree. Aliases and merge keys (`<<`) are expanded.
//!
//! Nothing here recurses over the file's nesting: open lists and maps are a stack.

mod advice;
mod scalar;

use crate::diagnostic::quoted;
use std::collections::HashMap;
use std::mem;

use granit_parser::{Event, Options, Parser, ScalarStyle, Tag};

use super::entries::Entries;
use super::file::File;
use super::tree::{Node, Scalar, ScalarKind, Value};
use super::{MAX_DEPTH, MAX_VALUES};
use crate::source::{Span, Spanned};

/// Reads a document. See [`super::parse`].
pub(super) fn parse(file: &mut File<'_>) -> Option<Node> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.emit_unresolved_aliases = true;
    // One more than is allowed, so that deep nesting is reported where it begins.
    options.flow_nesting_limit = MAX_DEPTH + 1;
    options.block_nesting_limit = MAX_DEPTH + 1;
    let mut builder = Builder { file, open: Vec::new(), root: None, anchors: HashMap::new(), anchored: 0 };
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(builder.file.text(), options) {
        let (event, place) = match event {
            Ok(event) => event,
            Err(error) => {
                advice::report(&error, builder.file);
                return None;
            }
        };
        let span = builder.file.span(place.byte_range().unwrap_or_default());
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
            if documents > 1 {
                builder.file.error(
                    span,
                    "a second document starts here",
                    "one file holds one document: remove the line with `---`, or make it a file of its own",
                );
                break;
            }
        }
        builder.event(event, span)?;
    }
    builder.root.filter(|root| !root.is_nothing())
}

/// A list or map that is not closed yet.
struct Open {
    collection: Collection,
    anchor: usize,
    span: Span,
    /// How many values the file had before it.
    values_before: usize,
    /// How many levels it has below itself, so far.
    height: usize,
}

enum Collection {
    List(Vec<Node>),
    Map { entries: Entries, merged: Vec<Node>, key: Key },
}

/// What the next value of a map is.
enum Key {
    /// It is a key itself.
    Expected,
    Text(Spanned<Box<str>>),
    /// `<<`.
    Merge(Span),
    /// Of a key that was reported.
    Ignored,
}

/// A complete value.
struct Complete {
    node: Node,
    /// How many values it consists of.
    values: usize,
    /// How many levels it has, 0 for a scalar.
    height: usize,
    /// Whether it is a scalar without quotes and tags.
    plain: bool,
}

struct Anchored {
    node: Node,
    values: usize,
    height: usize,
}

struct Builder<'a, 'f> {
    file: &'a mut File<'f>,
    open: Vec<Open>,
    root: Option<Node>,
    anchors: HashMap<usize, Anchored>,
    /// How many values `anchors` holds.
    anchored: usize,
}

impl Builder<'_, '_> {
    /// Adds an event to the tree. `None`: there can be no tree, which is reported.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.file.count(1, span)?;
                let tag = self.tag(tag.as_deref(), span);
                // A value that is missing is reported as `~`.
                let missing = style == ScalarStyle::Plain && span.start == span.end;
                let text = if missing { "".into() } else { text };
                let scalar = scalar::resolve(&text, style, tag);
                let node = Node { value: Value::Scalar(scalar), span: self.scalar_span(span, &text, style) };
                let plain = style == ScalarStyle::Plain && tag == scalar::CoreTag::None;
                self.complete(Complete { node, values: 1, height: 0, plain }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.tag(tag.as_deref(), span);
                self.start(Collection::List(Vec::new()), anchor, span)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.tag(tag.as_deref(), span);
                let map =
                    Collection::Map { entries: Entries::default(), merged: Vec::new(), key: Key::Expected };
                self.start(map, anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::UnresolvedAlias(name) => {
                self.file.error(
                    span,
                    format!("unknown alias {}", quoted(&format!("*{name}"))),
                    format!(
                        "define it before this line with {}, or quote the text",
                        quoted(&format!("&{name}"))
                    ),
                );
                self.file.count(1, span)?;
                // Mostly text that lacks its quotes, such as `*.example.com`.
                let text = Scalar { text: format!("*{name}").into(), kind: ScalarKind::Text };
                let node = Node { value: Value::Scalar(text), span };
                self.complete(Complete { node, values: 1, height: 0, plain: false }, 0)
            }
            // Comments and anchors are not requested. The event type is open: there is nothing else with a value.
            _ => Some(()),
        }
    }

    fn start(&mut self, collection: Collection, anchor: usize, span: Span) -> Option<()> {
        self.file.check_depth(self.open.len() + 1, span)?;
        let values_before = self.file.values();
        self.file.count(1, span)?;
        self.open.push(Open { collection, anchor, span, values_before, height: 0 });
        Some(())
    }

    /// Closes the innermost list or map.
    fn end(&mut self, end: Span) -> Option<()> {
        let Open { collection, anchor, mut span, values_before, height } = self.open.pop()?;
        let (value, last) = match collection {
            Collection::List(items) => {
                let last = items.last().map(|item| item.span.end);
                (Value::List(items), last)
            }
            Collection::Map { mut entries, merged, .. } => {
                let last = entries.end();
                for map in merged {
                    merge(map, &mut entries);
                }
                (Value::Map(entries.into_vec()), last)
            }
        };
        // Blocks have no closing bracket: the parser ends them where the next value starts.
        span.end = if end.start < end.end { end.end } else { last.unwrap_or(span.end) };
        span.start = span.start.min(span.end);
        let values = self.file.values() - values_before;
        let node = Node { value, span };
        self.complete(Complete { node, values, height: height + 1, plain: false }, anchor)
    }

    /// Adds a copy of the anchored value.
    fn alias(&mut self, anchor: usize, span: Span) -> Option<()> {
        let Some(Anchored { values, height, .. }) = self.anchors.get(&anchor) else {
            self.file.error(
                span,
                "an alias inside of the value that it stands for",
                "write the value in full here",
            );
            return None;
        };
        let (values, height) = (*values, *height);
        // Before the copy, so that a small file can't make a large tree.
        self.file.count(values, span)?;
        self.file.check_depth(self.open.len() + height, span)?;
        let node = self.anchors.get(&anchor)?.node.clone();
        self.complete(Complete { node, values, height, plain: false }, 0)
    }

    /// Adds a value to the list or map that is open.
    fn complete(&mut self, complete: Complete, anchor: usize) -> Option<()> {
        if anchor > 0 {
            self.keep(anchor, &complete)?;
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(complete.node);
            return Some(());
        };
        open.height = open.height.max(complete.height);
        match &mut open.collection {
            Collection::List(items) => items.push(complete.node),
            Collection::Map { entries, merged, key } => match mem::replace(key, Key::Expected) {
                Key::Expected => *key = read_key(complete, self.file),
                Key::Text(name) => {
                    let mut node = complete.node;
                    if node.span.start == node.span.end {
                        // A value that is missing has no place of its own.
                        node.span = name.span;
                    }
                    entries.add(name, node, self.file);
                }
                Key::Merge(span) => merge_value(complete.node, span, merged, self.file),
                Key::Ignored => {}
            },
        }
        Some(())
    }

    /// Keeps an anchored value for its aliases.
    fn keep(&mut self, anchor: usize, complete: &Complete) -> Option<()> {
        self.anchored = self.anchored.saturating_add(complete.values);
        if self.anchored > MAX_VALUES {
            self.file.error(
                complete.node.span,
                format!("more than {MAX_VALUES} values have anchors"),
                "give anchors to small values, not to the values around them",
            );
            return None;
        }
        let Complete { node, values, height, .. } = complete;
        self.anchors.insert(anchor, Anchored { node: node.clone(), values: *values, height: *height });
        Some(())
    }

    /// Reports tags that mean nothing here.
    fn tag(&mut self, tag: Option<&Tag>, span: Span) -> scalar::CoreTag {
        let Some(tag) = tag else { return scalar::CoreTag::None };
        scalar::core_tag(tag).unwrap_or_else(|| {
            let name = quoted(&tag.original());
            self.file.error(
                span,
                format!("unknown tag {name}"),
                format!("remove {name}: rule files have no such tags"),
            );
            scalar::CoreTag::None
        })
    }

    /// Returns the place of a scalar. The parser's place of a block scalar ends in front of the next value.
    fn scalar_span(&self, span: Span, text: &str, style: ScalarStyle) -> Span {
        if text.is_empty() && style == ScalarStyle::Plain {
            return Span { end: span.start, ..span };
        }
        let written = &self.file.text()[span.start as usize..span.end as usize];
        let trailing = written.len() - written.trim_end().len();
        Span { end: span.end - u32::try_from(trailing).unwrap_or(0), ..span }
    }
}

/// Reads a key. Keys that are not text are reported.
fn read_key(complete: Complete, file: &mut File<'_>) -> Key {
    let Complete { node: Node { value, span }, plain, .. } = complete;
    let what = match &value {
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
        Value::Scalar(scalar) if plain && &*scalar.text == "<<" => return Key::Merge(span),
        Value::Scalar(scalar) => match scalar.kind {
            ScalarKind::Text => return Key::Text(Spanned { value: scalar.text.clone(), span }),
            ScalarKind::Integer | ScalarKind::Float => "a number",
            ScalarKind::Bool => "true or false",
            ScalarKind::Null if scalar.text.is_empty() => "missing",
            ScalarKind::Null => "null",
        },
    };
    match value {
        Value::Scalar(scalar) if !scalar.text.is_empty() => {
            let text = quoted(&scalar.text);
            let advice = format!("quote it: {}", quoted(&format!("\"{}\"", scalar.text)));
            file.error(span, format!("the key {text} is {what}, not text"), advice);
            Key::Text(Spanned { value: scalar.text, span })
        }
        Value::Scalar(_) => {
            file.error(span, "a key is missing", "write a name in front of the `:`");
            Key::Ignored
        }
        Value::List(_) | Value::Map(_) => {
            let advice = "write the key as text, and quote it if it starts with `[` or `{`";
            file.error(span, format!("the key is {what}, not text"), advice);
            Key::Ignored
        }
    }
}

/// Adds the entries of `<<` that the map does not have itself.
fn merge(node: Node, entries: &mut Entries) {
    let Value::Map(merged) = node.value else { return };
    for entry in merged {
        entries.add_default(entry);
    }
}

/// Adds the value of `<<`: a map, or a list of maps of which the first wins.
fn merge_value(node: Node, key: Span, merged: &mut Vec<Node>, file: &mut File<'_>) {
    if !merged.is_empty() {
        let line = file.line(merged[0].span.start);
        let advice = format!("the other merges what is in line {line}: write one `<<: [*first, *second]`");
        file.error(key, "duplicate key `<<`", advice);
        return;
    }
    let maps = match node {
        Node { value: Value::List(maps), .. } => maps,
        node => vec![node],
    };
    for map in maps {
        if matches!(map.value, Value::Map(_)) {
            merged.push(map);
        } else {
            let span = if map.span.start == map.span.end { key } else { map.span };
            file.error(
                span,
                "`<<` merges maps, and this is none",
                "write an alias of a map: `<<: *defaults`",
            );
        }
    }
}

impl Node {
    /// Whether this is an empty document.
    fn is_nothing(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.kind == ScalarKind::Null && scalar.text.is_empty())
    }
}

#[cfg(test)]
mod tests;
