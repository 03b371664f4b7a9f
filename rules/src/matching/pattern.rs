//! Patterns of values: single ones, lists of them, and an index of many.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use ipnet::IpNet;

use super::glob::Glob;
use super::network::{Networks, canonical, parse_address};
use super::path::{Ids, PathPattern, PathTrie};
use super::prefix::PrefixTrie;
use crate::model::Pattern;

/// A pattern that is ready to be compared.
#[derive(Debug)]
pub(super) enum Compiled {
    Exact(Box<str>),
    Prefix(Box<str>),
    Path(PathPattern),
    Glob(Glob),
    Network(IpNet),
}

impl Compiled {
    fn new(pattern: &Pattern) -> Self {
        match pattern {
            Pattern::Exact(text) => Self::Exact(text.clone()),
            Pattern::Prefix(text) => Self::Prefix(text.clone()),
            Pattern::Path(text) => Self::Path(PathPattern::new(text)),
            Pattern::Glob(text) => Self::Glob(Glob::new(text)),
            Pattern::Network(network) => Self::Network(canonical(*network)),
            Pattern::Address(address) => Self::Network(canonical(IpNet::from(*address))),
        }
    }

    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(text) => **text == *value,
            Self::Prefix(text) => value.starts_with(&**text),
            Self::Path(pattern) => pattern.matches(value),
            Self::Glob(glob) => glob.matches(value),
            Self::Network(network) => {
                parse_address(value).is_some_and(|address: IpAddr| network.contains(&address))
            }
        }
    }
}

impl Pattern {
    /// Returns whether a value matches. Compiles the pattern: for explanations only.
    pub(crate) fn matches(&self, value: &str) -> bool {
        Compiled::new(self).matches(value)
    }
}

/// A list of patterns of which one must match.
#[derive(Debug)]
pub(super) enum Patterns {
    Few(Box<[Compiled]>),
    Many(Box<PatternIndex>),
}

/// Lists up to this length are compared one by one.
const FEW: usize = 8;

impl Patterns {
    pub(super) fn new(patterns: &[Pattern]) -> Self {
        if patterns.len() <= FEW {
            return Self::Few(patterns.iter().map(Compiled::new).collect());
        }
        let mut index = PatternIndex::default();
        for pattern in patterns {
            index.insert(pattern, 0);
        }
        Self::Many(Box::new(index))
    }

    pub(super) fn matches(&self, value: &str) -> bool {
        match self {
            Self::Few(patterns) => patterns.iter().any(|pattern| pattern.matches(value)),
            Self::Many(index) => {
                let mut any = false;
                index.for_each_match(value, |_| any = true);
                any
            }
        }
    }
}

/// Many patterns for values of one attribute.
#[derive(Debug, Default)]
pub(super) struct PatternIndex {
    exact: HashMap<Box<str>, Ids, RandomState>,
    paths: PathTrie,
    prefixes: PrefixTrie,
    networks: Networks,
}

impl PatternIndex {
    pub(super) fn insert(&mut self, pattern: &Pattern, id: u32) {
        match pattern {
            Pattern::Exact(text) => self.exact.entry(text.clone()).or_default().push(id),
            Pattern::Prefix(text) => self.prefixes.insert_prefix(text, id),
            Pattern::Path(text) => self.paths.insert(text, id),
            Pattern::Glob(text) => self.prefixes.insert_glob(text, id),
            Pattern::Network(network) => self.networks.insert(*network, id),
            Pattern::Address(address) => self.networks.insert(IpNet::from(*address), id),
        }
    }

    /// Calls `found` for each pattern that matches.
    #[inline]
    pub(super) fn for_each_match(&self, value: &str, mut found: impl FnMut(u32)) {
        self.exact.get(value).into_iter().flatten().copied().for_each(&mut found);
        self.paths.for_each_match(value, &mut found);
        self.prefixes.for_each_match(value, &mut found);
        self.networks.for_each_match(value, found);
    }
}
