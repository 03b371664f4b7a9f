//! Prefixes of texts, and texts with `*`, in a radix trie.

use smallvec::SmallVec;

use super::glob::Glob;
use super::path::Ids;

/// Many prefixes and globs, found by the bytes of a value.
#[derive(Debug, Default)]
pub(super) struct PrefixTrie {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    /// What a value must continue with to reach this node.
    label: SmallVec<[u8; 16]>,
    /// First bytes of labels, sorted, and the nodes.
    children: SmallVec<[(u8, u32); 2]>,
    /// Prefixes that end here.
    here: Ids,
    /// Globs whose literal prefix ends here.
    globs: Vec<(Glob, u32)>,
}

impl PrefixTrie {
    pub(super) fn insert_prefix(&mut self, prefix: &str, id: u32) {
        let node = self.node(prefix.as_bytes());
        self.nodes[node].here.push(id);
    }

    pub(super) fn insert_glob(&mut self, pattern: &str, id: u32) {
        let glob = Glob::new(pattern);
        let node = self.node(glob.prefix().as_bytes());
        self.nodes[node].globs.push((glob, id));
    }

    /// Returns the node of a prefix, which is added if it is missing.
    fn node(&mut self, prefix: &[u8]) -> usize {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let (mut at, mut left) = (0, prefix);
        while let Some(first) = left.first() {
            let place = self.nodes[at].children.binary_search_by_key(first, |(byte, _)| *byte);
            at = match place {
                Err(place) => {
                    let child = self.add(left);
                    self.nodes[at].children.insert(place, (*first, child));
                    return child as usize;
                }
                Ok(place) => {
                    let child = self.nodes[at].children[place].1 as usize;
                    let label = &self.nodes[child].label;
                    let common = label.iter().zip(left).take_while(|(ours, theirs)| ours == theirs).count();
                    if common < label.len() {
                        self.split(child, common);
                    }
                    left = &left[common..];
                    child
                }
            };
        }
        at
    }

    /// Cuts the label of a node: the node keeps its start, and a new child has the rest with all that was below.
    fn split(&mut self, at: usize, length: usize) {
        let mut lower = std::mem::take(&mut self.nodes[at]);
        let upper = Node { label: lower.label[..length].into(), ..Node::default() };
        lower.label.drain(..length);
        let first = lower.label[0];
        self.nodes[at] = upper;
        let child = self.add(&[]);
        self.nodes[child as usize] = lower;
        self.nodes[at].children.push((first, child));
    }

    fn add(&mut self, label: &[u8]) -> u32 {
        let node = u32::try_from(self.nodes.len()).expect("fewer nodes than bytes of rules");
        self.nodes.push(Node { label: label.into(), ..Node::default() });
        node
    }

    /// Calls `found` for each prefix and glob that matches.
    pub(super) fn for_each_match(&self, value: &str, mut found: impl FnMut(u32)) {
        let Some(mut node) = self.nodes.first() else { return };
        let mut left = value.as_bytes();
        loop {
            node.here.iter().copied().for_each(&mut found);
            node.globs.iter().filter(|(glob, _)| glob.matches(value)).for_each(|(_, id)| found(*id));
            let Some(first) = left.first() else { return };
            let Ok(place) = node.children.binary_search_by_key(first, |(byte, _)| *byte) else { return };
            node = &self.nodes[node.children[place].1 as usize];
            let Some(after) = left.strip_prefix(&*node.label) else { return };
            left = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matching::glob::tests::slow;

    proptest! {
        #[test]
        fn decides_as_the_slow_model(
            patterns in prop::collection::vec("[abä]{0,5}(\\*[ab*]{0,3})?", 0..20),
            value in "[abä]{0,8}",
        ) {
            let mut trie = PrefixTrie::default();
            for (id, pattern) in (0..).zip(&patterns) {
                match pattern.strip_suffix('*') {
                    Some(prefix) if !prefix.contains('*') => trie.insert_prefix(prefix, id),
                    Some(_) | None => trie.insert_glob(pattern, id),
                }
            }
            let mut found = Vec::new();
            trie.for_each_match(&value, |id| found.push(id));
            found.sort_unstable();
            let matches = |pattern: &str| slow(pattern.as_bytes(), value.as_bytes());
            let expected: Vec<u32> =
                (0..).zip(&patterns).filter(|(_, pattern)| matches(pattern)).map(|(id, _)| id).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
