//! How rules of the form `descriptors` are explained.

use super::rules::{charge, shown};
use super::{DescriptorOutcome, ExplainedDescriptor, ShownValue};
use crate::matching::{Descriptor, Match};
use crate::rule_set::Domain;

pub(super) fn explain<'m, 'r: 'm, I: Iterator<Item = Match<'m, 'r>>>(
    domain: &Domain,
    descriptor: &impl Descriptor,
    index: usize,
    matched: impl Fn() -> I,
) -> ExplainedDescriptor {
    let identifiers = &domain.model.identifiers;
    let entries: Vec<(String, ShownValue)> = (0..)
        .map_while(|at| descriptor.entry(at))
        .map(|(key, value)| (key.to_owned(), shown(identifiers, key, Some(value))))
        .collect();
    let walk = domain.matcher.walk(descriptor);
    let found = matched().find(Match::is_descriptor_rule);
    let outcome = match found {
        Some(one) => {
            let open = walk.open.iter().filter_map(|at| entries.get(*at));
            let key: Vec<_> = open.map(|(key, value)| format!("{key} {value}")).collect();
            let key = if key.is_empty() { "all requests together".to_owned() } else { key.join(", ") };
            DescriptorOutcome::Applies(charge(&one, key))
        }
        None if walk.depth < entries.len() => DescriptorOutcome::Unmatched { matched: walk.depth },
        None if walk.has_limit => DescriptorOutcome::Replaced,
        None => DescriptorOutcome::NoLimit,
    };
    ExplainedDescriptor { index, entries, path: walk.path.to_owned(), outcome }
}
