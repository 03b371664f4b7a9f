//! Edges of a tree: from a node and a text to a node. One table for all nodes of a tree.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// From a node and a text to a node.
#[derive(Debug, Default)]
pub(super) struct Edges {
    table: HashTable<Edge>,
    hashers: RandomState,
}

#[derive(Debug)]
struct Edge {
    from: u32,
    to: u32,
    text: Box<str>,
}

impl Edges {
    #[inline]
    pub(super) fn get(&self, from: u32, text: &str) -> Option<u32> {
        let found = self.table.find(hash(&self.hashers, from, text), |edge| edge.is(from, text));
        found.map(|edge| edge.to)
    }

    /// Adds an edge, unless there is one for this text.
    pub(super) fn insert(&mut self, from: u32, text: &str, to: u32) {
        let Self { table, hashers } = self;
        let rehash = |edge: &Edge| hash(hashers, edge.from, &edge.text);
        table.entry(hash(hashers, from, text), |edge| edge.is(from, text), rehash).or_insert_with(|| Edge {
            from,
            to,
            text: text.into(),
        });
    }
}

impl Edge {
    fn is(&self, from: u32, text: &str) -> bool {
        self.from == from && *self.text == *text
    }
}

#[inline]
fn hash(hashers: &RandomState, from: u32, text: &str) -> u64 {
    let mut hasher = hashers.build_hasher();
    hasher.write_u32(from);
    text.hash(&mut hasher);
    hasher.finish()
}
