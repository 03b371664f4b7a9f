//! The fields of rule files: one table that the reader, the suggestions and the JSON Schema share.
//!
//! - `table`: the fields of the form `rules`, of `identifiers` and of the whole file.
//! - `envoy`: the fields of the form `descriptors`.

mod envoy;
mod table;

use std::fmt;

#[cfg(test)]
pub(super) use table::ALGORITHMS;

pub(super) use envoy::{DESCRIPTOR, RATE_LIMIT, REPLACED};
pub(super) use table::{
    ATTRIBUTES, CLIENT_IP, CONDITION, COST, FILE, IDENTIFIER, IDENTIFIERS, LIMIT, MISSING, PATTERN, PLAN,
    RULE, WHEN,
};

/// A kind of map in a rule file, and what may stand in it.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its name in the JSON Schema and in errors.
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) fields: &'static [Field],
    /// What keys that are no fields hold, where they are names that the author chooses.
    pub(crate) others: Option<Others>,
    /// Whether a field without a value is as if it was not there. The reference service reads its files so.
    pub(crate) skips_empty: bool,
}

/// The keys of a map that its author chooses.
#[derive(Debug)]
pub(crate) struct Others {
    pub(crate) doc: &'static str,
    pub(crate) shape: Shape,
    /// An entry in YAML, on one line.
    pub(crate) example: &'static str,
    /// Names that editors suggest.
    pub(crate) suggested: &'static [&'static str],
}

/// A field: its name, what it holds and what it means.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) doc: &'static str,
    pub(crate) presence: Presence,
    /// A value in YAML, on one line.
    pub(crate) example: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    /// What is assumed without it.
    Default(&'static str),
}

/// What a field holds.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Any scalar: numbers and `true` are their text.
    Text,
    Attribute,
    Bool,
    Integer {
        min: i64,
        max: i64,
    },
    /// A number such as `100`, `10k` or `20MB`, from 1 to core's `Limit::MAX_COUNT`.
    Amount,
    Duration,
    /// `5/min`.
    Rate,
    /// `50/s burst 100`.
    Short,
    Network,
    /// One of these words, in any case if so stated.
    Word {
        words: &'static [&'static str],
        any_case: bool,
    },
    StoreError,
    Map(&'static Place),
    List(&'static Shape),
    /// Any of several.
    Any(&'static [Shape]),
    /// A map that is kept as it is.
    Free,
}

impl Place {
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns its name with an article: "a limit".
    pub(crate) fn in_words(&self) -> String {
        let article = if self.name.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
        format!("{article} {}", self.name.replace('_', " "))
    }

    /// Returns all places, each before those that its fields hold.
    pub(crate) fn all() -> Vec<&'static Self> {
        let mut places = vec![&FILE];
        let mut next = 0;
        while let Some(place) = places.get(next).copied() {
            next += 1;
            let shapes = place.fields.iter().map(|field| &field.shape);
            for shape in shapes.chain(place.others.iter().map(|others| &others.shape)) {
                shape.collect(&mut places);
            }
        }
        places
    }
}

impl Shape {
    fn collect(&self, places: &mut Vec<&'static Place>) {
        match self {
            Self::Map(place) => {
                if !places.iter().any(|known| known.name == place.name) {
                    places.push(place);
                }
            }
            Self::List(item) => item.collect(places),
            Self::Any(shapes) => shapes.iter().for_each(|shape| shape.collect(places)),
            Self::Text
            | Self::Attribute
            | Self::Bool
            | Self::Integer { .. }
            | Self::Amount
            | Self::Duration
            | Self::Rate
            | Self::Short
            | Self::Network
            | Self::Word { .. }
            | Self::StoreError
            | Self::Free => {}
        }
    }
}

/// Says what is expected: "a whole number from 1 to 100".
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Attribute => f.write_str("the name of an attribute"),
            Self::Bool => f.write_str("`true` or `false`"),
            Self::Integer { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Amount => f.write_str("a number from 1 to 1000000000, also as `10k` or `20MB`"),
            Self::Duration => f.write_str("a duration"),
            Self::Rate => f.write_str("a rate"),
            Self::Short => f.write_str("a limit in short form"),
            Self::Network => f.write_str("a network or an address"),
            Self::Word { words, .. } => alternatives(f, words, |f, word| write!(f, "`{word}`")),
            Self::StoreError => f.write_str("`allow`, `deny`, `share 1/10` or `allow for 30s, then deny`"),
            Self::Map(place) => write!(f, "a map ({})", place.in_words()),
            Self::List(item) => write!(f, "a list (each {item})"),
            Self::Any(shapes) => {
                let mut items = Vec::new();
                for shape in *shapes {
                    match shape {
                        Self::Word { words, .. } => {
                            items.extend(words.iter().map(|word| format!("`{word}`")));
                        }
                        other => items.push(other.to_string()),
                    }
                }
                alternatives(f, &items, |f, item| f.write_str(item))
            }
            Self::Free => f.write_str("a map of your own"),
        }
    }
}

fn alternatives<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    write: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(if index + 1 == items.len() { " or " } else { ", " })?;
        }
        write(f, item)?;
    }
    Ok(())
}
