//! Random rules of the form `descriptors` and requests, compared with a slow model.

use proptest::prelude::*;
use proptest::sample::select;

use super::random::values;
use super::{Compiled, node};
use crate::matching::glob::tests::slow as slow_glob;
use crate::model::{DescriptorModel, DescriptorQuota};

/// One descriptor: key, value, limit, share, name and replaced name.
type Sketch = (&'static str, &'static str, u8, bool, u8, u8);

fn sketches() -> impl Strategy<Value = Sketch> {
    let values = vec!["", "a", "b", "a*", "*b", "*"];
    (select(vec!["k", "l"]), select(values), 0..5_u8, any::<bool>(), 0..3_u8, 0..3_u8)
}

fn trees() -> impl Strategy<Value = Vec<DescriptorModel>> {
    let level = || prop::collection::vec(sketches(), 0..5);
    prop::collection::vec((sketches(), prop::collection::vec((sketches(), level()), 0..4)), 0..6).prop_map(
        |tree| {
            let leaves = |leaves: Vec<Sketch>| leaves.into_iter().map(|leaf| (leaf, Vec::new())).collect();
            let second = |(sketch, below)| (sketch, siblings(leaves(below)));
            let first = |(sketch, below): (Sketch, Vec<_>)| {
                (sketch, siblings(below.into_iter().map(second).collect()))
            };
            let mut tree = siblings(tree.into_iter().map(first).collect());
            name_limits(&mut tree, "d");
            tree
        },
    )
}

/// Builds nodes with distinct keys and values.
fn siblings(sketches: Vec<(Sketch, Vec<DescriptorModel>)>) -> Vec<DescriptorModel> {
    let mut all: Vec<DescriptorModel> = Vec::new();
    for ((key, value, limit, share, name, replaced), below) in sketches {
        let value = Some(value).filter(|value| !value.is_empty());
        if all.iter().any(|node| *node.key.value == *key && node.value.as_deref() == value) {
            continue;
        }
        let mut node = node(key, value).with(below);
        node.share_threshold = share && value.is_some_and(|value| value.contains('*'));
        node = match limit {
            0 => node,
            1 => node.quota(DescriptorQuota::Unlimited),
            2 => node.blocked(),
            _ => node.limited("later"),
        };
        if node.limit.is_some() {
            let of = |number: u8| ["", "one", "two"][usize::from(number)];
            let named = Some(of(name)).filter(|name| !name.is_empty());
            let replaced = Some(of(replaced)).filter(|name| !name.is_empty() && Some(*name) != named);
            node = node.named(named, replaced.as_slice());
        }
        all.push(node);
    }
    all
}

/// Gives every limit a name of its own.
fn name_limits(nodes: &mut [DescriptorModel], parent: &str) {
    for (index, node) in nodes.iter_mut().enumerate() {
        let name = format!("{parent}.{index}");
        if let Some(DescriptorQuota::Limited(limit)) = node.limit.as_mut().map(|limit| &mut limit.quota) {
            *limit = limit.to_builder().build(&name).expect("valid");
        }
        name_limits(&mut node.descriptors, &name);
    }
}

fn slow_tree<'t>(
    level: &'t [DescriptorModel],
    entries: &[(&str, &str)],
    open: &mut Vec<String>,
) -> Option<&'t DescriptorModel> {
    let ((key, value), below) = entries.split_first()?;
    let of_key = || level.iter().filter(|node| *node.key.value == **key);
    let with = |test: &dyn Fn(&str) -> bool| of_key().find(|node| node.value.as_deref().is_some_and(test));
    let node = with(&|text| text == *value)
        .or_else(|| with(&|text| text.contains('*') && slow_glob(text.as_bytes(), value.as_bytes())))
        .or_else(|| of_key().find(|node| node.value.is_none()))?;
    if node.value.as_deref().is_none_or(|text| text.contains('*') && !node.share_threshold) {
        open.push((*value).to_owned());
    }
    if below.is_empty() { Some(node) } else { slow_tree(&node.descriptors, below, open) }
}

/// Per descriptor: what its limit does, and the values that the key has.
fn slow_descriptors(
    tree: &[DescriptorModel],
    request: &[Vec<(&str, &str)>],
) -> Vec<Option<(String, Vec<String>)>> {
    let found: Vec<_> = request
        .iter()
        .map(|entries| {
            let mut open = Vec::new();
            let limit = slow_tree(tree, entries, &mut open)?.limit.as_ref()?;
            Some((limit, open))
        })
        .collect();
    let replaced: Vec<_> = found.iter().flatten().flat_map(|(limit, _)| &limit.replaces).collect();
    found
        .iter()
        .map(|found| {
            let (limit, open) = found.as_ref()?;
            let is_replaced = limit.name.as_ref().is_some_and(|name| replaced.contains(&name));
            match &limit.quota {
                DescriptorQuota::Unlimited => Some(("unlimited".to_owned(), Vec::new())),
                DescriptorQuota::Blocked { .. } | DescriptorQuota::Limited(_) if is_replaced => None,
                DescriptorQuota::Blocked { .. } => Some(("blocked".to_owned(), Vec::new())),
                DescriptorQuota::Limited(limit) => Some((limit.name().to_owned(), open.clone())),
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn descriptors_match_as_the_slow_model(
        tree in trees(),
        request in prop::collection::vec(
            prop::collection::vec((select(vec!["k", "l"]), select(vec!["a", "b", "ab", "c", "", "a*"])), 0..4),
            1..5,
        ),
    ) {
        use crate::matching::Effect;
        let compiled = Compiled::descriptors(tree.clone());
        let matched = compiled.match_descriptors(&request);
        let expected = slow_descriptors(&tree, &request);
        let mut counters = Vec::new();
        for (index, expected) in expected.iter().enumerate() {
            let found: Vec<_> = matched.of_descriptor(index).collect();
            prop_assert!(found.len() <= 1);
            let done = found.first().map(|one| match one.effect() {
                Effect::Unlimited => ("unlimited".to_owned(), Vec::new()),
                Effect::Blocked { .. } => ("blocked".to_owned(), Vec::new()),
                Effect::Denied => ("denied".to_owned(), Vec::new()),
                Effect::Limited(limit) => {
                    let count = expected.as_ref().map_or(0, |(_, open)| open.len());
                    (limit.name().to_owned(), values(one.key().entity(), count))
                }
            });
            prop_assert_eq!(&done, expected, "descriptor {}", index);
            if let (Some(done), Some(charge)) = (done, found.first().and_then(crate::matching::Match::charge_index)) {
                if !counters.contains(&done) {
                    counters.push(done.clone());
                }
                prop_assert_eq!(counters.iter().position(|counter| *counter == done), Some(charge));
            }
        }
        prop_assert_eq!(matched.charges().len(), counters.len());
    }
}
