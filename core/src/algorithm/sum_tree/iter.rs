//! All entries of a tree, in order.

use alloc::vec::Vec;
use core::slice;

use super::Entry;
use super::subtree::{Node, Subtree};

/// An iterator over the entries of a [`SumTree`](super::SumTree).
pub(crate) struct Iter<'a, E: Entry> {
    /// What is left of the branches on the way to the leaf, the root first.
    branches: Vec<slice::Iter<'a, Subtree<E>>>,
    leaf: slice::Iter<'a, E>,
}

impl<'a, E: Entry> Iter<'a, E> {
    pub(super) fn new(root: Option<&'a Subtree<E>>) -> Self {
        let root = root.map_or(&[][..], slice::from_ref);
        Self { branches: Vec::from([root.iter()]), leaf: [].iter() }
    }
}

impl<'a, E: Entry> Iterator for Iter<'a, E> {
    type Item = &'a E;

    fn next(&mut self) -> Option<&'a E> {
        loop {
            if let Some(entry) = self.leaf.next() {
                return Some(entry);
            }
            match self.branches.last_mut()?.next().map(Subtree::node) {
                None => drop(self.branches.pop()),
                Some(Node::Branch { children, .. }) => self.branches.push(children.iter()),
                Some(Node::Leaf(entries)) => self.leaf = entries.iter(),
            }
        }
    }
}
