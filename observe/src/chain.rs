//! Something for each of a few words, made when the word is first met.
//!
//! A limit has a counter for each outcome and source that it has seen. To make all that there could be would fill
//! exporters with zeros; a map would have to be locked to grow. A chain only ever grows at its end, so whoever reads
//! it waits for nobody, and what is met first, which is what is met most, is found first.

use std::sync::OnceLock;

/// Values by word. For few words: it is searched from the front.
#[derive(Debug)]
pub(crate) struct Chain<W, V> {
    first: OnceLock<Box<Link<W, V>>>,
}

#[derive(Debug)]
struct Link<W, V> {
    word: W,
    value: V,
    rest: Chain<W, V>,
}

impl<W, V> Default for Chain<W, V> {
    fn default() -> Self {
        Self { first: OnceLock::new() }
    }
}

impl<W: Copy + PartialEq, V> Chain<W, V> {
    /// The word's value; made, if it is the first time.
    #[inline]
    pub(crate) fn get(&self, word: W, make: impl Fn() -> V) -> &V {
        let mut chain = self;
        loop {
            // Of several that make the next link at once one wins; the others look at what it made, and go on.
            let link =
                chain.first.get_or_init(|| Box::new(Link { word, value: make(), rest: Self::default() }));
            if link.word == word {
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
    fn each_word_has_one_value_made_once() {
        let (chain, made) = (Chain::default(), Cell::new(0));
        let get = |word: u8| {
            *chain.get(word, || {
                made.set(made.get() + 1);
                word * 10
            })
        };
        for word in [3, 1, 2, 3, 2, 1] {
            assert_eq!(get(word), word * 10);
        }
        assert_eq!(made.get(), 3);
    }
}
