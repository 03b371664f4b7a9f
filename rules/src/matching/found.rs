//! One match of a request.

use tollgate_core::{Charge, Key, Limit};

use super::matched::{Effect, Item, Matched, Origin};
use crate::model::OnStoreError;

/// A rule or descriptor that matched, with one of its limits.
#[derive(Clone, Copy, Debug)]
pub struct Match<'m, 'r> {
    matched: &'m Matched<'r>,
    item: &'m Item<'r>,
}

impl<'m, 'r> Match<'m, 'r> {
    pub(super) fn new(matched: &'m Matched<'r>, item: &'m Item<'r>) -> Self {
        Self { matched, item }
    }

    /// Returns the domain.
    pub fn domain(&self) -> &'r str {
        self.matched.domain()
    }

    /// Returns the name: of the rule, or of the descriptor's limit, or else the keys and values that lead to the
    /// descriptor in the rule file.
    pub fn name(&self) -> &'r str {
        match self.item.origin {
            Origin::Rule(rule) => &rule.name,
            Origin::Descriptor(node) => node.name(),
        }
    }

    /// Returns what the rule does to the request.
    pub fn effect(&self) -> Effect<'r> {
        self.item.effect
    }

    /// Returns the limit, if the request is counted.
    pub fn limit(&self) -> Option<&'r Limit> {
        self.item.limit()
    }

    /// Returns whom the limit counts: in the namespace of the domain, the values of `per`, or those that the path of
    /// the descriptor leaves open.
    pub fn key(&self) -> Key<'m> {
        let domain: &'m str = self.matched.domain();
        Key::new(domain, self.item.key.of(&self.matched.keys))
    }

    /// Returns what the request costs. Where several descriptors lead to one counter, the largest cost is charged.
    pub fn cost(&self) -> u32 {
        self.item.cost
    }

    /// Returns the charge, if the request is counted.
    pub fn charge(&self) -> Option<Charge<'m>> {
        self.limit().map(|limit| limit.charge(self.key()).with_cost(self.cost()))
    }

    /// Returns the place of the charge among [`Matched::charges`], or among [`Matched::shadow_charges`] in shadow
    /// mode. Matches of several descriptors that lead to one counter have the same.
    pub fn charge_index(&self) -> Option<usize> {
        self.limit().map(|_| self.item.charge as usize)
    }

    /// Returns whether an earlier descriptor leads to the same counter, which is charged once.
    pub fn is_repeated(&self) -> bool {
        self.item.is_repeated
    }

    /// Returns whether the request is counted but never denied.
    pub fn shadow(&self) -> bool {
        self.item.shadow()
    }

    /// Returns whether the request is denied only if all descriptors in quota mode are over their limit.
    pub fn quota_mode(&self) -> bool {
        self.item.quota_mode()
    }

    /// Returns whether the rule denies the request, whatever the store says.
    pub fn is_denied(&self) -> bool {
        self.item.is_denied()
    }

    /// Returns what decides while the store fails, if the rule says so.
    pub fn on_store_error(&self) -> Option<OnStoreError> {
        match self.item.origin {
            Origin::Rule(rule) => rule.on_store_error,
            Origin::Descriptor(_) => None,
        }
    }

    /// Returns the index of the descriptor that matched. `None` if the request was matched by its attributes.
    pub fn descriptor(&self) -> Option<usize> {
        self.item.descriptor.map(|index| index as usize)
    }

    /// Returns whether this is a rule of the form `descriptors`.
    pub fn is_descriptor_rule(&self) -> bool {
        matches!(self.item.origin, Origin::Descriptor(_))
    }

    /// Returns the place of the rule among those of the form `rules`.
    pub(crate) fn rule_number(&self) -> Option<usize> {
        match self.item.origin {
            Origin::Rule(rule) => Some(rule.number as usize),
            Origin::Descriptor(_) => None,
        }
    }

    /// Returns the name for metrics. For a descriptor the one of the reference service, `domain.key_value.key`; it has
    /// values of the request where `detailed_metric` or `value_to_metric` says so.
    pub fn metric(&self) -> &'m str {
        match (self.item.origin, &self.item.metric) {
            (_, Some(range)) => &self.matched.metrics[range.clone()],
            (Origin::Rule(rule), None) => &rule.name,
            (Origin::Descriptor(node), None) => &node.metric,
        }
    }

    /// Returns the metadata of the descriptor.
    pub fn metadata(&self) -> Option<&'r serde_json::Map<String, serde_json::Value>> {
        match self.item.origin {
            Origin::Rule(_) => None,
            Origin::Descriptor(node) => node.metadata.as_ref(),
        }
    }
}
