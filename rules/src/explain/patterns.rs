//! Conditions as text.

use std::fmt;

use crate::model::{Pattern, Test};

/// How many patterns of a long list are shown.
const SHOWN: usize = 5;

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(patterns) => write_list(patterns, "", "one of ", f),
            Self::NoneOf(patterns) => write_list(patterns, "not ", "none of ", f),
            Self::Present => f.write_str("present"),
            Self::Absent => f.write_str("absent"),
        }
    }
}

fn write_list(patterns: &[Pattern], one: &str, several: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(if patterns.len() == 1 { one } else { several })?;
    for (index, pattern) in patterns.iter().take(SHOWN).enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}{pattern}")?;
    }
    match patterns.len().checked_sub(SHOWN) {
        None | Some(0) => Ok(()),
        Some(more) => write!(f, " and {more} more"),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) | Self::Path(text) | Self::Glob(text) => f.write_str(text),
            Self::Prefix(text) => write!(f, "{text}*"),
            Self::Network(network) => write!(f, "{network}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}
