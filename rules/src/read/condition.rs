//! `when`: conditions on attributes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::attribute::FAMILIES;
use super::fields::{CONDITION, PATTERN, WHEN};
use super::reader::{Reader, kind_of};
use super::section::{Section, Setting};
use crate::diagnostic::quoted;
use crate::identifiers::parse_network;
use crate::model::{Condition, Pattern, Test};
use crate::source::Span;
use crate::syntax::tree::{Node, Value};

/// How the values of an attribute are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// `*` within a segment, `**` for whole segments.
    Path,
    Address,
    /// In upper case.
    Method,
    /// In lower case.
    Host,
    Text,
}

impl Comparison {
    fn of(attribute: &str) -> Self {
        match attribute {
            "path" | "route" => Self::Path,
            "method" => Self::Method,
            "host" | "header.host" => Self::Host,
            "ip" => Self::Address,
            other if other.ends_with("_address") => Self::Address,
            _ => Self::Text,
        }
    }
}

impl Reader<'_> {
    pub(super) fn conditions(&mut self, setting: &Setting<'_>) -> Option<Vec<Condition>> {
        let section = self.section(&WHEN, "`when`", setting.node)?;
        let mut conditions = Vec::with_capacity(section.len());
        let mut known = HashMap::with_capacity(section.len());
        let mut complete = true;
        for (key, node) in section.others() {
            if let Some(name) = name_below(&key.value, node) {
                // In TOML, a dot without quotes makes a table.
                let message = format!("{} is a map here", quoted(&key.value));
                let whole = format!("\"{}.{name}\"", key.value);
                self.error(key.span, message, format!("write one name, between quotes: {}", quoted(&whole)));
                complete = false;
                continue;
            }
            let Some(attribute) = self.attribute(&key.value, key.span) else {
                complete = false;
                continue;
            };
            // `header.X-A` and `header.x-a` are different keys of YAML.
            if let Some(first) = known.insert(Arc::clone(&attribute.value), key.span) {
                let place = self.place(first, key.span);
                let message = format!("`when` already has {} ({place})", quoted(&attribute.value));
                self.error(key.span, message, "write both in one condition");
                complete = false;
                continue;
            }
            match self.test(&attribute.value, node) {
                Some(test) => conditions.push(Condition { attribute, test }),
                None => complete = false,
            }
        }
        complete.then_some(conditions)
    }

    fn test(&mut self, attribute: &str, node: &Node) -> Option<Test> {
        let comparison = Comparison::of(attribute);
        let Value::Map(_) = &node.value else {
            return self.patterns(attribute, comparison, node).map(Test::OneOf);
        };
        let section = self.section(&CONDITION, &quoted(attribute), node)?;
        self.exactly_one(&section, attribute)?;
        if let Some(setting) = section.get("present") {
            return Some(if self.flag(&setting, false)? { Test::Present } else { Test::Absent });
        }
        if let Some(setting) = section.get("not") {
            return self.patterns(attribute, comparison, setting.node).map(Test::NoneOf);
        }
        self.pattern_of(&section, comparison).map(|pattern| Test::OneOf(vec![pattern]))
    }

    /// Reads a value, a list of values, or a map of one pattern.
    fn patterns(&mut self, attribute: &str, comparison: Comparison, node: &Node) -> Option<Vec<Pattern>> {
        let Value::List(items) = &node.value else {
            return self.pattern(attribute, comparison, node).map(|pattern| vec![pattern]);
        };
        if items.is_empty() {
            let message = format!("the list of {} is empty", quoted(attribute));
            self.error(node.span, message, "name a value, or remove the condition");
            return None;
        }
        let patterns: Vec<_> = items.iter().map(|item| self.pattern(attribute, comparison, item)).collect();
        patterns.into_iter().collect()
    }

    fn pattern(&mut self, attribute: &str, comparison: Comparison, node: &Node) -> Option<Pattern> {
        match &node.value {
            Value::Scalar(scalar) if kind_of(node) == "empty" => {
                let message = format!("a value of {} is {}", quoted(attribute), quoted(&scalar.text));
                self.error(
                    node.span,
                    message,
                    "write text, or `{ present: false }` for a request without it",
                );
                None
            }
            Value::Scalar(scalar) => {
                let pattern = self.pattern_text(comparison, &scalar.text, node.span)?;
                self.warn_of_text(attribute, &scalar.text, node.span);
                Some(pattern)
            }
            Value::Map(_) => {
                let section = self.section(&PATTERN, &quoted(attribute), node)?;
                self.exactly_one(&section, attribute)?;
                self.pattern_of(&section, comparison)
            }
            Value::List(_) => {
                let message = format!("a value of {} is a list here", quoted(attribute));
                self.error(node.span, message, "write the values in one list, such as `[GET, POST]`");
                None
            }
        }
    }

    fn exactly_one(&mut self, section: &Section<'_>, attribute: &str) -> Option<()> {
        if section.len() == 1 {
            return Some(());
        }
        let message = format!("the condition on {} has {} fields", quoted(attribute), section.len());
        let all: Vec<String> = section.place.fields.iter().map(|field| format!("`{}`", field.name)).collect();
        self.error(section.span, message, format!("write exactly one of {}", all.join(", ")));
        None
    }

    fn pattern_of(&mut self, section: &Section<'_>, comparison: Comparison) -> Option<Pattern> {
        if let Some(setting) = section.get("prefix") {
            let text = self.text(&setting)?;
            if comparison == Comparison::Address {
                let advice = "write a network, such as `10.0.0.0/8`";
                self.error(setting.node.span, "an address has no prefix of characters", advice);
                return None;
            }
            if text.value.contains('*') {
                let message = format!("the prefix {} has a `*`", quoted(text.value));
                let advice =
                    "write the pattern as text instead, or remove the `*`: what follows is not compared";
                self.error(setting.node.span, message, advice);
                return None;
            }
            return Some(Pattern::Prefix(in_case(comparison, text.value).into()));
        }
        let setting = section.get("exact")?;
        let text = self.text(&setting)?;
        if comparison == Comparison::Address {
            return self.address(text.value, setting.node.span);
        }
        Some(Pattern::Exact(in_case(comparison, text.value).into()))
    }

    fn pattern_text(&mut self, comparison: Comparison, text: &str, span: Span) -> Option<Pattern> {
        match comparison {
            Comparison::Address => self.address(text, span),
            Comparison::Path => self.path(text, span),
            Comparison::Method | Comparison::Host | Comparison::Text => {
                let text = in_case(comparison, text);
                Some(match text.strip_suffix('*') {
                    Some(prefix) if !prefix.contains('*') => Pattern::Prefix(prefix.into()),
                    _ if text.contains('*') => Pattern::Glob(text.into()),
                    _ => Pattern::Exact(text.into()),
                })
            }
        }
    }

    fn path(&mut self, text: &str, span: Span) -> Option<Pattern> {
        if let Some(segment) = text.split('/').find(|segment| segment.contains("**") && *segment != "**") {
            let message = format!("`**` is only a part of the segment {}", quoted(segment));
            let right =
                format!("write {} or give `**` a segment of its own", quoted(&text.replace("**", "*")));
            self.error(span, message, right);
            return None;
        }
        Some(if text.contains('*') { Pattern::Path(text.into()) } else { Pattern::Exact(text.into()) })
    }

    fn address(&mut self, text: &str, span: Span) -> Option<Pattern> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Pattern::Address(address.to_canonical()));
        }
        self.network(text, span).map(Pattern::Network)
    }

    /// Reads a network; a single address is one, too.
    pub(super) fn network(&mut self, text: &str, span: Span) -> Option<IpNet> {
        match parse_network(text) {
            Ok(network) => Some(network),
            Err(problem) => {
                self.error(span, problem.message, problem.advice);
                None
            }
        }
    }
}

/// Returns the first name of a map that stands behind the name of a family: `x-tenant` of `header: { x-tenant: a }`.
fn name_below<'n>(key: &str, node: &'n Node) -> Option<&'n str> {
    let Value::Map(entries) = &node.value else { return None };
    let name = &*entries.first()?.key.value;
    (FAMILIES.contains(&key) && CONDITION.field(name).is_none()).then_some(name)
}

fn in_case(comparison: Comparison, text: &str) -> String {
    match comparison {
        Comparison::Method => text.to_ascii_uppercase(),
        Comparison::Host => text.to_ascii_lowercase(),
        Comparison::Path | Comparison::Address | Comparison::Text => text.to_owned(),
    }
}
