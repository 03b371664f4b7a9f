//! Matching: which rules apply to a request, and what they charge.
//!
//! - `compiled`: rules of the form `rules`; `values`: the attributes that they use, and a request's values.
//! - `index`: which rules a request may match. `pattern`: patterns, by `path`, `prefix`, `glob` and `network`.
//! - `descriptors`: rules of the form `descriptors`. `edges`: trees in one table.
//! - `key`: whom a limit counts. `matched`, `found`: the result, and one match of it.

mod compiled;
mod descriptors;
mod edges;
mod found;
mod glob;
mod index;
mod key;
mod matched;
mod network;
mod path;
mod pattern;
mod prefix;
#[cfg(test)]
pub(crate) mod tests;
mod values;

pub use descriptors::Descriptor;
pub use found::Match;
pub use matched::{Effect, Matched};

use std::borrow::Cow;

use smallvec::SmallVec;

use self::compiled::{Application, AppliedLimits, Rule};
use self::descriptors::Tree;
use self::index::{RuleIndex, Selectivity};
use self::key::KeyWriter;
use self::matched::{Item, Origin};
use self::values::{AttributeNames, AttributeTable, Values};
use crate::attributes::Attributes;
use crate::model::{DescriptorQuota, DomainModel};

/// The rules of a domain, ready to be matched.
#[derive(Debug)]
pub(crate) struct Matcher {
    attributes: AttributeTable,
    rules: Vec<Rule>,
    index: RuleIndex,
    tree: Tree,
}

/// How far a descriptor matches.
pub(crate) struct Walk<'r> {
    /// How many of its entries do.
    pub(crate) depth: usize,
    /// The keys and values of the rule file that they match.
    pub(crate) path: &'r str,
    pub(crate) has_limit: bool,
    /// The entries whose values are part of the key.
    pub(crate) open: Vec<usize>,
}

impl Matcher {
    pub(crate) fn new(model: &DomainModel) -> Self {
        let mut names = AttributeNames::new(&model.identifiers);
        let selectivity = Selectivity::of(&model.rules);
        let mut index = RuleIndex::default();
        let mut rules = Vec::with_capacity(model.rules.len());
        for (number, rule) in (0..).zip(&model.rules) {
            let best = selectivity.best(rule);
            index.insert(number, best.map(|at| &rule.when[at]), &mut names);
            rules.push(Rule::new(rule, number, best, &mut names));
        }
        let tree = Tree::new(&model.name.value, &model.descriptors, &model.identifiers);
        Self { attributes: names.build(), rules, index, tree }
    }

    pub(crate) fn match_attributes<'r>(
        &'r self,
        domain: &'r str,
        attributes: &(impl Attributes + ?Sized),
    ) -> Matched<'r> {
        let mut matched = Matched::new(domain, 0);
        self.match_rules(attributes, None, &mut matched);
        matched.finish()
    }

    pub(crate) fn match_descriptors<'r>(
        &'r self,
        domain: &'r str,
        descriptors: &[impl Descriptor],
    ) -> Matched<'r> {
        let mut matched = Matched::new(domain, descriptors.len());
        for (index, descriptor) in (0..).zip(descriptors) {
            self.match_tree(descriptor, index, &mut matched);
            self.match_rules(&Entries(descriptor), Some(index), &mut matched);
        }
        drop_replaced(&mut matched);
        matched.finish()
    }

    /// Follows a descriptor as far as it matches, for an explanation.
    pub(crate) fn walk(&self, descriptor: &impl Descriptor) -> Walk<'_> {
        let found = self.tree.walk(descriptor);
        let last = self.tree.last(&found);
        let has_limit = last.is_some_and(|node| node.limit.is_some());
        let open = self.tree.open_entries(&found).collect();
        Walk { depth: found.depth(), path: last.map_or("", |node| &node.path), has_limit, open }
    }

    fn match_rules<'r, A: Attributes + ?Sized>(
        &'r self,
        attributes: &A,
        descriptor: Option<u32>,
        matched: &mut Matched<'r>,
    ) {
        if self.rules.is_empty() {
            return;
        }
        let mut values = Values::new(attributes, &self.attributes);
        let mut highest = i32::MIN;
        let mut found: SmallVec<[u32; 8]> = SmallVec::new();
        for index in self.index.candidates(&mut values) {
            let rule = &self.rules[index as usize];
            if rule.priority < highest || !rule.holds(&mut values) {
                continue;
            }
            if let Application::Skipped = rule.apply(&mut values) {
                continue;
            }
            if rule.priority > highest {
                highest = rule.priority;
                found.clear();
            }
            found.push(index);
        }
        // In the order of the file. A rule with several patterns may have been found by more than one.
        found.sort_unstable();
        found.dedup();
        for index in found {
            charge_rule(&self.rules[index as usize], &mut values, descriptor, matched);
        }
    }

    fn match_tree<'r>(&'r self, descriptor: &impl Descriptor, index: u32, matched: &mut Matched<'r>) {
        if self.tree.is_empty() {
            return;
        }
        let Some((node, found)) = self.tree.find(descriptor) else { return };
        let Some(limit) = &node.limit else { return };
        let effect = match &limit.quota {
            DescriptorQuota::Unlimited => Effect::Unlimited,
            DescriptorQuota::Blocked { period } => Effect::Blocked { period: *period },
            DescriptorQuota::Limited(limit) => Effect::Limited(limit),
        };
        let mut item = Item::new(Origin::Descriptor(node), effect, Some(index));
        let mut key = KeyWriter::new(&mut matched.keys);
        self.tree.write_key(&found, descriptor, &mut key);
        item.key = key.end();
        let start = matched.metrics.len();
        if self.tree.write_metric(&found, descriptor, matched.domain(), &mut matched.metrics) {
            item.metric = Some(start..matched.metrics.len());
        }
        matched.items.push(item);
    }
}

/// Adds what a rule that applies does to a request.
fn charge_rule<'r, A: Attributes + ?Sized>(
    rule: &'r Rule,
    values: &mut Values<'_, A>,
    descriptor: Option<u32>,
    matched: &mut Matched<'r>,
) {
    let origin = Origin::Rule(rule);
    let (limits, shared) = match rule.apply(values) {
        Application::Skipped => return,
        Application::Denied => return matched.items.push(Item::new(origin, Effect::Denied, descriptor)),
        Application::Counted { limits, shared } => (limits, shared),
    };
    let limits = match limits {
        AppliedLimits::Unlimited => {
            return matched.items.push(Item::new(origin, Effect::Unlimited, descriptor));
        }
        AppliedLimits::All(limits) => limits,
    };
    let mut key = KeyWriter::new(&mut matched.keys);
    match shared {
        Some(name) => key.shared(name),
        None => {
            for (attribute, form) in &rule.per {
                key.value(*form, values.get(*attribute).unwrap_or_default());
            }
        }
    }
    let key = key.end();
    for limit in limits {
        let mut item = Item::new(origin, Effect::Limited(&limit.limit), descriptor);
        (item.key, item.cost) = (key, limit.cost.of(values));
        matched.items.push(item);
    }
}

/// Drops limits of descriptors that others replace.
fn drop_replaced(matched: &mut Matched<'_>) {
    let mut replaced: SmallVec<[&str; 4]> = SmallVec::new();
    for item in &matched.items {
        if let Origin::Descriptor(node) = item.origin {
            for name in node.limit.iter().flat_map(|limit| &limit.replaces) {
                if !replaced.contains(&&**name) {
                    replaced.push(name);
                }
            }
        }
    }
    if replaced.is_empty() {
        return;
    }
    matched.items.retain(|item| match (item.origin, item.effect) {
        (Origin::Rule(_), _) | (Origin::Descriptor(_), Effect::Unlimited) => true,
        (Origin::Descriptor(node), Effect::Limited(_) | Effect::Blocked { .. } | Effect::Denied) => {
            let name = node.limit.as_ref().and_then(|limit| limit.name.as_deref());
            name.is_none_or(|name| !replaced.contains(&name))
        }
    });
}

/// The entries of a descriptor as attributes; the first of several with the same key counts.
pub(crate) struct Entries<'d, D: ?Sized>(pub(crate) &'d D);

impl<D: Descriptor + ?Sized> Attributes for Entries<'_, D> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut entries = (0..).map_while(|index| self.0.entry(index));
        entries.find(|(key, _)| *key == name).map(|(_, value)| Cow::Borrowed(value))
    }
}
