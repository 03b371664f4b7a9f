//! Errors about identifiers that are configured in code.

use std::fmt;

/// Why identifiers cannot be configured like this.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentifierError {
    /// A trusted proxy is no address and no network.
    InvalidNetwork {
        /// What was given.
        text: String,
        /// What would be right.
        advice: String,
    },
    /// A prefix is not between one bit and the whole address.
    InvalidPrefix {
        /// What was given.
        prefix: u8,
        /// The length of an address of this kind in bits: 32 or 128.
        bits: u8,
    },
    /// An attribute cannot have this name.
    InvalidName {
        /// What was given.
        name: String,
        /// What would be right.
        advice: String,
    },
    /// An attribute was named twice.
    DuplicateName(String),
    /// An attribute is taken from itself, perhaps through others.
    Cycle(String),
    /// An attribute is taken from nothing.
    NoSource(String),
}

impl fmt::Display for IdentifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidNetwork { text, advice } => write!(f, "`{text}` is not a network: {advice}"),
            Self::InvalidPrefix { prefix, bits } => {
                let version = if *bits == 32 { "IPv4" } else { "IPv6" };
                write!(
                    f,
                    "a prefix of {prefix} bits is not possible: {version} prefixes have 1 to {bits} bits"
                )
            }
            Self::InvalidName { name, advice } => write!(f, "`{name}` cannot name an attribute: {advice}"),
            Self::DuplicateName(name) => {
                write!(f, "`{name}` is named twice: list all its sources at once, in the order of preference")
            }
            Self::Cycle(name) => {
                write!(f, "`{name}` is taken from itself: its sources must not lead back to `{name}`")
            }
            Self::NoSource(name) => {
                write!(
                    f,
                    "`{name}` is taken from nothing: list at least one source, such as `header.x-{name}`"
                )
            }
        }
    }
}

impl std::error::Error for IdentifierError {}
