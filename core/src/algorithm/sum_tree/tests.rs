//! Compares the tree with a sorted map, and counts what its methods visit.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{Entry, SumTree, visits};

#[derive(Clone, Copy, Debug, PartialEq)]
struct Weighted(u64, u64);

impl Entry for Weighted {
    type Key = u64;

    fn key(&self) -> u64 {
        self.0
    }

    fn weight(&self) -> u64 {
        self.1
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(u64, u64),
    Remove(u64),
    PopFirst,
    /// Drops the entries up to a key.
    DropFront(u64),
    /// Drops the entries behind a sum of weights.
    DropBehind(u64),
    /// Takes the entries between two keys out, and appends those behind.
    CutOut(u64, u64),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let key = || 0..600_u64;
    let change = prop_oneof![
        120 => (key(), 0..4_u64).prop_map(|(key, weight)| Change::Insert(key, weight)),
        40 => key().prop_map(Change::Remove),
        20 => Just(Change::PopFirst),
        1 => (0..60_u64).prop_map(Change::DropFront),
        1 => (300..900_u64).prop_map(Change::DropBehind),
        4 => (key(), 0..40_u64).prop_map(|(from, length)| Change::CutOut(from, from + length)),
    ];
    proptest::collection::vec(change, 1..900)
}

fn apply(tree: &mut SumTree<Weighted>, model: &mut BTreeMap<u64, u64>, change: Change) {
    match change {
        Change::Insert(key, weight) => {
            tree.insert(Weighted(key, weight));
            model.insert(key, weight);
        }
        Change::Remove(key) => {
            assert_eq!(tree.remove(key).map(|entry| entry.1), model.remove(&key));
        }
        Change::PopFirst => {
            assert_eq!(tree.pop_first().map(|entry| (entry.0, entry.1)), model.pop_first());
        }
        Change::DropFront(last) => {
            tree.split_front(|key, _| key <= last);
            model.retain(|key, _| *key > last);
        }
        Change::DropBehind(most) => {
            *tree = tree.split_front(|_, sum| sum <= most);
            let mut sum = 0;
            model.retain(|_, weight| {
                sum += *weight;
                sum <= most
            });
        }
        Change::CutOut(from, to) => {
            let mut front = tree.split_front(|key, _| key < from);
            tree.split_front(|key, _| key < to);
            front.append(core::mem::take(tree));
            *tree = front;
            model.retain(|key, _| !(from..to).contains(key));
        }
    }
}

fn is_equal(tree: &SumTree<Weighted>, model: &BTreeMap<u64, u64>) -> bool {
    let entries = || model.iter().map(|(key, weight)| Weighted(*key, *weight));
    let weightless: Vec<_> = entries().filter(|entry| entry.1 == 0).collect();
    tree.iter().copied().eq(entries())
        && (tree.len(), tree.is_empty()) == (model.len(), model.is_empty())
        && tree.sum() == model.values().sum::<u64>()
        && tree.first().copied() == entries().next()
        && tree.last().copied() == entries().next_back()
        && tree.weightless() == weightless
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_tree_is_a_sorted_map_with_sums(changes in changes(), built in 0..300_u64) {
        let built: Vec<_> = (0..built).map(|key| Weighted(2 * key, key % 4)).collect();
        let mut tree = SumTree::from_sorted(&built);
        let mut model: BTreeMap<u64, u64> = built.iter().map(|entry| (entry.0, entry.1)).collect();
        prop_assert!(is_equal(&tree, &model));
        for changes in changes.chunks(8) {
            // A copy has what it had, whatever happens to the tree.
            let copied = (tree.clone(), model.clone());
            for change in changes {
                apply(&mut tree, &mut model, *change);
                tree.assert_balanced();
            }
            prop_assert!(is_equal(&tree, &model), "after {:?}", changes);
            prop_assert!(is_equal(&copied.0, &copied.1), "a copy after {:?}", changes);
        }
        for key in 0..620 {
            prop_assert_eq!(tree.get(key).map(|entry| entry.1), model.get(&key).copied());
            let behind = tree.first_behind(|_, sum| sum < key).map(|entry| entry.0);
            let mut sum = 0;
            let expected = model.iter().find(|(_, weight)| {
                sum += **weight;
                sum >= key
            });
            prop_assert_eq!(behind, expected.map(|(key, _)| *key));
        }
    }
}

#[test]
fn equal_entries_are_equal_however_they_came_there() {
    let entries: Vec<_> = (0..500).map(|key| Weighted(key, 1)).collect();
    let mut inserted = SumTree::default();
    for entry in entries.iter().rev() {
        inserted.insert(*entry);
    }
    let built = SumTree::from_sorted(&entries);
    assert_eq!(inserted, built);
    inserted.insert(Weighted(250, 2));
    assert_ne!(inserted, built);
    assert_ne!(SumTree::default(), built);
}

#[test]
fn a_sum_that_is_too_large_is_the_largest() {
    let mut tree = SumTree::from_sorted(&[Weighted(1, u64::MAX), Weighted(2, 5)]);
    assert_eq!(tree.sum(), u64::MAX);
    tree.remove(1);
    assert_eq!(tree.sum(), 5);
}

type Method = fn(&mut SumTree<Weighted>);

#[test]
fn every_method_visits_one_node_of_each_level_or_a_few() {
    let entries: Vec<_> = (0..100_000).map(|key| Weighted(2 * key, 1)).collect();
    let tree = SumTree::from_sorted(&entries);
    let methods: [(&str, Method); 9] = [
        ("clone", |tree| assert_eq!(tree.clone().len(), tree.len())),
        ("last", |tree| assert!(tree.last().is_some())),
        ("get", |tree| assert!(tree.get(77_776).is_some())),
        ("insert", |tree| tree.insert(Weighted(77_777, 1))),
        ("remove", |tree| assert!(tree.remove(77_776).is_some())),
        ("pop_first", |tree| assert!(tree.pop_first().is_some())),
        ("first_behind", |tree| assert!(tree.first_behind(|_, sum| sum < 77_777).is_some())),
        ("split_front", |tree| assert_eq!(tree.split_front(|key, _| key < 77_776).len(), 77_776 / 2)),
        ("append", |tree| tree.append(SumTree::from_sorted(&[Weighted(200_001, 1)]))),
    ];
    // The tree has four levels of up to 32 items, and splitting it concatenates what is beside the way.
    for (name, method) in methods {
        let mut copy = tree.clone();
        let visited = visits::during(|| method(&mut copy));
        assert!(visited <= 4 * 4 * 32, "{name} visits {visited} items");
        assert_eq!(tree.len(), entries.len(), "the original is unchanged");
    }
}
