//! A sorted sequence with sums: what the algorithms with many entries per key keep them in.
//!
//! A balanced tree whose copies share their nodes: copying it costs nothing, and a change copies the nodes on the way to
//! the changed entry, unless no other copy has them. So a decision can be tried on a copy of a state, however long its
//! log is. Every method is logarithmic in the number of entries, except [`SumTree::iter`] and [`SumTree::from_sorted`];
//! the nodes of entries that are removed together are freed with the last copy that has them.
//!
//! - `subtree`: the nodes, and how they stay balanced.
//! - `iter`: all entries in order.

mod iter;
mod subtree;

use alloc::vec::Vec;
use core::fmt;

use iter::Iter;
#[cfg(test)]
pub(crate) use subtree::visits;
use subtree::{Subtree, Totals};

/// An entry of a [`SumTree`].
pub(crate) trait Entry: Copy + fmt::Debug + PartialEq {
    /// What the entries are sorted by. No two entries of a tree have the same key.
    type Key: Copy + fmt::Debug + Ord;

    fn key(&self) -> Self::Key;

    /// Returns what the entry adds to the sum.
    fn weight(&self) -> u64;
}

/// Entries in the order of their keys.
#[derive(Clone)]
pub(crate) struct SumTree<E: Entry> {
    root: Option<Subtree<E>>,
}

impl<E: Entry> SumTree<E> {
    /// Creates a tree of entries that are sorted by their keys.
    pub(crate) fn from_sorted(entries: &[E]) -> Self {
        let mut tree = Self::default();
        for leaf in Subtree::leaves(entries) {
            tree.append(Self { root: Some(leaf) });
        }
        tree
    }

    pub(crate) fn len(&self) -> usize {
        self.root.as_ref().map_or(0, Subtree::len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Returns the sum of all weights; `u64::MAX` if it is more than that.
    pub(crate) fn sum(&self) -> u64 {
        self.root.as_ref().map_or(0, Subtree::sum)
    }

    pub(crate) fn last_key(&self) -> Option<E::Key> {
        self.root.as_ref().map(Subtree::last_key)
    }

    pub(crate) fn first(&self) -> Option<&E> {
        self.first_behind(|_, _| false)
    }

    pub(crate) fn last(&self) -> Option<&E> {
        self.root.as_ref()?.last()
    }

    pub(crate) fn get(&self, key: E::Key) -> Option<&E> {
        self.root.as_ref()?.get(key)
    }

    /// Returns the first entry that is not in front. `is_in_front` receives an entry's key and the sum of all weights
    /// up to and including its own; it is true for some number of entries from the first one on, and false for the rest.
    pub(crate) fn first_behind(&self, is_in_front: impl Fn(E::Key, u64) -> bool) -> Option<&E> {
        self.root.as_ref()?.first_behind(&is_in_front)
    }

    /// Returns the entries without a weight. Logarithmic for each of them.
    pub(crate) fn weightless(&self) -> Vec<E> {
        let mut found = Vec::new();
        if let Some(root) = &self.root {
            root.collect_weightless(&mut found);
        }
        found
    }

    /// Inserts an entry, in place of the one with the same key if there is one.
    pub(crate) fn insert(&mut self, entry: E) {
        let before = self.get(entry.key()).map_or_else(Totals::default, Totals::of);
        let Some(root) = &mut self.root else {
            self.root = Some(Subtree::leaf(Vec::from([entry])));
            return;
        };
        if let Some(rest) = root.insert(entry, before) {
            self.root = self.root.take().map(|root| Subtree::above(root, rest));
        }
    }

    pub(crate) fn remove(&mut self, key: E::Key) -> Option<E> {
        let entry = *self.get(key)?;
        self.remove_first_behind(&entry, |other| other < key);
        Some(entry)
    }

    /// Removes the first entry, also from a tree that was appended to out of order.
    pub(crate) fn pop_first(&mut self) -> Option<E> {
        let first = *self.first()?;
        self.remove_first_behind(&first, |_| false);
        Some(first)
    }

    /// Removes an entry: the first one that is not in front.
    fn remove_first_behind(&mut self, entry: &E, is_in_front: impl Fn(E::Key) -> bool) {
        self.root = self.root.take().filter(|root| root.len() > 1).map(|mut root| {
            root.remove(&is_in_front, Totals::of(entry));
            root.without_single_children()
        });
    }

    /// Removes and returns the entries in front, with `is_in_front` as in [`first_behind`](Self::first_behind).
    pub(crate) fn split_front(&mut self, is_in_front: impl Fn(E::Key, u64) -> bool) -> Self {
        let Some(root) = self.root.take() else { return Self::default() };
        let (front, behind) = root.split(0, &is_in_front);
        self.root = behind;
        Self { root: front }
    }

    /// Appends entries. Their keys should be greater than those of this tree; otherwise only
    /// [`pop_first`](Self::pop_first) and [`append`](Self::append) work from then on.
    pub(crate) fn append(&mut self, behind: Self) {
        self.root = Subtree::concatenated(self.root.take(), behind.root);
    }

    pub(crate) fn iter(&self) -> Iter<'_, E> {
        Iter::new(self.root.as_ref())
    }
}

impl<E: Entry> Default for SumTree<E> {
    fn default() -> Self {
        Self { root: None }
    }
}

/// Compares the entries. Trees of the same entries may have different nodes.
impl<E: Entry> PartialEq for SumTree<E> {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.root, &other.root) {
            (Some(root), Some(other)) => root.is_same(other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same || self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<E: Entry> fmt::Debug for SumTree<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests;
