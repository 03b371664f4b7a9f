//! Which rules a request may match: each rule is found by one of its conditions, the most selective one.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use super::pattern::PatternIndex;
use super::values::{AttributeId, AttributeNames, Values};
use crate::attributes::Attributes;
use crate::model::{Condition, Pattern, RuleModel, Test};

/// Rules by one of their conditions.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    attributes: Vec<AttributeIndex>,
    /// Rules without a condition that an index could check.
    always: Vec<u32>,
}

#[derive(Debug)]
struct AttributeIndex {
    attribute: AttributeId,
    patterns: PatternIndex,
    /// Rules that need only that the attribute is there.
    present: Vec<u32>,
}

/// Indexes of rules, of which some may be there twice.
pub(super) type Candidates = SmallVec<[u32; 32]>;

impl RuleIndex {
    /// Adds a rule, found by one of its conditions.
    pub(super) fn insert(&mut self, rule: u32, by: Option<&Condition>, names: &mut AttributeNames<'_>) {
        let Some(condition) = by else { return self.always.push(rule) };
        let attribute = names.id(&condition.attribute.value);
        let place = self.attributes.iter().position(|index| index.attribute == attribute);
        let place = place.unwrap_or_else(|| {
            let (patterns, present) = (PatternIndex::default(), Vec::new());
            self.attributes.push(AttributeIndex { attribute, patterns, present });
            self.attributes.len() - 1
        });
        let index = &mut self.attributes[place];
        match &condition.test {
            Test::OneOf(patterns) => {
                for pattern in patterns {
                    index.patterns.insert(pattern, rule);
                }
            }
            Test::Present => index.present.push(rule),
            Test::NoneOf(_) | Test::Absent => self.always.push(rule),
        }
    }

    /// Finds the rules whose indexed condition holds.
    pub(super) fn candidates<A: Attributes + ?Sized>(&self, values: &mut Values<'_, A>) -> Candidates {
        let mut found = Candidates::new();
        for AttributeIndex { attribute, patterns, present } in &self.attributes {
            if let Some(value) = values.get(*attribute) {
                patterns.for_each_match(value, |rule| found.push(rule));
                found.extend_from_slice(present);
            }
        }
        found.extend_from_slice(&self.always);
        found
    }
}

/// How often conditions occur in a domain, by which the most selective condition of a rule is chosen.
pub(super) struct Selectivity<'m> {
    patterns: HashMap<(&'m str, Shape<'m>), u64, RandomState>,
    attributes: HashMap<&'m str, u64, RandomState>,
}

/// What conditions have in common that hold for the same values.
#[derive(PartialEq, Eq, Hash)]
enum Shape<'m> {
    Present,
    Exact(&'m str),
    Prefix(&'m str),
    Path(&'m str),
    Glob(&'m str),
    Network,
}

impl<'m> Selectivity<'m> {
    pub(super) fn of(rules: &'m [RuleModel]) -> Self {
        let mut all = Self { patterns: HashMap::default(), attributes: HashMap::default() };
        for condition in rules.iter().flat_map(|rule| &rule.when) {
            let attribute = &*condition.attribute.value;
            let shapes: &mut dyn Iterator<Item = Shape<'m>> = match &condition.test {
                Test::OneOf(patterns) => &mut patterns.iter().map(Shape::of),
                Test::Present => &mut std::iter::once(Shape::Present),
                Test::NoneOf(_) | Test::Absent => continue,
            };
            *all.attributes.entry(attribute).or_default() += 1;
            shapes.for_each(|shape| *all.patterns.entry((attribute, shape)).or_default() += 1);
        }
        all
    }

    /// Returns the index of the condition that finds a rule with the least work.
    pub(super) fn best(&self, rule: &RuleModel) -> Option<usize> {
        let works = rule.when.iter().enumerate().filter_map(|(at, condition)| {
            let (work, common) = self.work(condition)?;
            Some((work, Reverse(common), at))
        });
        works.min().map(|(_, _, at)| at)
    }

    /// Estimates the work to find a rule by a condition: the rules that are found together, and what it costs every
    /// request to look. Also returns how many conditions are on the same attribute.
    fn work(&self, condition: &Condition) -> Option<(u64, u64)> {
        /// What asking for one more attribute costs every request, in rules that are found in vain.
        const ATTRIBUTE: u64 = 10_000;
        let attribute = &*condition.attribute.value;
        let common = *self.attributes.get(attribute)?;
        let together = |shape| self.patterns.get(&(attribute, shape)).copied().unwrap_or(1);
        let found = match &condition.test {
            Test::OneOf(patterns) => {
                let works = patterns.iter().map(|pattern| together(Shape::of(pattern)) * breadth(pattern));
                works.max().unwrap_or(0)
            }
            Test::Present => 8 * together(Shape::Present),
            Test::NoneOf(_) | Test::Absent => return None,
        };
        Some((found + ATTRIBUTE / common, common))
    }
}

impl<'m> Shape<'m> {
    fn of(pattern: &'m Pattern) -> Self {
        match pattern {
            Pattern::Exact(text) => Self::Exact(text),
            Pattern::Prefix(text) => Self::Prefix(text),
            Pattern::Path(text) => Self::Path(text),
            Pattern::Glob(text) => Self::Glob(text),
            Pattern::Network(_) | Pattern::Address(_) => Self::Network,
        }
    }
}

/// Returns how much less a pattern selects than an exact value. Patterns that start with a wildcard are compared with
/// every value.
fn breadth(pattern: &Pattern) -> u64 {
    const EVERY: u64 = 1_000;
    match pattern {
        Pattern::Exact(_) | Pattern::Address(_) => 1,
        Pattern::Network(network) => {
            if network.prefix_len() == 0 {
                EVERY
            } else {
                1
            }
        }
        Pattern::Prefix(text) | Pattern::Glob(text) => {
            if text.is_empty() || text.starts_with('*') {
                EVERY
            } else {
                2
            }
        }
        Pattern::Path(text) => {
            if text.trim_start_matches('/').starts_with('*') {
                EVERY
            } else {
                2
            }
        }
    }
}
