//! An append-only map for a few keys, whose values are created on first use.
//!
//! A limit has a counter for each combination of outcome and source that has occurred. Creating all possible ones would
//! fill exporters with zeros, and a hash map would need a lock to grow. A chain only grows at its end, so readers never
//! block. The most frequent keys tend to occur first, and are found first.

use std::sync::OnceLock;

/// Values by key, searched from the front: for few keys only.
#[derive(Debug)]
pub(crate) struct Chain<K, V> {
    first: OnceLock<Box<Link<K, V>>>,
}

#[derive(Debug)]
struct Link<K, V> {
    key: K,
    value: V,
    rest: Chain<K, V>,
}

impl<K, V> Default for Chain<K, V> {
    fn default() -> Self {
        Self { first: OnceLock::new() }
    }
}

impl<K: Copy + PartialEq, V> Chain<K, V> {
    /// Returns the key's value; creates it on first use.
    #[inline]
    pub(crate) fn get(&self, key: K, create: impl Fn() -> V) -> &V {
        let mut chain = self;
        loop {
            // If several threads create the next link at once, one wins, and the others continue with its link.
            let link =
                chain.first.get_or_init(|| Box::new(Link { key, value: create(), rest: Self::default() }));
            if link.key == key {
                return &link.value;
            }
            chain = &link.rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn each_key_has_one_value_that_is_created_once() {
        let (chain, created) = (Chain::default(), Cell::new(0));
        let get = |key: u8| {
            *chain.get(key, || {
                created.set(created.get() + 1);
                key * 10
            })
        };
        for key in [3, 1, 2, 3, 2, 1] {
            assert_eq!(get(key), key * 10);
        }
        assert_eq!(created.get(), 3);
    }
}
