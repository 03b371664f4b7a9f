//! The nodes of a tree: a B+ tree that keeps the totals of each node beside it.
//!
//! All leaves are at the same depth, and every node except the root has at least [`MIN_WIDTH`] items, so the depth is
//! logarithmic. A method that can make a node too wide returns the rest, which belongs behind it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use super::Entry;

/// The most items of a node: entries of a leaf, children of a branch.
const MAX_WIDTH: usize = 32;
/// The fewest items of a node that is not the root.
const MIN_WIDTH: usize = MAX_WIDTH / 4;

/// A node, and the totals of its entries.
#[derive(Clone)]
pub(super) struct Subtree<E: Entry> {
    node: Arc<Node<E>>,
    last_key: E::Key,
    totals: Totals,
}

#[derive(Clone)]
pub(super) enum Node<E: Entry> {
    Leaf(Vec<E>),
    Branch {
        /// How far the leaves are away.
        height: usize,
        children: Vec<Subtree<E>>,
    },
}

/// What entries add up to. The default is that of none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    sum: u64,
    len: usize,
    /// How many entries have no weight.
    weightless: usize,
}

impl Totals {
    pub(super) fn of(entry: &impl Entry) -> Self {
        let weight = entry.weight();
        Self { sum: weight, len: 1, weightless: usize::from(weight == 0) }
    }

    fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum.saturating_add(other.sum),
            len: self.len + other.len,
            weightless: self.weightless + other.weightless,
        }
    }

    /// Returns the totals without some of the entries. `None` if the sum is too large to tell.
    fn without(self, other: Self) -> Option<Self> {
        (self.sum < u64::MAX).then(|| Self {
            sum: self.sum - other.sum,
            len: self.len - other.len,
            weightless: self.weightless - other.weightless,
        })
    }
}

impl<E: Entry> Node<E> {
    fn width(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Branch { children, .. } => children.len(),
        }
    }

    fn height(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::Branch { height, .. } => *height,
        }
    }

    fn last_key(&self) -> E::Key {
        let last = match self {
            Self::Leaf(entries) => entries.last().map(Entry::key),
            Self::Branch { children, .. } => children.last().map(Subtree::last_key),
        };
        let Some(last) = last else { unreachable!("a node has items") };
        last
    }

    fn totals(&self) -> Totals {
        match self {
            Self::Leaf(entries) => entries.iter().map(Totals::of).fold(Totals::default(), Totals::and),
            Self::Branch { children, .. } => {
                children.iter().map(|child| child.totals).fold(Totals::default(), Totals::and)
            }
        }
    }
}

impl<E: Entry> From<Node<E>> for Subtree<E> {
    fn from(node: Node<E>) -> Self {
        Self { last_key: node.last_key(), totals: node.totals(), node: Arc::new(node) }
    }
}

impl<E: Entry> Subtree<E> {
    pub(super) fn leaf(entries: Vec<E>) -> Self {
        Node::Leaf(entries).into()
    }

    /// Returns leaves for entries in order. The last one may be too narrow.
    pub(super) fn leaves(entries: &[E]) -> impl Iterator<Item = Self> {
        entries.chunks(MAX_WIDTH).map(|entries| Self::leaf(entries.to_vec()))
    }

    /// Returns a root above two subtrees of the same height.
    pub(super) fn above(front: Self, behind: Self) -> Self {
        Node::Branch { height: front.node.height() + 1, children: Vec::from([front, behind]) }.into()
    }

    /// Returns a root above some children of a branch.
    fn above_some(height: usize, mut children: Vec<Self>) -> Option<Self> {
        if children.len() > 1 { Some(Node::Branch { height, children }.into()) } else { children.pop() }
    }

    pub(super) fn node(&self) -> &Node<E> {
        #[cfg(test)]
        visits::count(self.node.width());
        &self.node
    }

    /// Returns the node, to change it: a copy of its own, if it is shared.
    fn node_mut(&mut self) -> &mut Node<E> {
        #[cfg(test)]
        visits::count(self.node.width());
        Arc::make_mut(&mut self.node)
    }

    fn into_node(self) -> Node<E> {
        #[cfg(test)]
        visits::count(self.node.width());
        Arc::unwrap_or_clone(self.node)
    }

    fn is_narrow(&self) -> bool {
        self.node.width() < MIN_WIDTH
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }

    pub(super) fn len(&self) -> usize {
        self.totals.len
    }

    pub(super) fn sum(&self) -> u64 {
        self.totals.sum
    }

    pub(super) fn last_key(&self) -> E::Key {
        self.last_key
    }

    pub(super) fn last(&self) -> Option<&E> {
        let mut subtree = self;
        loop {
            match subtree.node() {
                Node::Branch { children, .. } => subtree = children.last()?,
                Node::Leaf(entries) => return entries.last(),
            }
        }
    }

    pub(super) fn get(&self, key: E::Key) -> Option<&E> {
        let mut subtree = self;
        while key <= subtree.last_key() {
            match subtree.node() {
                Node::Branch { children, .. } => {
                    subtree = children.get(children.partition_point(|child| child.last_key() < key))?;
                }
                Node::Leaf(entries) => {
                    return entries.binary_search_by_key(&key, Entry::key).ok().map(|index| &entries[index]);
                }
            }
        }
        None
    }

    pub(super) fn first_behind(&self, is_in_front: &impl Fn(E::Key, u64) -> bool) -> Option<&E> {
        let (mut subtree, mut before) = (self, 0);
        loop {
            let index;
            (index, before) = subtree.front(before, is_in_front);
            match subtree.node() {
                Node::Branch { children, .. } => subtree = children.get(index)?,
                Node::Leaf(entries) => return entries.get(index),
            }
        }
    }

    /// Returns how many items of the node are in front, and the sum of all weights up to there. `before` is the sum of
    /// the weights before this node.
    fn front(&self, before: u64, is_in_front: &impl Fn(E::Key, u64) -> bool) -> (usize, u64) {
        let (mut index, mut sum) = (0, before);
        let mut passes = |last_key, weight| {
            let with = sum.saturating_add(weight);
            let passes = is_in_front(last_key, with);
            if passes {
                (index, sum) = (index + 1, with);
            }
            passes
        };
        match self.node() {
            Node::Leaf(entries) => entries.iter().all(|entry| passes(entry.key(), entry.weight())),
            Node::Branch { children, .. } => {
                children.iter().all(|child| passes(child.last_key(), child.sum()))
            }
        };
        (index, sum)
    }

    pub(super) fn collect_weightless(&self, found: &mut Vec<E>) {
        if self.totals.weightless == 0 {
            return;
        }
        match self.node() {
            Node::Leaf(entries) => found.extend(entries.iter().filter(|entry| entry.weight() == 0)),
            Node::Branch { children, .. } => {
                for child in children {
                    child.collect_weightless(found);
                }
            }
        }
    }

    /// Inserts an entry in place of the one with its key, whose totals are `before`; the default if there is none.
    pub(super) fn insert(&mut self, entry: E, before: Totals) -> Option<Self> {
        let key = entry.key();
        // Most entries are added at the end.
        let is_last = self.last_key < key;
        match self.node_mut() {
            Node::Leaf(entries) if is_last => entries.push(entry),
            Node::Leaf(entries) => match entries.binary_search_by_key(&key, Entry::key) {
                Ok(index) => entries[index] = entry,
                Err(index) => entries.insert(index, entry),
            },
            Node::Branch { children, .. } => {
                let index = if is_last {
                    children.len() - 1
                } else {
                    children.partition_point(|child| child.last_key < key)
                };
                if let Some(rest) = children[index].insert(entry, before) {
                    children.insert(index + 1, rest);
                }
            }
        }
        self.update(before, Totals::of(&entry));
        self.take_rest()
    }

    /// Removes the first entry that is not in front, whose totals are `before`. There are others.
    pub(super) fn remove(&mut self, is_in_front: &impl Fn(E::Key) -> bool, before: Totals) {
        match self.node_mut() {
            Node::Leaf(entries) => {
                entries.remove(entries.partition_point(|entry| is_in_front(entry.key())));
            }
            Node::Branch { children, .. } => {
                let index = children.partition_point(|child| is_in_front(child.last_key));
                children[index].remove(is_in_front, before);
                if children[index].is_narrow() {
                    // Every branch has two children at least.
                    let front = index.max(1) - 1;
                    let behind = children.remove(front + 1);
                    if let Some(rest) = children[front].merge(behind) {
                        children.insert(front + 1, rest);
                    }
                }
            }
        }
        self.update(before, Totals::default());
    }

    /// Updates the totals after one entry has changed.
    fn update(&mut self, before: Totals, after: Totals) {
        self.last_key = self.node.last_key();
        let others = self.totals.without(before);
        self.totals = others.map_or_else(|| self.node.totals(), |others| others.and(after));
    }

    /// Returns the subtree without the branches at its root that have one child only.
    pub(super) fn without_single_children(mut self) -> Self {
        while let Node::Branch { children, .. } = &*self.node
            && let [child] = &children[..]
        {
            self = child.clone();
        }
        self
    }

    /// Separates the entries in front from the rest. `before` is the sum of the weights before this subtree.
    pub(super) fn split(
        self,
        before: u64,
        is_in_front: &impl Fn(E::Key, u64) -> bool,
    ) -> (Option<Self>, Option<Self>) {
        let (index, before) = self.front(before, is_in_front);
        match self.into_node() {
            Node::Leaf(mut entries) => {
                let behind = entries.split_off(index);
                let leaf = |entries: Vec<E>| (!entries.is_empty()).then(|| Self::leaf(entries));
                (leaf(entries), leaf(behind))
            }
            Node::Branch { height, mut children } => {
                let mut behind = children.split_off(index);
                let between = if behind.is_empty() { None } else { Some(behind.remove(0)) };
                let (last, first) =
                    between.map_or((None, None), |between| between.split(before, is_in_front));
                (
                    Self::concatenated(Self::above_some(height, children), last),
                    Self::concatenated(first, Self::above_some(height, behind)),
                )
            }
        }
    }

    /// Returns a tree of all entries of two trees, one behind the other.
    pub(super) fn concatenated(front: Option<Self>, behind: Option<Self>) -> Option<Self> {
        let (mut front, mut behind) = match (front, behind) {
            (Some(front), Some(behind)) => (front, behind),
            (front, behind) => return front.or(behind),
        };
        let (root, rest) = if front.node.height() >= behind.node.height() {
            let rest = front.attach(behind, true);
            (front, rest)
        } else {
            let rest = behind.attach(front, false);
            (behind, rest)
        };
        Some(match rest {
            None => root,
            Some(rest) => Self::above(root, rest),
        })
    }

    /// Attaches a tree that is not higher, at the end or else at the start.
    fn attach(&mut self, other: Self, at_end: bool) -> Option<Self> {
        if self.node.height() == other.node.height() {
            let behind = if at_end { other } else { mem::replace(self, other) };
            let is_narrow = self.is_narrow() || behind.is_narrow();
            return if is_narrow { self.merge(behind) } else { Some(behind) };
        }
        if let Node::Branch { children, .. } = self.node_mut() {
            let index = if at_end { children.len() - 1 } else { 0 };
            if let Some(rest) = children[index].attach(other, at_end) {
                children.insert(index + 1, rest);
            }
        }
        self.count_again();
        self.take_rest()
    }

    /// Moves the items of the node behind this one, of the same height, to this one.
    fn merge(&mut self, behind: Self) -> Option<Self> {
        match (self.node_mut(), behind.into_node()) {
            (Node::Leaf(entries), Node::Leaf(more)) => entries.extend(more),
            (Node::Branch { children, .. }, Node::Branch { children: more, .. }) => children.extend(more),
            (Node::Leaf(_), Node::Branch { .. }) | (Node::Branch { .. }, Node::Leaf(_)) => {
                unreachable!("the nodes have the same height")
            }
        }
        self.count_again();
        self.take_rest()
    }

    fn count_again(&mut self) {
        (self.last_key, self.totals) = (self.node.last_key(), self.node.totals());
    }

    /// Removes and returns the rest of a node that is too wide. Most entries are added at the end, so most of the items
    /// stay in front, and there is room behind.
    fn take_rest(&mut self) -> Option<Self> {
        const FRONT: usize = MAX_WIDTH + 1 - MIN_WIDTH;
        if self.node.width() <= MAX_WIDTH {
            return None;
        }
        let rest = match self.node_mut() {
            Node::Leaf(entries) => Self::leaf(entries.split_off(FRONT)),
            Node::Branch { height, children } => {
                Node::Branch { height: *height, children: children.split_off(FRONT) }.into()
            }
        };
        self.count_again();
        Some(rest)
    }
}

#[cfg(test)]
impl<E: Entry> super::SumTree<E> {
    pub(super) fn assert_balanced(&self) {
        if let Some(root) = &self.root {
            assert!(root.node.height() == 0 || root.node.width() > 1, "a root has two children");
            root.assert_balanced();
        }
    }
}

#[cfg(test)]
impl<E: Entry> Subtree<E> {
    fn assert_balanced(&self) {
        assert!(self.node.width() <= MAX_WIDTH, "a node has not too many items");
        if let Node::Branch { height, children } = &*self.node {
            for child in children {
                assert_eq!(child.node.height() + 1, *height, "all leaves are at the same depth");
                assert_eq!(child.last_key, child.node.last_key(), "the last key");
                assert_eq!(child.totals, child.node.totals(), "the totals");
                assert!(!child.is_narrow(), "a node has enough items");
                child.assert_balanced();
            }
        }
    }
}

/// Counts the items of all nodes that are looked at or copied, on this thread.
#[cfg(test)]
pub(crate) mod visits {
    use core::cell::Cell;

    std::thread_local! {
        static COUNTED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count(items: usize) {
        COUNTED.set(COUNTED.get() + items);
    }

    /// Returns how many items `work` visits.
    pub(crate) fn during(work: impl FnOnce()) -> usize {
        let before = COUNTED.get();
        work();
        COUNTED.get() - before
    }
}
