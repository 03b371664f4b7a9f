//! Maps of a rule file: their fields, those that are unknown, and those that are missing.

use super::fields::{CONDITION, Field, PATTERN, Place, Presence};
use super::never::other_field;
use super::reader::{Reader, kind_of};
use crate::diagnostic::quoted;
use crate::nearest::nearest;
use crate::source::{Span, Spanned};
use crate::syntax::tree::{Entry, Node, Scalar, ScalarKind, Value};

/// A map of a known kind. All of its fields are known.
#[derive(Clone, Copy)]
pub(super) struct Section<'n> {
    pub(super) place: &'static Place,
    pub(super) span: Span,
    entries: &'n [Entry],
}

/// A field that is set, and its value.
#[derive(Clone, Copy)]
pub(super) struct Setting<'n> {
    pub(super) field: &'static Field,
    pub(super) key: Span,
    pub(super) node: &'n Node,
}

impl<'n> Section<'n> {
    /// Returns a field that has a value.
    pub(super) fn get(&self, name: &str) -> Option<Setting<'n>> {
        let field = self.place.field(name);
        debug_assert!(field.is_some(), "`{name}` is not in the table of `{}`", self.place.name);
        let entry = self.entries.iter().find(|entry| *entry.key.value == *name)?;
        let node = &entry.value;
        if is_empty(node) { None } else { Some(Setting { field: field?, key: entry.key.span, node }) }
    }

    /// Returns whether a field is there, with or without a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| *entry.key.value == *name)
    }

    /// Returns the entries whose keys the author chose.
    pub(super) fn others(&self) -> impl Iterator<Item = (&'n Spanned<Box<str>>, &'n Node)> + use<'n> {
        let place = self.place;
        let entries = self.entries.iter().filter(move |entry| place.field(&entry.key.value).is_none());
        entries.map(|entry| (&entry.key, &entry.value)).filter(|(_, node)| !is_empty(node))
    }

    /// Returns whether there is a key that the author chose, with or without a value.
    pub(super) fn has_others(&self) -> bool {
        self.entries.iter().any(|entry| self.place.field(&entry.key.value).is_none())
    }

    /// Returns whether a field is there under a name that is almost its own. That is reported; that it is missing need
    /// not be.
    pub(super) fn has_misspelt(&self, name: &str) -> bool {
        let names = || self.place.fields.iter().map(|field| field.name);
        let unknown = self.entries.iter().filter(|entry| self.place.field(&entry.key.value).is_none());
        self.place.others.is_none()
            && unknown.into_iter().any(|entry| nearest(&entry.key.value, names()) == Some(name))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Reader<'_> {
    /// Reads a map of this kind. `owner` is what has it: "`limit`".
    pub(super) fn section<'n>(
        &mut self,
        place: &'static Place,
        owner: &str,
        node: &'n Node,
    ) -> Option<Section<'n>> {
        let Value::Map(entries) = &node.value else {
            let example = place.fields.iter().find(|field| field.presence == Presence::Required);
            let example = example.or_else(|| place.fields.first());
            let example = match (example, &place.others) {
                (Some(field), _) => format!("`{{ {}: {} }}`", field.name, field.example),
                (None, Some(others)) => format!("`{{ {} }}`", others.example),
                (None, None) => "`{}`".to_owned(),
            };
            self.error(
                node.span,
                format!("{owner} is {} here", kind_of(node)),
                format!("write a map, such as {example}"),
            );
            return None;
        };
        for entry in entries {
            if self.has_enough() {
                return None;
            }
            if place.field(&entry.key.value).is_none() && place.others.is_none() {
                self.unknown_field(place, &entry.key);
            } else if is_empty(&entry.value) && !place.skips_empty {
                let name = quoted(&entry.key.value);
                let advice = match place.field(&entry.key.value) {
                    Some(field) => format!(
                        "write {}, such as `{}: {}`, or remove it",
                        field.shape, field.name, field.example
                    ),
                    None => format!("write a value after {name}, or remove it"),
                };
                self.error(entry.key.span, format!("{name} has no value"), advice);
            }
        }
        Some(Section { place, span: node.span, entries })
    }

    fn unknown_field(&mut self, place: &'static Place, key: &Spanned<Box<str>>) {
        let name = &*key.value;
        let message = if name.is_empty() {
            format!("a field of {} has an empty name", place.in_words())
        } else {
            format!("unknown field {} in {}", quoted(name), place.in_words())
        };
        let names = || place.fields.iter().map(|field| field.name);
        let other =
            if place.name == CONDITION.name || place.name == PATTERN.name { other_field(name) } else { None };
        let advice = if let Some(right) = other {
            right.to_owned()
        } else if let Some(owner) = owner_of(name, place) {
            format!("it is a field of {}, not of {}", owner.in_words(), place.in_words())
        } else if let Some(right) = nearest(name, names()) {
            format!("did you mean `{right}`?")
        } else {
            let all: Vec<String> = names().map(|name| format!("`{name}`")).collect();
            format!("its fields are {}", all.join(", "))
        };
        self.error(key.span, message, advice);
    }

    /// Returns a required field, or reports that it is missing.
    pub(super) fn required<'n>(&mut self, section: &Section<'n>, name: &str) -> Option<Setting<'n>> {
        let setting = section.get(name);
        if setting.is_none()
            && (!section.has(name) || section.place.skips_empty)
            && !section.has_misspelt(name)
            && let Some(field) = section.place.field(name)
        {
            self.error(
                Span { end: section.span.start, ..section.span },
                format!("{} without `{name}`", section.place.in_words()),
                format!("add it, such as `{name}: {}`", field.example),
            );
        }
        setting
    }

    /// Reports a value of the wrong type.
    pub(super) fn wrong_type(&mut self, setting: &Setting<'_>) {
        let Field { name, shape, example, .. } = setting.field;
        self.error(
            setting.node.span,
            format!("`{name}` is {} here", kind_of(setting.node)),
            format!("write {shape}, such as `{name}: {example}`"),
        );
    }

    /// Reports two settings that exclude each other, at the second one.
    pub(super) fn contradiction(&mut self, one: &Setting<'_>, other: &Setting<'_>, advice: &str) {
        let (first, second) = if one.key <= other.key { (one, other) } else { (other, one) };
        let place = self.place(first.key, second.key);
        let message = format!("`{}` contradicts `{}` ({place})", second.field.name, first.field.name);
        self.error(second.key, message, advice);
    }
}

impl<'n> Setting<'n> {
    pub(super) fn scalar(&self) -> Option<&'n Scalar> {
        match &self.node.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::List(_) | Value::Map(_) => None,
        }
    }
}

/// Returns a kind of map that has a field of this name, and that is the only one.
fn owner_of(name: &str, place: &'static Place) -> Option<&'static Place> {
    let all = Place::all();
    let mut owners = all.into_iter().filter(|owner| owner.name != place.name && owner.field(name).is_some());
    let owner = owners.next()?;
    owners.next().is_none().then_some(owner)
}

fn is_empty(node: &Node) -> bool {
    matches!(&node.value, Value::Scalar(scalar) if scalar.kind == ScalarKind::Null)
}
