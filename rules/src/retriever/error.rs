//! Why rules could not be loaded.

use std::fmt;

use tollgate_core::{ConfigError, StoreError};

use super::collect::ReadError;
use crate::diagnostic::RuleErrors;

/// Why rules could not be loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RetrieveError {
    /// A setting of the retriever is invalid.
    Config(ConfigError),
    /// The rules are wrong.
    Rules(RuleErrors),
    /// The source answers, but what it has cannot be rules: there is no such document, one is too large or no text.
    Unusable(String),
    /// The source does not answer.
    Unavailable(StoreError),
}

impl fmt::Display for RetrieveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Rules(errors) => errors.fmt(f),
            Self::Unusable(problem) => f.write_str(problem),
            Self::Unavailable(error) => write!(f, "the source of the rules does not answer: {error}"),
        }
    }
}

impl std::error::Error for RetrieveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Rules(errors) => Some(errors),
            Self::Unavailable(error) => Some(error),
            Self::Unusable(_) => None,
        }
    }
}

impl From<ReadError> for RetrieveError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unavailable(error) => Self::Unavailable(error),
            ReadError::Unusable(problem) => Self::Unusable(problem),
        }
    }
}
