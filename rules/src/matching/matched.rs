//! What a request matched, and what it is charged.

use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Charge, Limit};

use super::compiled::Rule;
use super::descriptors::Node;
use super::found::Match;
use super::key::{KeyBytes, KeyRange};

/// What a request matched in the rules of a domain.
///
/// It borrows the rules; the keys are its own, so that charges borrow it.
#[derive(Debug)]
pub struct Matched<'r> {
    domain: &'r str,
    descriptors: usize,
    pub(super) items: SmallVec<[Item<'r>; 4]>,
    pub(super) keys: KeyBytes,
    /// Names of metrics that depend on values.
    pub(super) metrics: String,
}

/// A rule that matched, with one of its limits.
#[derive(Clone, Debug)]
pub(super) struct Item<'r> {
    pub(super) origin: Origin<'r>,
    pub(super) effect: Effect<'r>,
    pub(super) key: KeyRange,
    pub(super) metric: Option<Range<usize>>,
    pub(super) cost: u32,
    pub(super) descriptor: Option<u32>,
    /// Its place among the enforced charges, or among those in shadow mode.
    pub(super) charge: u32,
    /// Another descriptor led to the same counter.
    pub(super) is_repeated: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'r> {
    Rule(&'r Rule),
    Descriptor(&'r Node),
}

/// What a matching rule does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'r> {
    /// It is counted by this limit.
    Limited(&'r Limit),
    /// It passes without being counted.
    Unlimited,
    /// It is denied, whatever the store says: `requests_per_unit: 0`.
    Blocked {
        /// The period of the limit.
        period: Duration,
    },
    /// It is denied, because it lacks an attribute that the rule counts by.
    Denied,
}

impl<'r> Item<'r> {
    pub(super) fn new(origin: Origin<'r>, effect: Effect<'r>, descriptor: Option<u32>) -> Self {
        let (key, metric) = (KeyRange::default(), None);
        Self { origin, effect, key, metric, cost: 1, descriptor, charge: 0, is_repeated: false }
    }

    pub(super) fn limit(&self) -> Option<&'r Limit> {
        match self.effect {
            Effect::Limited(limit) => Some(limit),
            Effect::Unlimited | Effect::Blocked { .. } | Effect::Denied => None,
        }
    }

    pub(super) fn shadow(&self) -> bool {
        match self.origin {
            Origin::Rule(rule) => rule.shadow,
            Origin::Descriptor(node) => node.shadow_mode,
        }
    }

    pub(super) fn quota_mode(&self) -> bool {
        match self.origin {
            Origin::Rule(_) => false,
            Origin::Descriptor(node) => node.quota_mode,
        }
    }

    pub(super) fn is_denied(&self) -> bool {
        match self.effect {
            Effect::Blocked { .. } | Effect::Denied => true,
            Effect::Limited(_) | Effect::Unlimited => false,
        }
    }
}

impl<'r> Matched<'r> {
    pub(super) fn new(domain: &'r str, descriptors: usize) -> Self {
        let (items, keys, metrics) = (SmallVec::new(), KeyBytes::new(), String::new());
        Self { domain, descriptors, items, keys, metrics }
    }

    /// Numbers the charges, once all items are there.
    pub(super) fn finish(mut self) -> Self {
        let firsts = self.merge_counters();
        let (mut enforced, mut shadow) = (0, 0);
        for index in 0..self.items.len() {
            if let Some(first) = firsts.get(index).copied().filter(|first| *first < index) {
                self.items[index].charge = self.items[first].charge;
                self.items[index].is_repeated = true;
                let cost = self.items[index].cost;
                self.items[first].cost = self.items[first].cost.max(cost);
            } else if self.items[index].limit().is_some() {
                let next = if self.items[index].shadow() { &mut shadow } else { &mut enforced };
                self.items[index].charge = *next;
                *next += 1;
            }
        }
        self
    }

    /// Returns, for each item, the first one with the same counter. Empty if all counters differ.
    fn merge_counters(&self) -> SmallVec<[usize; 8]> {
        if self.descriptors < 2 || self.items.len() < 2 {
            return SmallVec::new();
        }
        let counter = |index: usize| {
            let item = &self.items[index];
            // Every limit belongs to one rule or descriptor.
            (item.limit().map(|limit| std::ptr::from_ref(limit).addr()), item.key.of(&self.keys))
        };
        let mut firsts: SmallVec<[usize; 8]> = (0..self.items.len()).collect();
        let mut sorted = firsts.clone();
        sorted.sort_unstable_by_key(|index| (counter(*index), *index));
        let mut first = sorted[0];
        for index in sorted {
            if self.items[index].limit().is_none() || counter(first) != counter(index) {
                first = index;
            }
            firsts[index] = first;
        }
        firsts
    }

    /// Returns the domain.
    pub fn domain(&self) -> &'r str {
        self.domain
    }

    /// Returns whether no rule applies to the request.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns all matches, those of the first descriptor first, and of one descriptor in the order of the file. A rule
    /// with several limits has as many.
    pub fn iter(&self) -> impl Iterator<Item = Match<'_, 'r>> {
        self.items.iter().map(|item| Match::new(self, item))
    }

    /// Returns the number of descriptors that the request has. 0 if it was matched by its attributes.
    pub fn descriptors(&self) -> usize {
        self.descriptors
    }

    /// Returns the matches of one descriptor. None of them means that nothing limits it.
    pub fn of_descriptor(&self, index: usize) -> impl Iterator<Item = Match<'_, 'r>> {
        // Items are in the order of descriptors.
        let before = |item: &Item<'r>| item.descriptor.is_none_or(|descriptor| (descriptor as usize) < index);
        let start = self.items.partition_point(before);
        let items = self.items[start..].iter();
        items
            .take_while(move |item| item.descriptor.is_some_and(|descriptor| descriptor as usize == index))
            .map(|item| Match::new(self, item))
    }

    /// Returns the charges that decide about the request, each counter once.
    pub fn charges(&self) -> SmallVec<[Charge<'_>; 4]> {
        self.charges_of(false)
    }

    /// Returns the charges of rules in shadow mode, which are counted and never deny.
    pub fn shadow_charges(&self) -> SmallVec<[Charge<'_>; 4]> {
        self.charges_of(true)
    }

    fn charges_of(&self, shadow: bool) -> SmallVec<[Charge<'_>; 4]> {
        let items = self.iter().filter(|one| one.shadow() == shadow && !one.is_repeated());
        items.filter_map(|one| one.charge()).collect()
    }

    /// Returns whether the rules deny the request, whatever the store says: by `missing: deny` or
    /// `requests_per_unit: 0`. Descriptors in quota mode deny it together only.
    pub fn denied(&self) -> bool {
        let enforced = || self.iter().filter(|one| !one.shadow());
        let mut quotas = enforced().filter(Match::quota_mode).peekable();
        enforced().any(|one| one.is_denied() && !one.quota_mode())
            || (quotas.peek().is_some() && quotas.all(|one| one.is_denied()))
    }

    /// Returns the metadata of all matches, merged. Of several values for one name, the one of the last match counts.
    /// `None` if there is none.
    pub fn metadata(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        let maps = self.iter().filter_map(|one| one.metadata());
        maps.fold(None, |merged, map| {
            let mut merged = merged.unwrap_or_default();
            merged.extend(map.clone());
            Some(merged)
        })
    }
}
